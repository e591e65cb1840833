//! Reasons against a pod on a node, in a form that nodes with different labels can share, with
//! what the nodes have instead.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{Node, NodeSelectorTerm};
use everynode_core::placement::Reason;

use crate::controller_view::ControllerView;
use crate::program::command;

/// The maximum number of values of a label that are named.
const VALUES_MAX: usize = 3;

/// The values of each label on all nodes, or more than are named.
pub(crate) struct SeenLabels(BTreeMap<String, BTreeSet<String>>);

impl SeenLabels {
    pub(crate) fn of(view: &ControllerView<'_>) -> Self {
        let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for detail in view.snapshot.nodes.values() {
            for (key, value) in detail.node.labels.iter() {
                let values = match seen.get_mut(&**key) {
                    Some(values) => values,
                    None => seen.entry(key.to_string()).or_default(),
                };
                if values.len() <= VALUES_MAX + 1 && !values.contains(&**value) {
                    values.insert(value.to_string());
                }
            }
        }
        Self(seen)
    }

    /// The label as the nodes have it, such as `zone=a, b`; `None` if the values that count are too
    /// many to be named, or none.
    fn named(&self, key: &str, counts: impl Fn(&str) -> bool) -> Option<String> {
        let values = self.0.get(key)?.iter().map(String::as_str).filter(|value| counts(value));
        let values: Vec<&str> = values.collect();
        let is_few = (1..=VALUES_MAX).contains(&values.len());
        is_few.then(|| format!("{key}={}", values.join(", ")))
    }
}

/// True if the node gets no pod for being down, of which its taint says nothing more.
pub(crate) fn is_down(reason: &Reason<'_>) -> bool {
    match reason {
        Reason::Taint(taint) => ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
            .contains(&&*taint.key),
        _ => false,
    }
}

/// All reasons as one text. It names the values that the nodes have as far as they are few, so
/// that nodes with different values form one group. Of nodes that get no pod anyway it leaves out
/// that they are down.
pub(crate) fn shared_text(reasons: &[Reason<'_>], node: &Node, seen: &SeenLabels) -> String {
    let are_down = reasons.iter().all(is_down);
    let stated = reasons.iter().filter(|reason| are_down || !is_down(reason));
    let texts: Vec<String> = stated.map(|reason| text(reason, node, seen)).collect();
    texts.join("; ")
}

fn text(reason: &Reason<'_>, node: &Node, seen: &SeenLabels) -> String {
    match reason {
        Reason::NodeSelector { key, wanted, found } => {
            let found = mismatch(key, wanted, *found, node, seen);
            format!("nodeSelector wants {key}={wanted}, {found}")
        }
        Reason::NamespaceNodeSelector { key, wanted, found } => {
            let found = mismatch(key, wanted, *found, node, seen);
            format!("the namespace's node selector wants {key}={wanted}, {found}")
        }
        Reason::NodeAffinity { terms } => match affinity_found(terms, node, seen) {
            Some(found) => format!("{reason}, {found}"),
            None => reason.to_string(),
        },
        Reason::NodeName { .. } | Reason::Taint(_) => reason.to_string(),
    }
}

/// The values that the nodes have instead of the wanted value of a label.
fn mismatch(
    key: &str,
    wanted: &str,
    found: Option<&str>,
    node: &Node,
    seen: &SeenLabels,
) -> String {
    match found {
        Some(_) => match seen.named(key, |value| value != wanted) {
            Some(others) => nodes_have(&others),
            None => "the node has another value".to_owned(),
        },
        None => match similar(key, node, seen) {
            Some(similar) => format!("the node has no such label, but {similar}"),
            None => "the node has no such label".to_owned(),
        },
    }
}

/// `the node has zone=a`, or `the nodes have zone=a, b`.
fn nodes_have(what: &str) -> String {
    let subject = if what.contains(", ") { "the nodes have" } else { "the node has" };
    format!("{subject} {what}")
}

/// A label of the node whose key can be mistaken for the wanted one: it differs in case,
/// punctuation or prefix only.
fn similar(key: &str, node: &Node, seen: &SeenLabels) -> Option<String> {
    let plain = |key: &str| -> String {
        let name = key.rsplit('/').next().unwrap_or(key);
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let wanted = plain(key);
    let (key, _) = node.labels.iter().find(|(other, _)| plain(other) == wanted)?;
    Some(seen.named(key, |_| true).unwrap_or_else(|| key.to_string()))
}

/// The nodes' values of the labels that the terms require and that do not match.
fn affinity_found(terms: &[NodeSelectorTerm], node: &Node, seen: &SeenLabels) -> Option<String> {
    let parsed = terms.iter().filter_map(|term| match term {
        NodeSelectorTerm::Parsed(term) => Some(term),
        NodeSelectorTerm::Malformed(_) => None,
    });
    let mut found: Vec<String> = Vec::new();
    for requirement in parsed.flat_map(|term| &term.match_expressions) {
        let key = &requirement.key;
        let value = node.labels.get(key).map(|value| &**value);
        if requirement.operator.matches(value) {
            continue;
        }
        let fails = |value: &str| !requirement.operator.matches(Some(value));
        let text = match value {
            Some(_) => seen.named(key, fails),
            None => Some(match similar(key, node, seen) {
                Some(similar) => format!("no {key}, but {similar}"),
                None => format!("no {key}"),
            }),
        };
        found.extend(text.filter(|text| !found.contains(text)));
    }
    (!found.is_empty()).then(|| nodes_have(&found.join(" and ")))
}

/// A command that shows what the reasons are about on all nodes.
pub(crate) fn next_step(reasons: &[Reason<'_>], view: &ControllerView<'_>) -> String {
    let labels = |keys: &[&str]| {
        let options: Vec<String> = keys.iter().map(|key| format!(" -L {key}")).collect();
        format!("kubectl get nodes{}", options.concat())
    };
    match reasons.first() {
        Some(Reason::NodeSelector { key, .. } | Reason::NamespaceNodeSelector { key, .. }) => {
            labels(&[key])
        }
        Some(Reason::NodeAffinity { terms }) => {
            let mut keys: Vec<&str> = Vec::new();
            for term in *terms {
                if let NodeSelectorTerm::Parsed(term) = term {
                    keys.extend(term.match_expressions.iter().map(|it| &*it.key));
                }
            }
            keys.dedup();
            labels(&keys)
        }
        Some(Reason::Taint(_)) => {
            "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints".to_owned()
        }
        Some(Reason::NodeName { .. }) => "kubectl get nodes".to_owned(),
        None => {
            let key = &view.daemon_set().key;
            command(format_args!("explain ds/{} -n {}", key.name, key.namespace))
        }
    }
}
