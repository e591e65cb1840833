//! The JSON of a revision's pods, rendered once: they differ in nothing but their name and node.

use std::sync::{Arc, Mutex, PoisonError};

use everynode_core::api::{PodName, RevisionHash, Uid};
use everynode_core::plan::{NewPod, ScheduleBy};
use serde_json::Value;

use crate::patch::Owner;
use crate::pod_template;

/// The JSON of a pod, split at its name and at the name of its node.
#[derive(Debug)]
struct RenderedPod {
    inputs: Inputs,
    before_name: Box<str>,
    between: Box<str>,
    after_node: Box<str>,
}

/// Everything that the JSON depends on except template, name and node.
#[derive(Debug, PartialEq, Eq)]
struct Inputs {
    owner: Uid,
    hash: RevisionHash,
    template_generation: Option<i64>,
    /// The tag of the override.
    tag: Option<Arc<str>>,
    schedule_by: ScheduleBy,
}

/// The last rendered pod of one template. It is used until a pod with other inputs is created.
#[derive(Debug, Default)]
pub(crate) struct RenderedPodCache(Mutex<Option<RenderedPod>>);

impl RenderedPodCache {
    /// The body of the request that creates the pod. A pod without a name is not cached.
    pub(crate) fn pod(
        &self,
        owner: &Owner,
        template: impl FnOnce() -> Value,
        new: &NewPod,
    ) -> String {
        let Some(name) = &new.name else {
            return pod_template::pod(owner, &template(), new).to_string();
        };
        let inputs = Inputs {
            owner: owner.uid.clone(),
            hash: new.hash.clone(),
            template_generation: new.template_generation,
            tag: new.r#override.as_ref().map(|it| it.tag.clone()),
            schedule_by: new.schedule_by,
        };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rendered = match last.take().filter(|rendered| rendered.inputs == inputs) {
            Some(rendered) => rendered,
            None => RenderedPod::new(owner, &template(), new, inputs),
        };
        last.insert(rendered).with(name, new.node.as_str())
    }
}

impl RenderedPod {
    fn new(owner: &Owner, template: &Value, new: &NewPod, inputs: Inputs) -> Self {
        let render = |name: Option<&str>, node: &str| {
            let new = NewPod { name: name.map(Into::into), node: node.into(), ..new.clone() };
            pod_template::pod(owner, template, &new).to_string()
        };
        let unused = unused_text(&render(None, ""));
        let (name, node) = (format!("name-{unused}"), format!("node-{unused}"));
        let pod = render(Some(&name), &node);
        let (before_name, rest) = split(&pod, &name);
        let (between, after_node) = split(rest, &node);
        Self {
            inputs,
            before_name: before_name.into(),
            between: between.into(),
            after_node: after_node.into(),
        }
    }

    fn with(&self, name: &PodName, node: &str) -> String {
        let (name, node) = (Value::from(name.as_str()).to_string(), Value::from(node).to_string());
        [&*self.before_name, &name, &self.between, &node, &self.after_node].concat()
    }
}

/// A text that does not occur in this one, since a template may contain any other placeholder. Its
/// length doubles with each attempt, so that a hostile template costs few of them.
fn unused_text(text: &str) -> String {
    let mut unused = "placeholder".to_owned();
    while text.contains(&unused) {
        unused = unused.repeat(2);
    }
    unused
}

/// The JSON before and after the string `placeholder`.
fn split<'a>(json: &'a str, placeholder: &str) -> (&'a str, &'a str) {
    json.split_once(&format!("\"{placeholder}\""))
        .expect("metadata contains the name, and spec, which follows, the node")
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
            template: None,
            r#override: None,
            schedule_by: ScheduleBy::Scheduler,
        }
    }

    /// A template that contains names of pods and nodes, and the first placeholder.
    fn template() -> Value {
        json!({
            "metadata": {
                "name": "d-node-0",
                "labels": { "app": "a", "b": "node-0", "c": "d-node-0", "d": "name-placeholder" },
            },
            "spec": { "nodeSelector": { "a": "node-placeholder" }, "hostname": "node-0" },
        })
    }

    /// A template that repeats the placeholder costs a few searches, not one for each character.
    #[test]
    fn an_unused_text_is_found_quickly() {
        let dashes = "-".repeat(1 << 20);
        for text in ["placeholder".repeat(100_000), format!("placeholder{dashes}")] {
            let unused = unused_text(&text);
            assert!(!text.contains(&unused));
        }
    }

    /// C30, C31, C35: a cached pod equals one that is built from the template, for every name, node
    /// and scheduler.
    #[test]
    fn a_cached_pod_equals_one_that_is_built_from_the_template() {
        let cache = RenderedPodCache::default();
        let uids = ["u-1".into(), "u-2".into()];
        for uid in &uids {
            let owner = Owner { namespace: OWNER.0, name: OWNER.1, uid };
            for schedule_by in [ScheduleBy::Scheduler, ScheduleBy::Controller] {
                for (node, hash) in
                    [("node-0", "a"), ("node-3", "a"), ("say \"n\"", "a"), ("node-0", "b")]
                {
                    let named = NewPod { schedule_by, ..new_pod(node, hash) };
                    for new in [NewPod { name: None, ..named.clone() }, named] {
                        let cached = cache.pod(&owner, template, &new);
                        let built = pod_template::pod(&owner, &template(), &new).to_string();
                        assert_eq!(cached, built, "{node} {hash}");
                    }
                }
            }
        }
    }

    /// C80: the template is read for the first pod of a revision only.
    #[test]
    fn the_template_of_a_revision_is_read_once() {
        let uid = "u-1".into();
        let owner = Owner { namespace: OWNER.0, name: OWNER.1, uid: &uid };
        let cache = RenderedPodCache::default();
        cache.pod(&owner, template, &new_pod("n1", "a"));
        cache.pod(&owner, || panic!("the template is read again"), &new_pod("n2", "a"));
        let reads = std::cell::Cell::new(0);
        let counted = || {
            reads.set(reads.get() + 1);
            template()
        };
        cache.pod(&owner, counted, &new_pod("n2", "b"));
        assert_eq!(reads.get(), 1);
    }
}
