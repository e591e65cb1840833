//! Taints and tolerations (C13, C14).

use std::fmt;
use std::sync::Arc;

use crate::object::{Taint, TaintEffect};

/// A toleration; times (`tolerationSeconds`) are the node lifecycle's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// Empty: any key.
    pub key: Arc<str>,
    pub operator: TolerationOperator,
    pub value: Arc<str>,
    /// `None`: any effect.
    pub effect: Option<TaintEffect>,
}

/// `Lt` and `Gt` compare the taint's value with the toleration's, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TolerationOperator {
    #[default]
    Equal,
    Exists,
    Lt,
    Gt,
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.tolerates_value(&taint.value)
    }

    /// Whether the other says the same: key, operator, value and effect are equal (C14).
    pub fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    fn tolerates_value(&self, taint: &str) -> bool {
        let compared = || Some((integer(taint)?, integer(&self.value)?));
        match self.operator {
            TolerationOperator::Equal => *self.value == *taint,
            TolerationOperator::Exists => true,
            TolerationOperator::Lt => compared().is_some_and(|(taint, bound)| taint < bound),
            TolerationOperator::Gt => compared().is_some_and(|(taint, bound)| taint > bound),
        }
    }
}

/// The tolerations that every pod of a DaemonSet gets (C14).
pub fn default_tolerations(host_network: bool) -> impl Iterator<Item = Toleration> {
    use TaintEffect::{NoExecute, NoSchedule};
    let always = [
        ("node.kubernetes.io/not-ready", NoExecute),
        ("node.kubernetes.io/unreachable", NoExecute),
        ("node.kubernetes.io/disk-pressure", NoSchedule),
        ("node.kubernetes.io/memory-pressure", NoSchedule),
        ("node.kubernetes.io/pid-pressure", NoSchedule),
        ("node.kubernetes.io/unschedulable", NoSchedule),
    ];
    let network = host_network.then_some(("node.kubernetes.io/network-unavailable", NoSchedule));
    always.into_iter().chain(network).map(|(key, effect)| Toleration {
        key: key.into(),
        operator: TolerationOperator::Exists,
        value: "".into(),
        effect: Some(effect),
    })
}

/// The taints that keep a pod with these tolerations off the node.
pub(super) fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &'a [Toleration],
) -> impl Iterator<Item = &'a Taint> {
    taints
        .iter()
        .filter(|taint| repels(taint))
        .filter(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

pub(super) fn evicts(taint: &Taint) -> bool {
    match taint.effect {
        TaintEffect::NoExecute => true,
        TaintEffect::NoSchedule | TaintEffect::PreferNoSchedule => false,
    }
}

fn repels(taint: &Taint) -> bool {
    match taint.effect {
        TaintEffect::NoSchedule | TaintEffect::NoExecute => true,
        TaintEffect::PreferNoSchedule => false,
    }
}

/// A decimal number with neither sign `+` nor leading zeros, as the API's validation has it.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = digits == "0" || !digits.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_canonical)
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.value {
            "" => write!(f, "{}:{}", self.key, self.effect),
            value => write!(f, "{}={value}:{}", self.key, self.effect),
        }
    }
}

impl fmt::Display for TaintEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        })
    }
}
