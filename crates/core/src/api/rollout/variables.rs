//! The variables of a check's query, such as `$revision` (G46).

use std::fmt::Write;
use std::sync::Arc;

use crate::api::{DaemonSetKey, NodeName, PodName, RevisionHash};

use super::wave_name::WaveName;

/// Maximum length of the regular expressions `$nodes` and `$pods`, in bytes: names that come later
/// are left out.
const NAMES_LENGTH_MAX: usize = 4_000;
/// A regular expression that matches no name, for a list without names: an empty one would match
/// series without the label.
const NO_NAME: &str = "-";

/// The subject of a check: the values of the variables that a query may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSubject {
    /// `$namespace` and `$daemonset`.
    pub daemon_set: DaemonSetKey,
    /// `$revision`: the hash in the label `controller-revision-hash` of the new pods.
    pub revision: RevisionHash,
    /// `$baseRevision`: that of the base; empty without one.
    pub base: Option<RevisionHash>,
    /// `$wave`.
    pub wave: WaveName,
    /// `$nodes`: the nodes of the wave that have a new pod.
    pub nodes: Vec<NodeName>,
    /// `$pods`: the new pods on them.
    pub pods: Vec<PodName>,
}

impl CheckSubject {
    /// The query with the values of its variables. Other words that begin with `$` stay.
    pub(super) fn expand(&self, query: &str) -> Arc<str> {
        let mut parts = query.split('$');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, rest) = part.split_at(end.unwrap_or(part.len()));
            match self.value(name) {
                Some(value) => text += &value,
                None => {
                    text.push('$');
                    text += name;
                }
            }
            text += rest;
        }
        text.into()
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "namespace" => self.daemon_set.namespace.to_string(),
            "daemonset" => self.daemon_set.name.to_string(),
            "revision" => self.revision.to_string(),
            "baseRevision" => self.base.as_ref().map(ToString::to_string).unwrap_or_default(),
            "wave" => self.wave.to_string(),
            "nodes" => any_of(self.nodes.iter().map(NodeName::as_str)),
            "pods" => any_of(self.pods.iter().map(PodName::as_str)),
            _ => return None,
        })
    }
}

/// A regular expression that matches exactly these names, in their order.
fn any_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    let mut text = String::new();
    for name in names {
        let separator = if text.is_empty() { "" } else { "|" };
        // A dot in brackets: a query would need two backslashes.
        let name = name.replace('.', "[.]");
        if text.len() + separator.len() + name.len() > NAMES_LENGTH_MAX {
            break;
        }
        write!(text, "{separator}{name}").expect("a string takes everything");
    }
    if text.is_empty() { NO_NAME.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(nodes: &[&str]) -> CheckSubject {
        CheckSubject {
            daemon_set: DaemonSetKey::new("logging", "fluentd"),
            revision: "5d4f".into(),
            base: None,
            wave: "zones/eu-1:50%".into(),
            nodes: nodes.iter().map(|name| (*name).into()).collect(),
            pods: Vec::new(),
        }
    }

    /// G46: a query names what is rolled out and where; what is no variable stays.
    #[test]
    fn variables_have_the_values_of_the_subject() {
        let of_two = subject(&["b.example", "a"]);
        for (query, expected) in [
            ("up", "up"),
            (r#"e{h="$revision",n=~"$nodes"} > 1"#, r#"e{h="5d4f",n=~"a|b[.]example"} > 1"#),
            ("$namespace/$daemonset $wave", "logging/fluentd zones/eu-1:50%"),
            (r#"e{b="$baseRevision",p=~"$pods"}"#, r#"e{b="",p=~"-"}"#),
            (r#"e{n=~"a$",m="$NODES",o="$nodes_x"}$"#, r#"e{n=~"a$",m="$NODES",o="$nodes_x"}$"#),
        ] {
            assert_eq!(&*of_two.expand(query), expected);
        }
    }

    /// G46: a wave of any size makes a query of limited length, of whole names.
    #[test]
    fn names_are_cut_by_their_length() {
        let names: Vec<String> = (0..10_000).map(|index| format!("node-{index:05}.eu")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let query = subject(&names).expand("$nodes");
        assert!(query.len() <= NAMES_LENGTH_MAX && query.ends_with("[.]eu"), "{query}");
        assert!(query.starts_with("node-00000[.]eu|node-00001[.]eu|"), "{query}");
    }
}
