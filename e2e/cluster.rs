//! Tests that pass on every cluster: a sandbox, or the cluster of `EVERYNODE_E2E_KUBECONFIG`.
//! Outside their own namespace they change only labels and taints of nodes, which they restore.

pub(crate) mod causes;
mod commands;
mod conformance;
mod custom_resources;
mod delete;
mod guarded;
pub(crate) mod kubectl;
mod night;
pub(crate) mod nodes;
mod order_rights;
mod ownership;
mod pause;
pub(crate) mod placement;
mod policies;
mod python;
pub(crate) mod revisions;
mod rolling;
mod server_side_apply;
