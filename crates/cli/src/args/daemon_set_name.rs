//! The name of a DaemonSet in the forms that kubectl accepts.

use std::fmt;
use std::str::FromStr;

/// The name of a DaemonSet, parsed from `ds/NAME`, `daemonset/NAME`, `daemonsets.apps/NAME` or a
/// bare `NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonSetName(String);

/// The names of the kind that kubectl accepts.
pub(super) const KINDS: &[&str] = &[
    "ds",
    "daemonset",
    "daemonsets",
    "daemonset.apps",
    "daemonsets.apps",
    "daemonset.v1.apps",
    "daemonsets.v1.apps",
];

impl DaemonSetName {
    /// The name without its kind.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DaemonSetName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for DaemonSetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = match text.split_once('/') {
            Some((kind, name)) if KINDS.contains(&kind.to_lowercase().as_str()) => name,
            Some((kind, _)) => return Err(format!("{kind} is not a DaemonSet: use ds/NAME")),
            None => text,
        };
        if is_name(name) {
            Ok(Self(name.to_owned()))
        } else {
            Err("not a valid name: use ds/NAME".to_owned())
        }
    }
}

/// True if it is a DNS subdomain, which is safe in the path of a URL.
fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    name.starts_with(is_letter)
        && name.ends_with(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter == '-' || letter == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_set_is_named_in_each_of_kubectls_ways() {
        for text in
            ["ds/agent", "daemonset/agent", "daemonsets.apps/agent", "DaemonSet/agent", "agent"]
        {
            assert_eq!(text.parse(), Ok(DaemonSetName("agent".to_owned())), "{text}");
        }
        for text in ["deployment/agent", "ds/", "", "ds/a/b", "Agent", "../secrets", "-a"] {
            assert!(text.parse::<DaemonSetName>().is_err(), "{text}");
        }
    }
}
