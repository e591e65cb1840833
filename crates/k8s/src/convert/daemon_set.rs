//! DaemonSets: the parts that decisions read, and the raw JSON from which pods and revisions are
//! made.

mod status;
mod strategy;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{
    DaemonSet, DaemonSetKey, LabelSelector, Labels, NodeOverride, ORDER_ANNOTATION,
    ORDER_REASON_ANNOTATION, Order, PAUSED_ANNOTATION, POLICY_ANNOTATION, Placement, PolicySource,
    Problem, RETRY_ANNOTATION, ROLLED_BACK_ANNOTATION, TEMPLATE_GENERATION_ANNOTATION, Template,
    Uid,
};
use everynode_core::plan::{NewPod, NewPuller};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::config::stored_config;
use super::placement::termination_grace_period_seconds;
use super::selector::daemon_set_selector;
use super::wire::{Metadata, TextMap, text};
use super::{Error, attribution, placement, resource_version, rollout_order, rollout_policy};
use crate::canonical::canonical;
use crate::go_json;
use crate::image_puller;
use crate::in_place::fixed_parts;
use crate::json_path::read_first;
use crate::overrides;
use crate::patch::Owner;
use crate::pod_template;
use crate::rendered_pod::RenderedPodCache;

use status::WireStatus;
use strategy::update_strategy;

/// A decoded DaemonSet.
#[derive(Clone, Debug)]
pub struct DaemonSetObject {
    /// The parts that decisions read.
    pub daemon_set: DaemonSet,
    /// The parts that pods and revisions are made from.
    pub raw: Arc<RawDaemonSet>,
}

/// The parts of a DaemonSet that writes need (C2).
#[derive(Clone, Debug)]
pub struct RawDaemonSet {
    /// Namespace and name.
    pub key: DaemonSetKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`, unparsed.
    pub resource_version: String,
    /// `spec.selector`; `None` if it is malformed. Admission may change a pod so that it is not
    /// selected (C28).
    pub selector: Option<LabelSelector>,
    /// `metadata.labels`, by which policies select it.
    pub labels: Labels,
    /// The policy in the annotation, which counts unless a policy object selects it (G4).
    pub policy: PolicySource,
    /// `metadata.annotations`, which are copied to the revisions (C40).
    pub annotations: BTreeMap<String, String>,
    /// `spec.template`. Versions of the DaemonSet with the same template share it.
    pub template: Arc<RawTemplate>,
}

/// `spec.template` as JSON text.
#[derive(Debug)]
pub struct RawTemplate {
    text: Box<str>,
    pods: RenderedPodCache,
}

impl RawDaemonSet {
    /// The parsed template; null if it is malformed.
    pub fn template(&self) -> Value {
        self.template.value()
    }

    /// The parsed template, with the difference of a node from it (G57).
    pub fn template_of(&self, of_node: Option<&NodeOverride>) -> Value {
        let mut template = self.template();
        overrides::apply_to_template(&mut template, of_node);
        template
    }

    /// The DaemonSet as the owner of pods and revisions.
    pub fn owner(&self) -> Owner<'_> {
        let DaemonSetKey { namespace, name } = &self.key;
        Owner { namespace: namespace.as_str(), name: name.as_str(), uid: &self.uid }
    }

    /// The body of the request that creates this puller, as JSON text (G55).
    pub fn puller(&self, new: &NewPuller) -> String {
        let template = self.template_of(new.r#override.as_deref());
        image_puller::puller(&self.owner(), &template, new).to_string()
    }

    /// The body of the request that creates this pod, as JSON text.
    pub fn pod(&self, new: &NewPod) -> String {
        match &new.template {
            None => self.template.pods.pod(&self.owner(), || self.template(), new),
            Some(older) => {
                let template = go_json::parse(older.as_bytes()).unwrap_or(Value::Null);
                pod_template::pod(&self.owner(), &template, new).to_string()
            }
        }
    }
}

impl RawTemplate {
    /// Null if the template is malformed. Some errors appear only when the text is parsed: an
    /// escape of half a character, a number beyond the range of floats, or too many levels. They
    /// are reported as a [`Problem::Template`], and the DaemonSet is not synced.
    fn value(&self) -> Value {
        go_json::parse(self.text.as_bytes()).unwrap_or(Value::Null)
    }
}

#[derive(Deserialize)]
struct WireDaemonSet<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Option<WireSpec<'a>>,
    status: Option<WireStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec<'a> {
    selector: Option<Value>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
    update_strategy: Option<Value>,
    min_ready_seconds: Option<i64>,
    revision_history_limit: Option<i64>,
}

const KIND: &str = "DaemonSet";
const REVISION_HISTORY_LIMIT_DEFAULT: u32 = 10;

/// Decodes a DaemonSet. If `previous`, its last version, has the same template, that is reused:
/// most changes are changes of the status.
///
/// # Errors
/// If a field outside the template has a wrong type, or the name is missing.
pub fn daemon_set(
    json: &[u8],
    previous: Option<&DaemonSetObject>,
) -> Result<DaemonSetObject, Error> {
    let error = |cause: String| Error::new(KIND, json, cause);
    let text_of_json = go_json::text(json);
    let wire: WireDaemonSet =
        serde_json::from_str(&text_of_json).map_err(|e| error(e.to_string()))?;
    let name = wire.metadata.name().map_err(|e| error(e.to_owned()))?;
    let annotations = annotations(&text_of_json)
        .map_err(|cause| error(format!("metadata.annotations: {cause}")))?;
    let spec = wire.spec.unwrap_or_default();
    let template_text = spec.template.map_or("{}", RawValue::get);
    let key = DaemonSetKey::new(text(wire.metadata.namespace.as_ref()), name);
    let (template, raw_template, mut problems) = template(template_text, previous, &key);
    let resource_version_text = text(wire.metadata.resource_version.as_ref());
    let daemon_set = DaemonSet {
        key: key.clone(),
        uid: wire.metadata.uid(),
        resource_version: resource_version(resource_version_text),
        generation: wire.metadata.generation.unwrap_or(0),
        terminating: wire.metadata.deletion_timestamp.is_some(),
        selector: daemon_set_selector(spec.selector.as_ref())
            .map_err(|message| problems.push(Problem::Selector { message: message.into() }))
            .ok(),
        template,
        template_generation: annotations
            .get(TEMPLATE_GENERATION_ANNOTATION)
            .and_then(|generation| generation.parse().ok()),
        paused: paused(annotations.get(PAUSED_ANNOTATION), &mut problems),
        copies: None,
        policy: policy(annotations.get(POLICY_ANNOTATION), previous),
        order: order(&annotations, &mut problems).map(Box::new),
        retry: annotations.get(RETRY_ANNOTATION).map(|value| value.as_str().into()),
        rolled_back: annotations.get(ROLLED_BACK_ANNOTATION).map(|attempt| attempt.as_str().into()),
        update_strategy: update_strategy(spec.update_strategy.as_ref(), &mut problems),
        min_ready_seconds: clamped(spec.min_ready_seconds, 0),
        revision_history_limit: clamped(
            spec.revision_history_limit,
            REVISION_HISTORY_LIMIT_DEFAULT,
        ),
        status: wire.status.unwrap_or_default().convert(),
        problems,
    };
    let raw = RawDaemonSet {
        key,
        uid: daemon_set.uid.clone(),
        resource_version: resource_version_text.to_owned(),
        selector: daemon_set.selector.clone(),
        labels: labels(&wire.metadata),
        policy: daemon_set.policy.clone(),
        annotations,
        template: raw_template,
    };
    Ok(DaemonSetObject { daemon_set, raw: Arc::new(raw) })
}

fn annotations(json: &str) -> Result<BTreeMap<String, String>, serde_json::Error> {
    let wire: Option<Option<TextMap>> = read_first(json, &["metadata", "annotations"])?;
    let annotations = wire.flatten().unwrap_or_default();
    Ok(annotations.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

fn template(
    text: &str,
    previous: Option<&DaemonSetObject>,
    key: &DaemonSetKey,
) -> (Template, Arc<RawTemplate>, Vec<Problem>) {
    let is_same = |p: &&DaemonSetObject| p.raw.key == *key && &*p.raw.template.text == text;
    if let Some(previous) = previous.filter(is_same) {
        let problems = previous.daemon_set.problems.iter().filter(|p| is_of_template(p)).cloned();
        let template = previous.daemon_set.template.clone();
        return (template, previous.raw.template.clone(), problems.collect());
    }
    let raw = Arc::new(RawTemplate { text: text.into(), pods: RenderedPodCache::default() });
    match go_json::parse(text.as_bytes()) {
        Ok(value) => {
            let spec = value.get("spec").unwrap_or(&Value::Null);
            let (placement, problems) = placement(spec, "spec.template.spec");
            let template = Template::new(canonical(&value), placement)
                .with_termination_grace_period(termination_grace_period_seconds(spec))
                .with_config(stored_config(&value))
                .with_fixed_parts(fixed_parts(&value))
                .with_amounts(overrides::amounts(spec));
            (template, raw, problems)
        }
        Err(cause) => {
            let problem = Problem::Template { message: cause.to_string().into() };
            (Template::new(text, Placement::default()), raw, vec![problem])
        }
    }
}

fn is_of_template(problem: &Problem) -> bool {
    match problem {
        Problem::Template { .. } | Problem::NodeAffinity { .. } | Problem::Toleration { .. } => {
            true
        }
        Problem::Selector { .. }
        | Problem::UpdateStrategy { .. }
        | Problem::Paused { .. }
        | Problem::Policy { .. }
        | Problem::Order { .. }
        | Problem::Record { .. }
        | Problem::ForeignRecord { .. }
        | Problem::Revision { .. }
        | Problem::PodWithoutNode { .. }
        | Problem::ChangedPod { .. }
        | Problem::UnchangedPod { .. }
        | Problem::LostPods { .. }
        | Problem::NamespaceNodeSelector { .. } => false,
    }
}

/// True if the annotation pauses the rollout. A malformed value does: who wrote it wanted something
/// other than the rollout that runs without it (G7).
fn paused(value: Option<&String>, problems: &mut Vec<Problem>) -> bool {
    match value.map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(value) => {
            problems.push(Problem::Paused { value: value.into() });
            true
        }
    }
}

/// The policy in the annotation. That of `previous` is reused if the annotation is the same.
fn policy(annotation: Option<&String>, previous: Option<&DaemonSetObject>) -> PolicySource {
    let Some(text) = annotation else { return PolicySource::None };
    let is_same = |p: &&DaemonSetObject| p.raw.annotations.get(POLICY_ANNOTATION) == Some(text);
    if let Some(previous) = previous.filter(is_same) {
        return previous.raw.policy.clone();
    }
    match rollout_policy(text) {
        Ok(policy) => PolicySource::Valid(Arc::new(policy)),
        Err(errors) => {
            PolicySource::Invalid(format!("annotation {POLICY_ANNOTATION}: {errors}").into())
        }
    }
}

fn labels(metadata: &Metadata<'_>) -> Labels {
    metadata.labels.iter().flat_map(TextMap::iter).collect()
}

/// The order in the annotations, and who gave it, if they state that of this one (G49).
fn order(annotations: &BTreeMap<String, String>, problems: &mut Vec<Problem>) -> Option<Order> {
    let order = rollout_order(annotations.get(ORDER_ANNOTATION)?);
    let order =
        order.map_err(|message| problems.push(Problem::Order { message: message.into() })).ok()?;
    let stated = annotations.get(ORDER_REASON_ANNOTATION).and_then(|stated| attribution(stated));
    let own = stated.filter(|(of, _)| **of == *order.text);
    Some(Order { attribution: own.map(|(_, it)| it).unwrap_or_default(), ..order })
}

fn clamped(number: Option<i64>, default: u32) -> u32 {
    number.map_or(default, |number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}
