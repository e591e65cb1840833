//! Stories on real kubelets: each does something to a DaemonSet or its nodes, once with everynode
//! and once with the built-in controller, and docs/real-nodes.md says what each of them did.
//!
//! The program of `EVERYNODE_NODES` starts the control plane and the nodes; without it no story is
//! played. All pods are recorded, and the record is checked: never two pods on one node, no pod
//! taken away beyond the budget, nothing lost. What people are told is compared with it, too.

mod budget;
mod faults;
mod fixture;
mod manifest;
mod night;
mod page;
mod record;
mod state;
mod story;
mod told;
