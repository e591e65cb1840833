//! A suggested policy as a manifest, with the reason for each number.

use std::fmt;

use everynode_core::api::IntOrPercent;

use super::groups::{GROUPS_MAX, Kinds, Shares};
use super::times::{CANARY_BAKE_MIN, READY_WITHIN_MIN, READY_WITHIN_UNKNOWN, StartUp, Times};
use super::yaml::{Document, name, quoted};
use super::{Budget, Suggestion};
use crate::age::duration;
use crate::snapshot::ZONE_LABEL;

/// Restarts that may happen without a fault of the template.
const RESTARTS: u32 = 2;
/// The greatest `maxRestarts`.
const RESTARTS_MAX: u32 = 100;
/// The number of nodes of which one percent is a node.
const NODES_OF_ONE_PERCENT: usize = 100;

impl Suggestion {
    /// A RolloutPolicy as YAML, with comments.
    pub fn manifest(&self) -> String {
        let mut document = Document::default();
        let daemon_set = name(self.key.name.as_str());
        let namespace = name(self.key.namespace.as_str());
        document.comment(
            0,
            &format!(
                "A policy for the rollouts of daemonset {}, made for the {} that should run its \
                 pods now.",
                self.key,
                nodes(self.nodes)
            ),
        );
        document.lines(
            0,
            &format!(
                "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata:\n  \
                 name: {daemon_set}\n  namespace: {namespace}\nspec:\n  daemonSets:\n    \
                 name: {daemon_set}\n  steps:"
            ),
        );
        self.canary(&mut document);
        self.shares(&mut document);
        self.budget(&mut document);
        self.failure(&mut document);
        self.windows(&mut document);
        document.finish()
    }

    fn canary(&self, document: &mut Document) {
        document.comment(2, &self.why_these_first());
        document.lines(2, "- name: canary");
        if let Kinds::Many { label, most, .. } = &self.kinds {
            let values: Vec<String> = most.iter().map(|value| quoted(value)).collect();
            let values = values.join(", ");
            let term = format!("- {{key: {label}, operator: In, values: [{values}]}}");
            document.lines(4, &format!("nodes:\n  matchExpressions:\n  {term}"));
        }
        match &self.kinds {
            Kinds::Alike => {}
            Kinds::Few { label, .. } | Kinds::Many { label, .. } => {
                document.lines(4, &format!("each: {label}"));
            }
        }
        document.lines(4, "upTo: [1]");
        document.comment(
            4,
            &format!(
                "Longer than a pod takes to show that it fails: {}. At least {}, in which somebody \
                 can look.",
                self.times.parts(),
                written(CANARY_BAKE_MIN)
            ),
        );
        document.lines(4, &format!("bake: {}", written(self.times.canary_bake())));
    }

    fn why_these_first(&self) -> String {
        match &self.kinds {
            Kinds::Alike if self.nodes == 1 => "The only node.".to_owned(),
            Kinds::Alike => "One node first. No label tells kinds of machines apart.".to_owned(),
            Kinds::Few { label, kinds } => {
                let (with, without): (Vec<_>, Vec<_>) =
                    kinds.iter().partition(|(value, _)| value.is_some());
                let kinds: Vec<String> = with
                    .into_iter()
                    .chain(without)
                    .map(|(value, count)| {
                        let value = value.as_deref().unwrap_or("without it");
                        format!("{value} ({})", nodes(*count))
                    })
                    .collect();
                format!(
                    "One node of each kind of machine first, by the label {label}: {}.",
                    kinds.join(", ")
                )
            }
            Kinds::Many { label, kinds, most, nodes: count } => format!(
                "The label {label} tells {kinds} kinds of machines apart. One node of each of the \
                 {} most frequent first, so that the first wave stays small: {count} of {} are of \
                 these kinds.",
                most.len(),
                nodes(self.nodes),
            ),
        }
    }

    fn shares(&self, document: &mut Document) {
        if self.zones > GROUPS_MAX {
            let zones = self.zones;
            document.comment(
                2,
                &format!(
                    "Not zone by zone: {zones} zones would bake {zones} times, at least {}.",
                    duration(self.times.bake() * zones as u64)
                ),
            );
        }
        let percentages = match &self.shares {
            Shares::Rest if self.kinds.canaries() >= self.nodes => return,
            Shares::Rest => {
                document.comment(
                    2,
                    "Then all others in one wave: of so few nodes, 10% or 50% are no more than the \
                     first ones, or all.",
                );
                return;
            }
            Shares::OfZone(percentages, largest) => {
                let sizes = resolved(percentages, *largest);
                document.comment(
                    2,
                    &format!(
                        "Then zone by zone, so that a template that fails late reaches one zone at \
                         a time; of the largest one {sizes} of {}.",
                        nodes(*largest)
                    ),
                );
                document.lines(2, &format!("- name: zones\n  by: {ZONE_LABEL}"));
                percentages
            }
            Shares::OfAll(percentages) => {
                let sizes = resolved(percentages, self.nodes);
                document.comment(
                    2,
                    &format!(
                        "Then so many of all nodes: {sizes} of {}; and then all others.",
                        self.nodes
                    ),
                );
                document.lines(2, "- name: shares");
                percentages
            }
        };
        let sizes: Vec<String> =
            percentages.iter().map(|percent| quoted(&format!("{percent}%"))).collect();
        document.lines(4, &format!("upTo: [{}]", sizes.join(", ")));
        document.comment(4, "Longer than a pod takes to show that it fails, as above.");
        document.lines(4, &format!("bake: {}", written(self.times.bake())));
    }

    fn budget(&self, document: &mut Document) {
        let max = self.budget.max();
        document.comment(
            2,
            &match self.budget {
                Budget::Unavailable(_) => {
                    "As the updateStrategy of the DaemonSet has it: a greater number would have no \
                     effect."
                        .to_owned()
                }
                Budget::Surge(_) => {
                    "The maxSurge of the DaemonSet: new pods start on so many nodes at a time."
                        .to_owned()
                }
                Budget::Unstated => "The updateStrategy of the DaemonSet states no number: one \
                                     node at a time, as without this field."
                    .to_owned(),
            },
        );
        document.lines(2, &format!("maxUnavailable: {}", number(max)));
        if self.zones < 2 {
            return;
        }
        let of_zone = self.budget.of_zone(self.nodes);
        document.comment(
            2,
            &match (max, of_zone) {
                (IntOrPercent::Int(max), IntOrPercent::Percent(share)) => format!(
                    "{max} of {} are {share}%: of each zone no larger share, so that none loses \
                     more.",
                    nodes(self.nodes)
                ),
                _ => "Of each zone no more either, so that none loses more than others.".to_owned(),
            },
        );
        document.lines(
            2,
            &format!("maxUnavailablePer: {{label: {ZONE_LABEL}, max: {}}}", number(of_zone)),
        );
    }

    fn failure(&self, document: &mut Document) {
        document.lines(2, "failure:");
        let max_nodes = if self.nodes < NODES_OF_ONE_PERCENT {
            document.comment(
                4,
                "None may fail: only a node whose pod was available before can, so a single one \
                 speaks against the template.",
            );
            "0".to_owned()
        } else {
            document.comment(
                4,
                &format!(
                    "Of those that have the new template, rounded down: none of the first 99, and \
                     {} of all {}, since among so many some break by themselves.",
                    self.nodes / 100,
                    self.nodes
                ),
            );
            quoted("1%")
        };
        document.lines(4, &format!("maxNodes: {max_nodes}"));
        let restarts = self.restarts.saturating_add(RESTARTS).min(RESTARTS_MAX);
        let usual = match self.restarts {
            0 => String::new(),
            restarts => format!("Each of its pods has restarted {restarts} times or more. "),
        };
        document.comment(
            4,
            &format!(
                "{usual}{RESTARTS} restarts may be an accident, such as a dependency that starts \
                 later; a program that ends at once is restarted more often within a minute."
            ),
        );
        document.lines(4, &format!("maxRestarts: {restarts}"));
        document.comment(4, &self.times.why_ready_within());
        document.lines(4, &format!("readyWithin: {}", written(self.times.ready_within())));
        document
            .comment(4, "At once: until nodes have gone back, they have the template that failed.");
        document.lines(4, "rollbackAfter: 0s");
    }

    fn windows(&self, document: &mut Document) {
        if self.windows.is_empty() {
            return;
        }
        document.comment(2, "As asked for. Going back is not bound to them.");
        document.lines(2, "windows:");
        for window in &self.windows {
            document.lines(2, &format!("- {}", window.yaml()));
        }
    }
}

impl Times {
    /// The times that add up to the time until a pod has failed.
    fn parts(self) -> String {
        let start_up = match self.start_up {
            Some(seen) => format!("{seen}"),
            None => format!(
                "{} to become ready, an assumption, since no pod tells: as long as Kubernetes \
                 waits for the progress of a Deployment",
                duration(READY_WITHIN_UNKNOWN)
            ),
        };
        let others = [
            (self.min_ready, "of minReadySeconds"),
            (self.startup_probe, "until its startupProbe ends it"),
            (self.liveness_probe, "until its livenessProbe ends it"),
        ];
        let others = others.into_iter().filter(|(seconds, _)| *seconds > 0);
        let others = others.map(|(seconds, what)| format!("{} {what}", duration(seconds)));
        let parts: Vec<String> = [start_up].into_iter().chain(others).collect();
        match parts.len() {
            1 => parts.join(""),
            _ => format!("{}; together {}", parts.join(", "), duration(self.until_failure())),
        }
    }

    fn why_ready_within(self) -> String {
        let Some(seen) = self.start_up else {
            return "No pod tells how long it takes: as long as Kubernetes waits for the progress \
                    of a Deployment."
                .to_owned();
        };
        let probe = match self.startup_probe {
            0 => String::new(),
            seconds => format!(" It may take {} by its startupProbe.", duration(seconds)),
        };
        format!(
            "More than three times as long as pods take: {seen}.{probe} At least {}, since a new \
             image must be pulled first.",
            written(READY_WITHIN_MIN)
        )
    }
}

/// `8s to become ready, as 90% of 12 pods did at most`.
impl fmt::Display for StartUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = duration(self.seconds);
        match self.pods {
            1 => write!(f, "{seconds} to become ready, as the only pod that tells did"),
            pods @ ..10 => write!(f, "{seconds} to become ready, as all {pods} pods did at most"),
            pods => write!(f, "{seconds} to become ready, as 90% of {pods} pods did at most"),
        }
    }
}

/// A round duration as policies have it.
fn written(seconds: u64) -> String {
    match seconds / 60 {
        minutes if minutes % 60 == 0 => format!("{}h", minutes / 60),
        minutes => format!("{minutes}m"),
    }
}

/// `4, 20 and 40`.
fn resolved(percentages: &[u32], nodes: usize) -> String {
    let size = |percent: &u32| IntOrPercent::Percent(*percent).resolve(nodes).to_string();
    let sizes: Vec<String> = percentages.iter().map(size).collect();
    match &sizes[..] {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        sizes => sizes.join(""),
    }
}

fn number(number: IntOrPercent) -> String {
    match number {
        IntOrPercent::Int(number) => number.to_string(),
        IntOrPercent::Percent(_) => quoted(&number.to_string()),
    }
}

fn nodes(count: usize) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}
