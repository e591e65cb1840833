//! Stories that hold on every cluster: a sandbox, or the one that `EVERYNODE_E2E_KUBECONFIG` names. They touch nothing outside a
//! namespace of their own but labels and taints of nodes, which they take back.

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
