//! Which policy governs a DaemonSet (G4): the one place where precedence, selection and conflicts
//! are decided, for the controller and for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{Labels, Namespace, POLICY_ANNOTATION, PolicySource};

use crate::convert::{PolicyObject, PolicyReference, PolicyTarget, RawDaemonSet};

/// The policy objects of a cluster, and the labels of its namespaces.
#[derive(Debug, Default)]
pub struct Policies {
    objects: BTreeMap<PolicyReference, PolicyObject>,
    namespaces: BTreeMap<Namespace, Labels>,
}

/// The policy that governs a DaemonSet, or why none does.
#[derive(Clone, Debug, PartialEq)]
pub enum Governing<'a> {
    /// No policy object selects it: its annotation counts.
    Annotation,
    /// This object.
    Object(&'a PolicyObject),
    /// Several objects of one rank select it, so none of them counts.
    Conflict(Vec<&'a PolicyObject>),
    /// This object may select it, by the labels of its namespace, which are not known.
    Unknown(&'a PolicyObject),
}

/// The answer if an object selects a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selects {
    Yes,
    No,
    /// That depends on the labels of its namespace, which are not known.
    Unknown,
}

impl Policies {
    /// True if there is no policy object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds or replaces a policy object. Returns whether anything but its status has changed.
    pub fn apply(&mut self, object: PolicyObject) -> bool {
        let known = self.objects.get(&object.reference);
        let is_same = known.is_some_and(|known| {
            known.uid == object.uid
                && (&known.target, &known.namespaces, &known.policy)
                    == (&object.target, &object.namespaces, &object.policy)
        });
        self.objects.insert(object.reference.clone(), object);
        !is_same
    }

    /// Removes a policy object. Returns whether there was one.
    pub fn remove(&mut self, reference: &PolicyReference) -> bool {
        self.objects.remove(reference).is_some()
    }

    /// The policy object.
    pub fn get(&self, reference: &PolicyReference) -> Option<&PolicyObject> {
        self.objects.get(reference)
    }

    /// Kinds, namespaces and names of all policy objects.
    pub fn references(&self) -> impl Iterator<Item = &PolicyReference> {
        self.objects.keys()
    }

    /// Records the labels of a namespace. Returns whether they are new, and may select it.
    pub fn apply_namespace(&mut self, name: Namespace, labels: Labels) -> bool {
        let is_known = self.namespaces.get(&name) == Some(&labels);
        self.namespaces.insert(name, labels);
        !is_known && self.needs_namespaces()
    }

    /// Keeps only the policy objects for which `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&PolicyReference) -> bool) {
        self.objects.retain(|reference, _| keeps(reference));
    }

    /// Forgets all namespaces.
    pub fn clear_namespaces(&mut self) {
        self.namespaces.clear();
    }

    /// Forgets a namespace.
    pub fn remove_namespace(&mut self, name: &Namespace) {
        self.namespaces.remove(name);
    }

    /// The namespaces whose labels are known.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.keys()
    }

    /// True if an object selects namespaces by their labels.
    pub fn needs_namespaces(&self) -> bool {
        self.objects.values().any(|object| object.namespaces.is_some())
    }

    /// The policy of a DaemonSet: a ClusterRolloutPolicy that is enforced before a RolloutPolicy
    /// before another ClusterRolloutPolicy before its annotation. They are never merged.
    pub fn governing(&self, daemon_set: &RawDaemonSet) -> Governing<'_> {
        let namespace = &daemon_set.key.namespace;
        let of_cluster = self.selecting(None, daemon_set);
        let (enforced, others) = of_cluster.into_iter().partition(|(object, _)| object.is_enforced);
        let ranks = [enforced, self.selecting(Some(namespace), daemon_set), others];
        let mut decided = ranks.into_iter().map(|selecting| self.decided(selecting));
        decided.find(|it| !matches!(it, Governing::Annotation)).unwrap_or(Governing::Annotation)
    }

    /// The policy of a DaemonSet.
    pub fn source(&self, daemon_set: &RawDaemonSet) -> PolicySource {
        if self.is_empty() {
            return daemon_set.policy.clone();
        }
        match self.governing(daemon_set) {
            Governing::Annotation => daemon_set.policy.clone(),
            Governing::Object(object) => match &object.policy {
                Ok(policy) => PolicySource::Valid(policy.clone()),
                Err(errors) => invalid(format!("{}: {errors}", object.reference)),
            },
            Governing::Conflict(objects) => {
                let references: Vec<String> =
                    objects.iter().map(|object| object.reference.to_string()).collect();
                invalid(format!("{} select it, so none of them counts", references.join(" and ")))
            }
            Governing::Unknown(object) => invalid(format!(
                "{} selects namespaces by labels, and those of namespace {} are not known: the \
                 right to list and watch namespaces may be missing",
                object.reference, daemon_set.key.namespace
            )),
        }
    }

    /// The name of the policy that counts for a DaemonSet, valid or not; `None` if none counts.
    pub fn counting(&self, daemon_set: &RawDaemonSet) -> Option<String> {
        match self.governing(daemon_set) {
            Governing::Annotation if daemon_set.policy == PolicySource::None => None,
            Governing::Annotation => Some(format!("annotation {POLICY_ANNOTATION}")),
            Governing::Object(object) => Some(object.reference.to_string()),
            Governing::Conflict(_) | Governing::Unknown(_) => None,
        }
    }

    fn selecting(
        &self,
        namespace: Option<&Namespace>,
        daemon_set: &RawDaemonSet,
    ) -> Vec<(&PolicyObject, Selects)> {
        let start = PolicyReference { namespace: namespace.cloned(), name: Arc::from("") };
        let objects = self.objects.range(start..).map(|(_, object)| object);
        let objects = objects.take_while(|object| object.reference.namespace.as_ref() == namespace);
        let selecting = objects.map(|object| (object, self.selects(object, daemon_set)));
        selecting.filter(|(_, selects)| *selects != Selects::No).collect()
    }

    fn decided<'a>(&self, selecting: Vec<(&'a PolicyObject, Selects)>) -> Governing<'a> {
        if let Some((object, _)) = selecting.iter().find(|(_, s)| *s == Selects::Unknown) {
            return Governing::Unknown(object);
        }
        let objects: Vec<_> = selecting.into_iter().map(|(object, _)| object).collect();
        match objects[..] {
            [] => Governing::Annotation,
            [object] => Governing::Object(object),
            _ => Governing::Conflict(objects),
        }
    }

    fn selects(&self, object: &PolicyObject, daemon_set: &RawDaemonSet) -> Selects {
        let selects_it = match &object.target {
            None => false,
            Some(PolicyTarget::Name(name)) => *name == daemon_set.key.name,
            Some(PolicyTarget::Labels(selector)) => selector.matches(&daemon_set.labels),
        };
        match (selects_it, &object.namespaces) {
            (false, _) => Selects::No,
            (true, None) => Selects::Yes,
            (true, Some(selector)) => match self.namespaces.get(&daemon_set.key.namespace) {
                None => Selects::Unknown,
                Some(labels) if selector.matches(labels) => Selects::Yes,
                Some(_) => Selects::No,
            },
        }
    }
}

fn invalid(why: String) -> PolicySource {
    PolicySource::Invalid(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{daemon_set, policy_object};
    use serde_json::{Value, json};

    fn policies(objects: &[(Option<&str>, &str, Value)]) -> Policies {
        let mut policies = Policies::default();
        for (namespace, name, spec) in objects {
            let metadata = json!({ "name": name, "namespace": namespace, "uid": name });
            let json = json!({ "metadata": metadata, "spec": spec });
            policies.apply(policy_object(json.to_string().as_bytes()).expect("an object"));
        }
        policies
    }

    fn raw(annotation: Option<&str>) -> Arc<RawDaemonSet> {
        let annotations =
            annotation.map(|policy| json!({ "everynode.dev/rollout-policy": policy }));
        let metadata = json!({ "name": "d", "namespace": "ns", "labels": { "tier": "agent" },
            "annotations": annotations });
        daemon_set(json!({ "metadata": metadata }).to_string().as_bytes(), None).expect("one").raw
    }

    fn hold(budget: u32, target: Value) -> Value {
        json!({ "daemonSets": target, "maxUnavailable": budget })
    }

    fn agents() -> Value {
        json!({ "selector": { "matchLabels": { "tier": "agent" } } })
    }

    /// The `maxUnavailable` of the policy that counts, by which these tests tell them apart.
    fn counts(policies: &Policies, daemon_set: &RawDaemonSet) -> Result<Option<String>, String> {
        match policies.source(daemon_set) {
            PolicySource::None => Ok(None),
            PolicySource::Valid(policy) => Ok(policy.max_unavailable.map(|max| max.to_string())),
            PolicySource::Invalid(why) => Err(why.to_string()),
        }
    }

    /// G4, G48: a RolloutPolicy counts before a ClusterRolloutPolicy, and that before the
    /// annotation; one that is enforced counts before all.
    #[test]
    fn one_policy_counts_by_rank() {
        let of_namespace = (Some("ns"), "p", hold(1, json!({ "name": "d" })));
        let of_cluster = (None, "p", hold(2, agents()));
        let annotated = raw(Some("maxUnavailable: 3"));
        let all = policies(&[of_namespace.clone(), of_cluster.clone()]);
        assert_eq!(counts(&all, &annotated), Ok(Some("1".to_owned())));
        assert_eq!(all.counting(&annotated).as_deref(), Some("RolloutPolicy ns/p"));
        let cluster = policies(std::slice::from_ref(&of_cluster));
        assert_eq!(counts(&cluster, &annotated), Ok(Some("2".to_owned())));
        assert_eq!(cluster.counting(&annotated).as_deref(), Some("ClusterRolloutPolicy p"));
        let mut enforced = hold(4, agents());
        enforced["enforced"] = json!(true);
        let enforced = policies(&[of_namespace, of_cluster.clone(), (None, "e", enforced)]);
        assert_eq!(counts(&enforced, &annotated), Ok(Some("4".to_owned())));
        let none = policies(&[]);
        assert_eq!(counts(&none, &annotated), Ok(Some("3".to_owned())));
        let name = none.counting(&annotated);
        assert_eq!(name.as_deref(), Some("annotation everynode.dev/rollout-policy"));
        assert_eq!((counts(&none, &raw(None)), none.counting(&raw(None))), (Ok(None), None));
        let others = policies(&[
            (Some("other"), "p", hold(1, json!({ "selector": {} }))),
            (Some("ns"), "p", hold(1, json!({ "name": "e" }))),
            (None, "p", hold(1, json!({ "selector": { "matchLabels": { "tier": "x" } } }))),
        ]);
        assert_eq!(counts(&others, &annotated), Ok(Some("3".to_owned())));
    }

    /// G4, G7: two policies of one rank are a conflict, an invalid one holds what it selects, and
    /// neither gives way to a lower rank.
    #[test]
    fn conflicts_and_invalid_policies_fail_closed() {
        let annotated = raw(Some("maxUnavailable: 3"));
        let two = policies(&[
            (Some("ns"), "a", hold(1, json!({ "name": "d" }))),
            (Some("ns"), "b", hold(2, agents())),
            (None, "c", hold(3, agents())),
        ]);
        let why = counts(&two, &annotated).expect_err("a conflict");
        assert_eq!(
            why,
            "RolloutPolicy ns/a and RolloutPolicy ns/b select it, so none of them counts"
        );
        assert_eq!(two.counting(&annotated), None);
        let invalid = policies(&[(Some("ns"), "a", hold(0, json!({ "name": "d" })))]);
        let why = counts(&invalid, &annotated).expect_err("it is invalid");
        assert!(why.starts_with("RolloutPolicy ns/a: spec.maxUnavailable: Invalid value: 0"));
        assert_eq!(invalid.counting(&annotated).as_deref(), Some("RolloutPolicy ns/a"));
    }

    /// G4: namespaces are selected by their labels; while those are not known, nothing is replaced.
    #[test]
    fn namespaces_are_selected_by_labels() {
        let mut spec = hold(2, agents());
        spec["namespaces"] = json!({ "matchLabels": { "team": "a" } });
        let mut policies = policies(&[(None, "p", spec)]);
        assert!(policies.needs_namespaces());
        let why = counts(&policies, &raw(None)).expect_err("the labels are not known");
        assert!(why.contains("those of namespace ns are not known"), "{why}");
        assert!(policies.apply_namespace("ns".into(), Labels::from_iter([("team", "a")])));
        assert_eq!(counts(&policies, &raw(None)), Ok(Some("2".to_owned())));
        assert!(policies.apply_namespace("ns".into(), Labels::default()));
        assert_eq!(counts(&policies, &raw(None)), Ok(None));
        assert!(!policies.apply_namespace("ns".into(), Labels::default()));
    }
}
