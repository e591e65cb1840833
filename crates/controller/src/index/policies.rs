//! The policy objects: which DaemonSets they concern, and the status of each (G4, G21).

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{DaemonSetKey, Labels, Namespace, Now, RolloutReason, Timestamp, Uid};
use everynode_k8s::convert::{PolicyObject, PolicyReference};
use everynode_k8s::policy_status::{GovernedDaemonSet, PolicyCondition, PolicyStatus};
use everynode_k8s::record::time_text;

use super::entry::{ChangedPolicies, Entry, GoverningObjects, StatedRollout, Urgency, note};
use super::{Effects, Index};
use crate::watch::Change;

/// Maximum number of DaemonSets in a status, which must stay small.
const LINES_MAX: usize = 100;

/// A status to write.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyStatusWrite {
    /// The policy object.
    pub reference: PolicyReference,
    /// Its UID.
    pub uid: Uid,
    /// The status to write.
    pub status: PolicyStatus,
}

impl Index {
    /// Applies a change to the policy objects of one kind, to the DaemonSets that it concerns.
    pub(super) fn observe_policy(
        &mut self,
        is_namespaced: bool,
        change: Change<PolicyObject>,
        effects: &mut Effects,
    ) {
        let concerned: Vec<PolicyReference> = match change {
            Change::Reset { items: objects, .. } => {
                let of_kind =
                    |reference: &&PolicyReference| reference.namespace.is_some() == is_namespaced;
                let listed: BTreeSet<_> =
                    objects.iter().map(|object| object.reference.clone()).collect();
                let known = self.policies.references().filter(of_kind);
                let gone = known.filter(|known| !listed.contains(known)).cloned();
                let gone: Vec<PolicyReference> = gone.collect();
                let applied = objects.into_iter().filter_map(|object| self.apply_policy(object));
                let mut concerned: Vec<_> = applied.collect();
                concerned.extend(gone.into_iter().filter(|gone| self.policies.remove(gone)));
                concerned
            }
            Change::Applied { item: object, .. } => self.apply_policy(object).into_iter().collect(),
            Change::Deleted { item: object, .. } => {
                let reference = object.reference;
                self.policies.remove(&reference).then_some(reference).into_iter().collect()
            }
            Change::Reached(_) => Vec::new(),
        };
        let namespaces: BTreeSet<_> = concerned.into_iter().map(|of| of.namespace).collect();
        match namespaces.contains(&None) {
            true => self.apply_policies(|_| true, effects),
            false => {
                self.apply_policies(|name| namespaces.contains(&Some(name.clone())), effects);
            }
        }
    }

    /// Adds or replaces a policy object; returns it if more than its status has changed.
    fn apply_policy(&mut self, object: PolicyObject) -> Option<PolicyReference> {
        let reference = object.reference.clone();
        let is_changed = self.policies.apply(object);
        // It is watched being written, too.
        let urgency = if is_changed { Urgency::Transition } else { Urgency::Counts };
        note(&mut self.changed_policies, [&reference], urgency);
        is_changed.then_some(reference)
    }

    fn apply_policies(&mut self, is_concerned: impl Fn(&Namespace) -> bool, effects: &mut Effects) {
        let namespaces = self.namespaces.iter_mut().filter(|(name, _)| is_concerned(name));
        for (_, namespace_index) in namespaces {
            namespace_index.apply_policies(
                &self.policies,
                &self.nodes,
                &mut effects.changed,
                &mut self.changed_policies,
            );
        }
    }

    /// Applies the labels of a namespace, by which policy objects select it.
    pub(super) fn apply_namespace_labels(
        &mut self,
        name: &Namespace,
        labels: Labels,
        effects: &mut Effects,
    ) {
        if self.policies.apply_namespace(name.clone(), labels) {
            self.apply_policies(|concerned| concerned == name, effects);
        }
    }

    /// True if a policy object selects namespaces by their labels.
    pub fn needs_namespaces(&self) -> bool {
        self.policies.needs_namespaces()
    }

    /// The policy objects whose status may have to change since the last call.
    pub fn take_changed_policies(&mut self) -> ChangedPolicies {
        std::mem::take(&mut self.changed_policies)
    }

    /// The status of a policy object, if it must be written: it differs from the stored one, and
    /// each DaemonSet that it selects has been planned for.
    pub fn policy_status(
        &self,
        reference: &PolicyReference,
        now: Now,
    ) -> Option<PolicyStatusWrite> {
        let object = self.policies.get(reference)?;
        let namespaces: Vec<_> = match &reference.namespace {
            Some(namespace) => self.namespaces.get(namespace).into_iter().collect(),
            None => self.namespaces.values().collect(),
        };
        let entries = namespaces.iter().flat_map(|of| of.daemon_sets.values());
        let governed: Vec<&Entry> =
            entries.filter(|entry| entry.governing.has(reference)).collect();
        let rollouts: BTreeMap<&DaemonSetKey, &Option<StatedRollout>> = governed
            .iter()
            .map(|entry| Some((&entry.raw.key, entry.rollout.as_ref()?)))
            .collect::<Option<_>>()?;
        let status = status(object, &governed, &rollouts, now);
        let write =
            PolicyStatusWrite { reference: reference.clone(), uid: object.uid.clone(), status };
        (write.status != object.status).then_some(write)
    }
}

/// The wall clock, in whole seconds, as conditions have it.
fn whole_seconds(now: Now) -> Timestamp {
    let millis = now.to_wall(now.steady).as_millis();
    Timestamp(millis - millis.rem_euclid(1000))
}

/// The statement of a policy's conditions.
struct Verdict {
    is_true: bool,
    reason: &'static str,
    message: String,
}

fn status(
    object: &PolicyObject,
    governed: &[&Entry],
    rollouts: &BTreeMap<&DaemonSetKey, &Option<StatedRollout>>,
    now: Now,
) -> PolicyStatus {
    let ready = ready(object, governed, rollouts);
    let stalled = stalled(&ready, rollouts);
    let line = |(key, stated): (&&DaemonSetKey, &&Option<StatedRollout>)| GovernedDaemonSet {
        namespace: match object.reference.namespace {
            Some(_) => String::new(),
            None => key.namespace.to_string(),
        },
        name: key.name.to_string(),
        phase: stated.as_ref().map(|s| s.reason.as_str().to_owned()).unwrap_or_default(),
        wave: stated.as_ref().and_then(|s| Some(s.wave.as_ref()?.to_string())).unwrap_or_default(),
        nodes: stated.as_ref().and_then(|s| Some(s.nodes.as_ref()?.into())),
    };
    PolicyStatus {
        observed_generation: object.generation,
        conditions: vec![
            condition(object, "Ready", ready, now),
            condition(object, "Stalled", stalled, now),
        ],
        daemon_set_count: u32::try_from(rollouts.len()).unwrap_or(u32::MAX),
        daemon_sets: rollouts.iter().take(LINES_MAX).map(line).collect(),
    }
}

/// The condition `Ready`: true if the policy counts for all that it selects.
fn ready(
    object: &PolicyObject,
    governed: &[&Entry],
    rollouts: &BTreeMap<&DaemonSetKey, &Option<StatedRollout>>,
) -> Verdict {
    let no = |reason, message| Verdict { is_true: false, reason, message };
    if let Err(errors) = &object.policy {
        return no("Invalid", errors.to_string());
    }
    for Entry { governing, raw, .. } in governed {
        match governing {
            GoverningObjects::None | GoverningObjects::One(_) => {}
            GoverningObjects::Conflict(objects) => {
                let others = objects.iter().filter(|other| **other != object.reference);
                let others: Vec<String> = others.map(ToString::to_string).collect();
                let key = &raw.key;
                let message = format!("{} selects daemonset {key} as well", others.join(" and "));
                return no("Conflict", message);
            }
            GoverningObjects::Unknown(_) => {
                let message = "namespaces are selected by labels, which are not known: the right \
                               to list and watch namespaces may be missing";
                return no("NamespacesUnknown", message.to_owned());
            }
        }
    }
    let stated = rollouts.iter().filter_map(|(key, stated)| Some((key, stated.as_ref()?)));
    let mut without_guard = stated.filter(|(_, stated)| stated.reason == RolloutReason::NotGuarded);
    if let Some((key, stated)) = without_guard.next() {
        return no(stated.reason.as_str(), format!("daemonset {key}: {}", stated.message));
    }
    let message = match governed.len() {
        0 => "no DaemonSet is selected".to_owned(),
        1 => "it governs 1 DaemonSet".to_owned(),
        count => format!("it governs {count} DaemonSets"),
    };
    Verdict { is_true: true, reason: "Valid", message }
}

/// The condition `Stalled`: true if somebody has to act, because the policy does not count, or a
/// rollout has failed or is held.
fn stalled(ready: &Verdict, rollouts: &BTreeMap<&DaemonSetKey, &Option<StatedRollout>>) -> Verdict {
    if !ready.is_true {
        return Verdict { is_true: true, reason: ready.reason, message: ready.message.clone() };
    }
    let stated = rollouts.iter().filter_map(|(key, stated)| Some((key, stated.as_ref()?)));
    let mut stalled = stated.filter(|(_, stated)| stated.reason.is_stalled());
    match stalled.next() {
        Some((key, stated)) => Verdict {
            is_true: true,
            reason: stated.reason.as_str(),
            message: format!("daemonset {key}: {}", stated.message),
        },
        None => {
            let message = "no rollout has failed or is held".to_owned();
            Verdict { is_true: false, reason: "Progressing", message }
        }
    }
}

/// The condition. While its status remains, so does the time of its last transition.
fn condition(object: &PolicyObject, r#type: &str, verdict: Verdict, now: Now) -> PolicyCondition {
    let status = if verdict.is_true { "True" } else { "False" };
    let known = object.status.conditions.iter().find(|known| known.r#type == r#type);
    let since = known.filter(|known| known.status == status);
    let since = since.map(|known| known.last_transition_time.clone());
    PolicyCondition {
        r#type: r#type.to_owned(),
        status: status.to_owned(),
        observed_generation: object.generation,
        last_transition_time: since.unwrap_or_else(|| time_text(whole_seconds(now))),
        reason: verdict.reason.to_owned(),
        message: verdict.message,
    }
}
