//! The pods of a revision differ in nothing but their name and their node: their JSON is made once, with gaps for both.

use std::sync::{Mutex, PoisonError};

use everynode_core::api::{PodName, RevisionHash, Uid};
use everynode_core::plan::{NewPod, ScheduleBy};
use serde_json::Value;

use crate::patch::Owner;
use crate::pod_template;

/// The JSON of a pod around the quotes of its name and of its node's name.
#[derive(Debug)]
struct PodForm {
    made_for: MadeFor,
    before_name: Box<str>,
    between: Box<str>,
    after_node: Box<str>,
}

/// All that a pod depends on beside its template, its name and its node.
#[derive(Debug, PartialEq, Eq)]
struct MadeFor {
    owner: Uid,
    hash: RevisionHash,
    template_generation: Option<i64>,
    schedule_by: ScheduleBy,
}

/// The last form that was made from a template, for as long as the pods to create are of that form.
#[derive(Debug, Default)]
pub struct PodForms(Mutex<Option<PodForm>>);

impl PodForms {
    /// The body of the request that creates the pod. One without a name is built by itself.
    pub fn pod(&self, owner: &Owner, template: impl FnOnce() -> Value, new: &NewPod) -> String {
        let Some(name) = &new.name else {
            return pod_template::pod(owner, &template(), new).to_string();
        };
        let made_for = MadeFor {
            owner: owner.uid.clone(),
            hash: new.hash.clone(),
            template_generation: new.template_generation,
            schedule_by: new.schedule_by,
        };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let form = match last.take().filter(|form| form.made_for == made_for) {
            Some(form) => form,
            None => PodForm::new(owner, &template(), new, made_for),
        };
        last.insert(form).filled(name, new.node.as_str())
    }
}

impl PodForm {
    fn new(owner: &Owner, template: &Value, new: &NewPod, made_for: MadeFor) -> Self {
        let with = |name: &str, node: &str| {
            let new = NewPod { name: Some(name.into()), node: node.into(), ..new.clone() };
            pod_template::pod(owner, template, &new).to_string()
        };
        // Where two pods differ, there the name is, whatever else the template mentions.
        let one = with("a", "a");
        let gap = |other: &str| {
            let gap = one.bytes().zip(other.bytes()).position(|(one, other)| one != other);
            let gap = gap.expect("a pod has a name and names its node");
            debug_assert_eq!(one[gap + 1..], other[gap + 1..], "each stands there once");
            gap
        };
        let (name, node) = (gap(&with("b", "a")), gap(&with("a", "b")));
        debug_assert!(name < node, "metadata comes before spec");
        Self {
            made_for,
            before_name: one[..name - 1].into(),
            between: one[name + 2..node - 1].into(),
            after_node: one[node + 2..].into(),
        }
    }

    fn filled(&self, name: &PodName, node: &str) -> String {
        let (name, node) = (Value::from(name.as_str()).to_string(), Value::from(node).to_string());
        [&*self.before_name, &name, &self.between, &node, &self.after_node].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OWNER: (&str, &str) = ("ns", "d");

    fn new_pod(node: &str, hash: &str) -> NewPod {
        NewPod {
            name: Some(format!("d-{node}").into()),
            node: node.into(),
            hash: hash.into(),
            template_generation: Some(1),
            schedule_by: ScheduleBy::Scheduler,
        }
    }

    /// A template that mentions nodes and names itself.
    fn template() -> Value {
        json!({
            "metadata": { "name": "d-node-0", "labels": { "app": "a", "b": "node-0", "c": "d-node-0" } },
            "spec": { "nodeSelector": { "a": "b" }, "hostname": "node-0" },
        })
    }

    /// C30, C31, C35: what the form is filled into is the pod that would have been built, for every name and node and whoever
    /// schedules.
    #[test]
    fn a_filled_form_is_the_pod_that_is_built_of_the_template() {
        let forms = PodForms::default();
        let uids = ["u-1".into(), "u-2".into()];
        for uid in &uids {
            let owner = Owner { namespace: OWNER.0, name: OWNER.1, uid };
            for schedule_by in [ScheduleBy::Scheduler, ScheduleBy::Controller] {
                for (node, hash) in
                    [("node-0", "a"), ("node-3", "a"), ("say \"n\"", "a"), ("node-0", "b")]
                {
                    let named = NewPod { schedule_by, ..new_pod(node, hash) };
                    for new in [NewPod { name: None, ..named.clone() }, named] {
                        let filled = forms.pod(&owner, template, &new);
                        let built = pod_template::pod(&owner, &template(), &new).to_string();
                        assert_eq!(filled, built, "{node} {hash}");
                    }
                }
            }
        }
    }

    /// C80: the template is read for the first pod of a revision, and not again.
    #[test]
    fn a_revision_s_template_is_read_once() {
        let uid = "u-1".into();
        let owner = Owner { namespace: OWNER.0, name: OWNER.1, uid: &uid };
        let forms = PodForms::default();
        forms.pod(&owner, template, &new_pod("n1", "a"));
        forms.pod(&owner, || panic!("it is read again"), &new_pod("n2", "a"));
        let reads = std::cell::Cell::new(0);
        let counted = || {
            reads.set(reads.get() + 1);
            template()
        };
        forms.pod(&owner, counted, &new_pod("n2", "b"));
        assert_eq!(reads.get(), 1);
    }
}
