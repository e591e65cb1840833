//! End to end: the real binary, real kubectl, real clients. The tests of [`cluster`] run on a sandbox of their own, or with
//! `EVERYNODE_E2E_KUBECONFIG` in a namespace of their own on the cluster that this names (whose DaemonSet controller is already
//! running); those of [`sandbox`] then report that they are skipped.

#![forbid(unsafe_code)]

mod cluster;
mod observe;
mod sandbox;
mod world;
