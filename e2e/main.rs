//! End-to-end tests with the real binary, kubectl and client libraries.
//!
//! The tests of [`cluster`] run in their own sandbox or, with `EVERYNODE_E2E_KUBECONFIG`, in their
//! own namespace on an existing cluster whose DaemonSet controller is running: everynode's, or for
//! those of [`beside`] the built-in one. The tests of [`sandbox`] always start their own
//! sandbox; `make e2e-real` leaves them out by their names. Those of [`nodes`] run on real
//! kubelets, which a program starts that `EVERYNODE_NODES` names.

#![forbid(unsafe_code)]

mod beside;
mod cluster;
mod nodes;
mod observe;
mod sandbox;
mod world;
