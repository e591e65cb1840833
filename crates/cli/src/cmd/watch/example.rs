//! Example views for tests and for the picture in docs/.

use everynode_core::api::IntOrPercent::{self, Int, Percent};
use everynode_core::api::UpdateStrategy;
use everynode_core::daemon_set::{SetAside, StateCounts};
use everynode_insight::events::EventLine;
use everynode_insight::overview::{
    Estimate, EstimateBasis, Overview, Progress, RevisionCount, Zone,
};
use everynode_insight::rollout::{GuardedWave, HeldUpNodes, Phase, Strategy};
use everynode_insight::rollout_nodes::States;
use everynode_insight::situation::Situation;

use super::view::{Connection, Content, View};

/// An example view.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Example {
    FirstPlacement,
    Rollout,
    CrashLoop,
    OnDelete,
    Surge,
    Done,
    Deleted,
    Large,
    NoNodes,
    Guarded,
}

impl Example {
    pub(crate) const ALL: [Self; 10] = [
        Self::FirstPlacement,
        Self::Rollout,
        Self::CrashLoop,
        Self::OnDelete,
        Self::Surge,
        Self::Done,
        Self::Deleted,
        Self::Large,
        Self::NoNodes,
        Self::Guarded,
    ];
}

/// The view of an example.
pub(crate) fn view(example: Example) -> View {
    match example {
        Example::FirstPlacement => live(first_placement()),
        Example::Rollout => live(rollout()),
        Example::CrashLoop => live(crash_loop()),
        Example::OnDelete => live(on_delete()),
        Example::Surge => View {
            connection: Connection::Lost {
                seconds: 42,
                cause: "no connection to https://10.0.0.1:6443: connection refused".to_owned(),
            },
            ..live(surge())
        },
        Example::Done => live(done()),
        Example::Deleted => View { content: Content::Deleted, ..live(done()) },
        Example::Large => live(large()),
        Example::NoNodes => View {
            notes: vec![
                "user \"jane\" may not watch nodes in the whole cluster: ask for a ClusterRole \
                 with apiGroups [\"\"], resources [\"nodes\"], verbs [\"watch\"]"
                    .to_owned(),
            ],
            ..live(Overview { zones: Vec::new(), ..crash_loop() })
        },
        Example::Guarded => live(guarded()),
    }
}

fn live(overview: Overview) -> View {
    let event = |age_seconds, is_warning, reason: &str, message: &str, count| EventLine {
        about: "daemonset infra/agent".to_owned(),
        age_seconds,
        is_warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
        count,
    };
    View {
        title: "daemonset logging/fluentd".to_owned(),
        cluster: "prod (https://10.0.0.1:6443)".to_owned(),
        content: Content::Loaded(Box::new(overview)),
        connection: Connection::Live,
        notes: Vec::new(),
        events: vec![
            event(4, false, "SuccessfulCreate", "Created pod: fluentd-x7k2p", 1),
            event(5, false, "SuccessfulDelete", "Deleted pod: fluentd-9hq4z", 1),
            event(75, true, "FailedPlacement", "failed to place pod on \"node-07\":\nno room", 3),
        ],
    }
}

/// One zone for each list; a list contains runs of nodes in the same situation.
fn zones(zones: &[&[(Situation, usize)]]) -> Vec<Zone> {
    let zone = |(index, runs): (usize, &&[(Situation, usize)])| Zone {
        name: Some(format!("europe-west{}", index + 1)),
        nodes: runs.iter().flat_map(|(situation, count)| vec![*situation; *count]).collect(),
    };
    zones.iter().enumerate().map(zone).collect()
}

fn named(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|number| format!("node-{number:02}")).collect()
}

fn held_up(situation: Situation, why: &str, next: Option<&str>, nodes: Vec<String>) -> HeldUpNodes {
    let (why, next, count) = (why.to_owned(), next.map(str::to_owned), nodes.len());
    HeldUpNodes { situation, why, detail: None, next, nodes, count }
}

fn revision(number: i64, hash: &str, pods: usize, available: usize) -> RevisionCount {
    RevisionCount {
        number: Some(number),
        hash: hash.to_owned(),
        is_current: number == 4,
        pods,
        available,
        age_seconds: None,
    }
}

fn done() -> Overview {
    Overview {
        update_strategy: rolling_update(Int(1), Int(0)),
        phase: Phase::Done,
        progress: Progress { desired: 20, updated: 20, ready: 20, available: 20, done: 20 },
        waits_for: String::new(),
        next: None,
        full_node: None,
        wave: None,
        revisions: vec![revision(4, "6d5f8bc9c4", 20, 20)],
        zones: zones(&[
            &[(Situation::UpToDate, 8)],
            &[(Situation::UpToDate, 6), (Situation::Excluded, 2)],
            &[(Situation::UpToDate, 6), (Situation::Lingering, 1)],
        ]),
        held_up: Vec::new(),
        estimate: Estimate::Done,
        problems: Vec::new(),
    }
}

fn first_placement() -> Overview {
    let creating = "ContainerCreating";
    Overview {
        phase: Phase::Progressing,
        progress: Progress { desired: 20, updated: 17, ready: 6, available: 6, done: 6 },
        waits_for: format!("{creating} on 11 nodes: node-07..17"),
        revisions: vec![revision(4, "6d5f8bc9c4", 17, 6)],
        zones: zones(&[
            &[(Situation::UpToDate, 6), (Situation::NotReady, 2)],
            &[(Situation::NotReady, 8)],
            &[(Situation::NotReady, 1), (Situation::Missing, 3)],
        ]),
        held_up: vec![
            held_up(
                Situation::Missing,
                "not created",
                Some("the controller creates it when its turn comes"),
                named(18, 3),
            ),
            held_up(Situation::NotReady, creating, None, named(7, 11)),
        ],
        estimate: Estimate::In { seconds: 16, basis: EstimateBasis::StartUp { seconds: 8 } },
        ..done()
    }
}

fn rollout() -> Overview {
    Overview {
        phase: Phase::Progressing,
        progress: Progress { desired: 20, updated: 9, ready: 18, available: 18, done: 8 },
        waits_for: "ContainerCreating on 1 node: node-09".to_owned(),
        revisions: vec![revision(4, "6d5f8bc9c4", 9, 8), revision(3, "58c7f9d9b6", 10, 10)],
        zones: zones(&[
            &[(Situation::UpToDate, 8)],
            &[(Situation::NotReady, 1), (Situation::Terminating, 1), (Situation::Outdated, 6)],
            &[(Situation::Outdated, 4)],
        ]),
        held_up: vec![
            held_up(Situation::NotReady, "ContainerCreating, current revision", None, named(9, 1)),
            held_up(
                Situation::Terminating,
                "its pod is terminating",
                Some("a new one is created when it is gone"),
                named(10, 1),
            ),
            held_up(
                Situation::Outdated,
                "older revision, waiting to be replaced",
                None,
                named(11, 10),
            ),
        ],
        estimate: Estimate::In {
            seconds: 260,
            basis: EstimateBasis::Pace { nodes: 7, seconds: 151 },
        },
        ..done()
    }
}

fn crash_loop() -> Overview {
    let logs = |pod: &str| format!("kubectl -n logging logs {pod} -c fluentd --previous");
    Overview {
        phase: Phase::Failing,
        progress: Progress { desired: 20, updated: 3, ready: 17, available: 17, done: 0 },
        waits_for:
            "CrashLoopBackOff of container fluentd (Error, exit code 1) on 3 nodes: node-01..03"
                .to_owned(),
        revisions: vec![revision(4, "6d5f8bc9c4", 3, 0), revision(3, "58c7f9d9b6", 17, 17)],
        zones: zones(&[
            &[(Situation::Failing, 2), (Situation::NodeNotReady, 1), (Situation::Outdated, 5)],
            &[(Situation::Outdated, 8)],
            &[(Situation::Outdated, 4)],
        ]),
        held_up: vec![
            held_up(
                Situation::Failing,
                "CrashLoopBackOff of container fluentd (Error, exit code 1), current revision",
                Some(&logs("fluentd-x7k2p")),
                named(1, 2),
            ),
            held_up(
                Situation::NodeNotReady,
                "the node is not ready, current revision",
                Some("its pod can't become ready before the node does"),
                named(3, 1),
            ),
            held_up(
                Situation::Outdated,
                "older revision, waiting to be replaced",
                None,
                named(4, 17),
            ),
        ],
        estimate: Estimate::Blocked,
        update_strategy: rolling_update(Int(3), Int(0)),
        ..done()
    }
}

fn on_delete() -> Overview {
    let why = "older revision, to be deleted manually (OnDelete)";
    Overview {
        update_strategy: Strategy(UpdateStrategy::OnDelete),
        phase: Phase::AwaitsDeletion,
        progress: Progress { desired: 20, updated: 12, ready: 20, available: 20, done: 12 },
        waits_for: "older revision, to be deleted manually (OnDelete) on 8 nodes: node-13..20"
            .to_owned(),
        revisions: vec![revision(4, "6d5f8bc9c4", 12, 12), revision(3, "58c7f9d9b6", 8, 8)],
        zones: zones(&[&[(Situation::UpToDate, 12), (Situation::Outdated, 8)]]),
        held_up: vec![held_up(Situation::Outdated, why, None, named(13, 8))],
        estimate: Estimate::AwaitsDeletion,
        ..done()
    }
}

/// The canary of a guarded rollout bakes.
fn guarded() -> Overview {
    let mut states = StateCounts { done: 2, ..StateCounts::default() };
    states.set_aside[SetAside::Down as usize] = 1;
    Overview {
        progress: Progress { desired: 20, updated: 2, ready: 20, available: 20, done: 2 },
        waits_for: "waiting for the end of the bake time of wave canary".to_owned(),
        next: None,
        full_node: None,
        wave: Some(GuardedWave {
            name: Some("canary".to_owned()),
            number: 1,
            waves: 8,
            nodes: 3,
            nodes_done: 2,
            states: States(states),
            bake_seconds_left: Some(754),
        }),
        revisions: vec![revision(4, "6d5f8bc9c4", 2, 2), revision(3, "58c7f9d9b6", 18, 18)],
        zones: zones(&[
            &[(Situation::UpToDate, 1), (Situation::Outdated, 7)],
            &[(Situation::UpToDate, 1), (Situation::Outdated, 7)],
            &[(Situation::Outdated, 4)],
        ]),
        held_up: vec![held_up(
            Situation::Outdated,
            "older revision, its wave is not open",
            None,
            named(3, 18),
        )],
        estimate: Estimate::Unknown,
        ..rollout()
    }
}

fn surge() -> Overview {
    Overview {
        update_strategy: rolling_update(Int(0), Percent(25)),
        progress: Progress { desired: 20, updated: 11, ready: 20, available: 20, done: 6 },
        revisions: vec![revision(4, "6d5f8bc9c4", 11, 6), revision(3, "58c7f9d9b6", 14, 14)],
        zones: zones(&[
            &[(Situation::UpToDate, 6), (Situation::NotYetAvailable, 5)],
            &[(Situation::Outdated, 9)],
        ]),
        held_up: vec![
            held_up(
                Situation::NotYetAvailable,
                "ready for less than minReadySeconds (10 s), current revision",
                None,
                named(7, 5),
            ),
            held_up(
                Situation::Outdated,
                "older revision, waiting to be replaced",
                None,
                named(12, 9),
            ),
        ],
        ..rollout()
    }
}

/// 125 nodes in each of 40 zones: some are done, a few fail, and the others wait.
fn large() -> Overview {
    let zone = |number: usize| Zone {
        name: Some(format!("zone-{number:02}")),
        nodes: (0..125)
            .map(|node| match (number * 125 + node, number * 125 + node < 2100) {
                (777 | 1234 | 1900, _) => Situation::Failing,
                (2050..2090, _) => Situation::NotReady,
                (_, true) => Situation::UpToDate,
                (_, false) => Situation::Outdated,
            })
            .collect(),
    };
    let all = |numbers: &mut dyn Iterator<Item = usize>| -> Vec<String> {
        numbers.map(|number| format!("node-{number:04}")).collect()
    };
    Overview {
        update_strategy: rolling_update(Percent(1), Int(0)),
        phase: Phase::Failing,
        progress: Progress {
            desired: 5000,
            updated: 2100,
            ready: 4957,
            available: 4957,
            done: 2057,
        },
        waits_for:
            "ImagePullBackOff of container fluentd on 3 nodes: node-0777, node-1234, node-1900"
                .to_owned(),
        revisions: vec![
            revision(4, "6d5f8bc9c4", 2100, 2057),
            revision(3, "58c7f9d9b6", 2900, 2900),
        ],
        zones: (0..40).map(zone).collect(),
        held_up: vec![
            held_up(
                Situation::Failing,
                "ImagePullBackOff of container fluentd, current revision",
                Some("kubectl -n logging describe pod fluentd-x7k2p"),
                all(&mut [777, 1234, 1900].into_iter()),
            ),
            held_up(
                Situation::NotReady,
                "ContainerCreating, current revision",
                None,
                all(&mut (2050..2090)),
            ),
            held_up(
                Situation::Outdated,
                "older revision, waiting to be replaced",
                None,
                all(&mut (2100..5000)),
            ),
        ],
        estimate: Estimate::In {
            seconds: 1712,
            basis: EstimateBasis::Pace { nodes: 99, seconds: 58 },
        },
        ..done()
    }
}

fn rolling_update(max_unavailable: IntOrPercent, max_surge: IntOrPercent) -> Strategy {
    Strategy(UpdateStrategy::RollingUpdate { max_unavailable, max_surge })
}
