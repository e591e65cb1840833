//! Tests that pass on every cluster: a sandbox, or the cluster of `EVERYNODE_E2E_KUBECONFIG`.
//! Outside their own namespace they change only labels and taints of nodes, which they restore.

mod commands;
mod conformance;
mod delete;
pub mod kubectl;
pub mod nodes;
mod ownership;
pub mod placement;
mod python;
pub mod revisions;
mod rolling;
