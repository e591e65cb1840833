//! The pods of a revision differ in nothing but their node: their JSON is made once, with a gap for the node's name.

use std::sync::{Mutex, PoisonError};

use everynode_core::name::{RevisionHash, Uid};
use everynode_core::plan::{NewPod, ScheduleBy};
use serde_json::Value;

use crate::patch::Owner;
use crate::pod_template;

/// The JSON of a pod up to the quotes of its node's name, and behind them.
#[derive(Debug)]
struct PodForm {
    made_for: MadeFor,
    before: Box<str>,
    after: Box<str>,
}

/// All that a pod depends on beside its template and its node.
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
    /// The body of the request that creates the pod.
    pub fn pod(&self, owner: &Owner, template: impl FnOnce() -> Value, new: &NewPod) -> String {
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
        last.insert(form).filled(new.node.as_str())
    }
}

impl PodForm {
    fn new(owner: &Owner, template: &Value, new: &NewPod, made_for: MadeFor) -> Self {
        let on = |node: &str| {
            let new = NewPod { node: node.into(), ..new.clone() };
            pod_template::pod(owner, template, &new).to_string()
        };
        // Where pods on two nodes differ, there the node's name is, whatever else the template mentions.
        let (one, other) = (on("a"), on("b"));
        let differs = one.bytes().zip(other.bytes()).position(|(one, other)| one != other);
        let name = differs.expect("a pod names its node");
        debug_assert_eq!(one[name + 1..], other[name + 1..], "it names it once");
        let (before, after) = (one[..name - 1].into(), one[name + 2..].into());
        Self { made_for, before, after }
    }

    fn filled(&self, node: &str) -> String {
        [&*self.before, &Value::from(node).to_string(), &*self.after].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OWNER: (&str, &str) = ("ns", "d");

    fn new_pod(node: &str, hash: &str) -> NewPod {
        NewPod {
            node: node.into(),
            hash: hash.into(),
            template_generation: Some(1),
            schedule_by: ScheduleBy::Scheduler,
        }
    }

    /// A template that mentions nodes itself.
    fn template() -> Value {
        json!({
            "metadata": { "labels": { "app": "a", "b": "node-0" } },
            "spec": { "nodeSelector": { "a": "b" }, "hostname": "node-0" },
        })
    }

    /// C30, C31: what the form is filled into is the pod that would have been built, for every node and whoever schedules.
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
                    let new = NewPod { schedule_by, ..new_pod(node, hash) };
                    let filled = forms.pod(&owner, template, &new);
                    let built = pod_template::pod(&owner, &template(), &new).to_string();
                    assert_eq!(filled, built, "{node} {hash}");
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
