//! Example lists for tests.

use everynode_core::api::{IntOrPercent, NodeName, UpdateStrategy};
use everynode_insight::rollout::{
    Age, Cause, CauseKind, HeldUpPod, Pause, Phase, Rollout, Strategy,
};

use super::list::List;

/// Its cluster.
pub(super) const CLUSTER: &str = "prod (https://10.0.0.1:6443)";

/// A list that has been read.
pub(super) fn list() -> List {
    let mut list = List::new("all namespaces".to_owned(), CLUSTER.to_owned());
    list.replace(rollouts(), Vec::new());
    list
}

/// Rollouts in several states.
pub(super) fn rollouts() -> Vec<Rollout> {
    let refused = Cause {
        message: Some(
            "error looking up service account infra/collector: serviceaccount \"collector\" not \
             found"
                .to_owned(),
        ),
        ..cause(CauseKind::CreationFails, Age::Long, "can't be created")
    };
    let on_delete = "older revision, to be deleted manually (OnDelete)";
    let on_delete = cause(CauseKind::AwaitsDeletion, Age::Short, on_delete);
    vec![
        rollout(("default", "crasher"), Phase::Failing, [6, 0, 0], refused),
        rollout(("infra", "collector-with-a-long-name"), Phase::Failing, [20, 3, 17], outdated()),
        rollout(("infra", "agent"), Phase::Progressing, [5000, 4200, 4999], outdated()),
        rollout(("infra", "old"), Phase::AwaitsDeletion, [3, 0, 3], on_delete),
        rollout(("kube-system", "fluentd"), Phase::Done, [20, 20, 20], outdated()),
        rollout(("kube-system", "proxy"), Phase::Done, [20, 20, 20], outdated()),
    ]
}

/// Many rollouts.
pub(super) fn many(count: usize) -> Vec<Rollout> {
    let one = |number: usize| {
        let name = format!("daemon-set-{number:05}");
        rollout(("infra", &name), Phase::Progressing, [9, 4, 8], outdated())
    };
    (0..count).map(one).collect()
}

fn outdated() -> Cause {
    let text = "older revision, waiting to be replaced";
    cause(CauseKind::AwaitsReplacement, Age::Short, text)
}

fn cause(kind: CauseKind, age: Age, text: &str) -> Cause {
    Cause { kind, age, text: text.to_owned(), message: None, next: None }
}

fn rollout(
    (namespace, name): (&str, &str),
    phase: Phase,
    [desired, updated, available]: [u32; 3],
    cause: Cause,
) -> Rollout {
    let held_up = |number: u32| HeldUpPod {
        node: Some(NodeName::from(format!("node-{number:04}").as_str())),
        pod: Some(format!("{name}-x7k2p")),
        desired: true,
        outdated: false,
        stuck: phase == Phase::Failing,
        set_aside: None,
        leaving_by: None,
        cause: cause.clone(),
    };
    Rollout {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        phase,
        desired,
        updated,
        ready: available,
        available,
        missing: 0,
        pause: Pause::No,
        guard: None,
        update_strategy: Strategy(UpdateStrategy::RollingUpdate {
            max_unavailable: IntOrPercent::Int(1),
            max_surge: IntOrPercent::Int(0),
        }),
        deletion: None,
        no_node: None,
        long_unobserved: false,
        next: None,
        notes: Vec::new(),
        held_up: if phase == Phase::Done { Vec::new() } else { (1..=3).map(held_up).collect() },
    }
}
