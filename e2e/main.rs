//! End to end: the real binary, real kubectl, real clients. Each test has a sandbox of its own, or with
//! `EVERYNODE_E2E_KUBECONFIG` a namespace of its own on the cluster that this names (whose DaemonSet controller is already
//! running); tests that need the sandbox then say that they are skipped.

#![forbid(unsafe_code)]

mod agents;
mod bad_input;
mod completion;
mod conversation;
mod deploy;
mod insight;
mod kubectl;
mod monitoring;
mod observe;
mod on_terminal;
mod operate;
mod python;
mod quick_start;
mod rights;
mod sandbox;
mod scenarios;
mod separate_process;
mod streams;
mod watch;
mod world;
