//! The steps of which random histories of a guarded rollout consist.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::Kind;

use super::NODES;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Template(u8),
    Order(Verb),
    /// An order about a template that is not the current one.
    Misdirected(Verb),
    Pause(bool),
    Policy(Guard),
    Unready(Index),
    DeletePod(Index),
    AddNode(u8),
    Fault(&'static str),
    NoResponse(&'static str, bool),
    Delay(Kind),
    Deliver,
    Restart,
    Advance(u16),
    Kubelets,
    Sync,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    ApproveCanary,
    PromoteCanary,
    PromoteFull,
    Abort,
    Retry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    Valid,
    Invalid,
    None,
}

fn verb() -> impl Strategy<Value = Verb> {
    prop::sample::select(vec![
        Verb::ApproveCanary,
        Verb::ApproveCanary,
        Verb::PromoteCanary,
        Verb::PromoteFull,
        Verb::Abort,
        Verb::Retry,
    ])
}

fn write() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["write record", "create pod", "delete pod", "create revision"])
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::DaemonSets), Just(Kind::Pods), Just(Kind::Revisions)]
}

/// Events of the rollout, the controller and the API server, without any harm to pods.
pub(super) fn harmless() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u8..4).prop_map(Step::Template),
        3 => verb().prop_map(Step::Order),
        1 => verb().prop_map(Step::Misdirected),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => write().prop_map(Step::Fault),
        1 => (write(), any::<bool>()).prop_map(|(write, takes)| Step::NoResponse(write, takes)),
        1 => kind().prop_map(Step::Delay),
        2 => Just(Step::Deliver),
        1 => Just(Step::Restart),
        2 => (0u16..400).prop_map(Step::Advance),
        8 => Just(Step::Kubelets),
        16 => Just(Step::Sync),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let guard = prop::sample::select(vec![Guard::Valid, Guard::Invalid, Guard::None]);
    prop_oneof![
        8 => harmless(),
        1 => any::<Index>().prop_map(Step::Unready),
        1 => any::<Index>().prop_map(Step::DeletePod),
        1 => (NODES..NODES + 3).prop_map(Step::AddNode),
        1 => guard.prop_map(Step::Policy),
    ]
}
