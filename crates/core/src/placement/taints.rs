//! Taints and tolerations (C13, C14).

use std::collections::HashMap;

use crate::api::{Taint, TaintEffect, Toleration, TolerationOperator};

impl Toleration {
    /// True if the toleration tolerates the taint. Upstream: `ToleratesTaint`.
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
    let by_key = (tolerations.len() > FEW_TOLERATIONS).then(|| ByKey::new(tolerations));
    taints.iter().filter(|taint| repels(taint)).filter(move |taint| match &by_key {
        None => !tolerations.iter().any(|toleration| toleration.tolerates(taint)),
        Some(by_key) => !by_key.of_key(taint).any(|toleration| toleration.tolerates(taint)),
    })
}

/// Number of tolerations up to which comparing all of them costs less than sorting them.
const FEW_TOLERATIONS: usize = 64;

/// Tolerations by their key. A node has at most one taint of a key and an effect, so that each
/// toleration is compared with few taints, and a DaemonSet with many tolerations holds nobody up.
struct ByKey<'a> {
    /// Those without a key, each once. They have no value, so that few of them differ.
    any: Vec<&'a Toleration>,
    of_key: HashMap<&'a str, Vec<&'a Toleration>>,
}

impl<'a> ByKey<'a> {
    fn new(tolerations: &'a [Toleration]) -> Self {
        let mut by_key = Self { any: Vec::new(), of_key: HashMap::new() };
        for toleration in tolerations {
            if !toleration.key.is_empty() {
                by_key.of_key.entry(&*toleration.key).or_default().push(toleration);
            } else if !by_key.any.contains(&toleration) {
                by_key.any.push(toleration);
            }
        }
        by_key
    }

    /// Those that can tolerate a taint.
    fn of_key(&self, taint: &Taint) -> impl Iterator<Item = &'a Toleration> {
        let of_key = self.of_key.get(&*taint.key).into_iter().flatten();
        self.any.iter().chain(of_key).copied()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// C13: of many tolerations, a taint is compared with those of its key, and once with those of
    /// any key.
    #[test]
    fn a_taint_is_compared_with_few_of_many_tolerations() {
        let toleration = |key: String| Toleration {
            operator: TolerationOperator::Exists,
            key: key.into(),
            value: "".into(),
            effect: Some(TaintEffect::PreferNoSchedule),
        };
        let tolerations: Vec<Toleration> = (0..100_000)
            .map(|number| if number % 2 == 0 { String::new() } else { format!("k{number}") })
            .map(toleration)
            .collect();
        let effect = TaintEffect::NoExecute;
        let taint = Taint { key: "k1".into(), value: "".into(), effect };
        assert_eq!(ByKey::new(&tolerations).of_key(&taint).count(), 2);
        assert_eq!(untolerated(std::slice::from_ref(&taint), &tolerations).count(), 1);
    }
}
