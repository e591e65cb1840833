//! Taints and tolerations (C13, C14).

use crate::api::{Taint, TaintEffect, Toleration, TolerationOperator};

impl Toleration {
    /// Whether the toleration tolerates the taint. Upstream: `ToleratesTaint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.tolerates_value(&taint.value)
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

/// Parses a decimal integer without a plus sign and leading zeros: the API's validation allows no
/// others.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = digits == "0" || !digits.starts_with(['0', '+']);
    text.parse().ok().filter(|_| is_canonical)
}
