//! DaemonSets: the parts that decisions read, and the raw JSON from which pods and revisions are
//! made.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{
    DaemonSet, DaemonSetKey, IntOrPercent, LabelSelector, Labels, ORDER_ANNOTATION, Order,
    PAUSED_ANNOTATION, POLICY_ANNOTATION, Placement, PolicySource, Problem, ROLLED_BACK_ANNOTATION,
    RolloutCondition, RolloutReason, Status, TEMPLATE_GENERATION_ANNOTATION, Template, Uid,
    UpdateStrategy,
};
use everynode_core::plan::NewPod;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::placement::termination_grace_period_seconds;
use super::wire::{Metadata, TextMap, text, timestamp};
use super::{Error, label_selector, placement, resource_version, rollout_order, rollout_policy};
use crate::canonical::canonical;
use crate::go_json;
use crate::json_path::read_first;
use crate::patch::{Owner, PROGRESSING};
use crate::pod_template;
use crate::rendered_pod::RenderedPodCache;

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

    /// The DaemonSet as the owner of pods and revisions.
    pub fn owner(&self) -> Owner<'_> {
        let DaemonSetKey { namespace, name } = &self.key;
        Owner { namespace: namespace.as_str(), name: name.as_str(), uid: &self.uid }
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

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    observed_generation: i64,
    collision_count: Option<i32>,
    desired_number_scheduled: u32,
    current_number_scheduled: u32,
    number_misscheduled: u32,
    number_ready: u32,
    number_available: u32,
    number_unavailable: u32,
    updated_number_scheduled: u32,
    conditions: Option<Vec<WireCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireCondition {
    r#type: String,
    reason: Option<String>,
    message: Option<String>,
    last_transition_time: Option<String>,
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
        selector: label_selector(spec.selector.as_ref())
            .map_err(|message| problems.push(Problem::Selector { message: message.into() }))
            .ok(),
        template,
        template_generation: annotations
            .get(TEMPLATE_GENERATION_ANNOTATION)
            .and_then(|generation| generation.parse().ok()),
        paused: paused(annotations.get(PAUSED_ANNOTATION), &mut problems),
        policy: policy(annotations.get(POLICY_ANNOTATION), previous),
        order: order(annotations.get(ORDER_ANNOTATION), &mut problems),
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
                .with_termination_grace_period(termination_grace_period_seconds(spec));
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
        | Problem::Revision { .. }
        | Problem::PodWithoutNode { .. }
        | Problem::ChangedPod { .. }
        | Problem::NamespaceNodeSelector { .. } => false,
    }
}

/// Whether the annotation pauses the rollout. A malformed value does: who wrote it wanted something
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

fn order(annotation: Option<&String>, problems: &mut Vec<Problem>) -> Option<Order> {
    let order = rollout_order(annotation?);
    order.map_err(|message| problems.push(Problem::Order { message: message.into() })).ok()
}

fn update_strategy(strategy: Option<&Value>, problems: &mut Vec<Problem>) -> UpdateStrategy {
    parse_update_strategy(strategy.unwrap_or(&Value::Null)).unwrap_or_else(|(field, message)| {
        let field = format!("spec.updateStrategy.{field}").into();
        problems.push(Problem::UpdateStrategy { field, message: message.into() });
        UpdateStrategy::Malformed
    })
}

fn parse_update_strategy(strategy: &Value) -> Result<UpdateStrategy, (&'static str, String)> {
    match strategy.get("type").and_then(Value::as_str).unwrap_or("RollingUpdate") {
        "OnDelete" => Ok(UpdateStrategy::OnDelete),
        "RollingUpdate" => {
            let number = |key| strategy.get("rollingUpdate").and_then(|rolling| rolling.get(key));
            Ok(UpdateStrategy::RollingUpdate {
                max_unavailable: int_or_percent(number("maxUnavailable"), 1)
                    .map_err(|message| ("rollingUpdate.maxUnavailable", message))?,
                max_surge: int_or_percent(number("maxSurge"), 0)
                    .map_err(|message| ("rollingUpdate.maxSurge", message))?,
            })
        }
        other => Err(("type", format!("\"{other}\" is not a valid update strategy"))),
    }
}

/// Parses a number that is not negative, or a percentage (C51).
fn int_or_percent(value: Option<&Value>, default: u32) -> Result<IntOrPercent, String> {
    let invalid = |value: &Value| format!("{value} is neither a number of pods nor a percentage");
    match value {
        None | Some(Value::Null) => Ok(IntOrPercent::Int(default)),
        Some(value @ Value::Number(number)) => {
            let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
            number.map(IntOrPercent::Int).ok_or_else(|| invalid(value))
        }
        Some(value @ Value::String(text)) => {
            let digits = text.strip_suffix('%').filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            let percent = digits.and_then(|digits| digits.parse().ok());
            percent.map(IntOrPercent::Percent).ok_or_else(|| invalid(value))
        }
        Some(value) => Err(invalid(value)),
    }
}

fn clamped(number: Option<i64>, default: u32) -> u32 {
    number.map_or(default, |number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

impl WireStatus {
    fn convert(self) -> Status {
        Status {
            observed_generation: self.observed_generation,
            collision_count: self.collision_count,
            desired_number_scheduled: self.desired_number_scheduled,
            current_number_scheduled: self.current_number_scheduled,
            number_misscheduled: self.number_misscheduled,
            number_ready: self.number_ready,
            number_available: self.number_available,
            number_unavailable: self.number_unavailable,
            updated_number_scheduled: self.updated_number_scheduled,
            rollout: self.conditions.iter().flatten().find_map(WireCondition::rollout),
        }
    }
}

impl WireCondition {
    /// What the condition states of a guarded or paused rollout. One of another controller, or
    /// without a valid time, is replaced.
    fn rollout(&self) -> Option<RolloutCondition> {
        let is_reason = |reason: &RolloutReason| Some(reason.as_str()) == self.reason.as_deref();
        let reason = RolloutReason::ALL.into_iter().find(is_reason)?;
        let since = self.last_transition_time.as_ref().filter(|_| self.r#type == PROGRESSING)?;
        Some(RolloutCondition {
            reason,
            message: self.message.as_deref().unwrap_or_default().into(),
            since: timestamp(since)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn base() -> Value {
        json!({
            "metadata": { "name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "12",
                "generation": 3,
                "annotations": { TEMPLATE_GENERATION_ANNOTATION: "2", "x": "y" } },
            "spec": {
                "selector": { "matchLabels": { "app": "d" } },
                "template": { "metadata": { "labels": { "app": "d" } },
                    "spec": { "hostNetwork": true, "new": {} } },
                "updateStrategy": { "type": "RollingUpdate",
                    "rollingUpdate": { "maxUnavailable": "10%", "maxSurge": 0 } },
                "minReadySeconds": 5,
            },
            "status": { "observedGeneration": 3, "numberReady": 4, "conditions": [] },
        })
    }

    fn of(change: impl FnOnce(&mut Value)) -> DaemonSetObject {
        let mut value = base();
        change(&mut value);
        daemon_set(value.to_string().as_bytes(), None).unwrap()
    }

    /// C2, C3: decisions get narrow types, and the raw template is kept beside them.
    #[test]
    fn a_daemon_set_is_read_narrowly_and_its_template_kept_raw() {
        let DaemonSetObject { daemon_set, raw } = of(|_| ());
        assert_eq!(daemon_set.key.to_string(), "ns/d");
        assert_eq!(daemon_set.template_generation, Some(2));
        assert_eq!((daemon_set.min_ready_seconds, daemon_set.revision_history_limit), (5, 10));
        assert_eq!(daemon_set.status.number_ready, 4);
        assert!(daemon_set.template.placement.host_network);
        assert!(daemon_set.problems.is_empty());
        assert_eq!(raw.template(), base()["spec"]["template"]);
        assert_eq!(raw.annotations["x"], "y");
    }

    /// C51: numbers, percentages and defaults.
    #[test]
    fn budgets_are_numbers_or_percentages() {
        let strategy =
            |strategy: Value| of(|ds| ds["spec"]["updateStrategy"] = strategy).daemon_set;
        let default = UpdateStrategy::RollingUpdate {
            max_unavailable: IntOrPercent::Int(1),
            max_surge: IntOrPercent::Int(0),
        };
        assert_eq!(strategy(Value::Null).update_strategy, default);
        assert_eq!(
            strategy(json!({ "type": "OnDelete" })).update_strategy,
            UpdateStrategy::OnDelete
        );
        let surge =
            strategy(json!({ "rollingUpdate": { "maxSurge": "33%", "maxUnavailable": 0 } }));
        let expected = UpdateStrategy::RollingUpdate {
            max_unavailable: IntOrPercent::Int(0),
            max_surge: IntOrPercent::Percent(33),
        };
        assert_eq!(surge.update_strategy, expected);
    }

    /// G6, G7: the annotation pauses the rollout, also with a value that is none of its own.
    #[test]
    fn the_annotation_pauses_the_rollout() {
        for (value, paused, problems) in
            [("true", true, 0), ("false", false, 0), ("True", true, 1), ("", true, 1)]
        {
            let ds = of(|ds| ds["metadata"]["annotations"][PAUSED_ANNOTATION] = value.into());
            let found = (ds.daemon_set.paused, ds.daemon_set.problems.len());
            assert_eq!(found, (paused, problems), "{value:?}");
        }
        assert!(!of(|_| ()).daemon_set.paused);
    }

    /// G4, G7, G10: policy and order are read; malformed ones are reported, and a malformed policy
    /// is not the same as none.
    #[test]
    fn policy_and_order_are_read() {
        let with = |policy: &str, order: &str| {
            of(|ds| {
                ds["metadata"]["annotations"][POLICY_ANNOTATION] = policy.into();
                ds["metadata"]["annotations"][ORDER_ANNOTATION] = order.into();
            })
            .daemon_set
        };
        let valid = with("steps: [{name: canary}]", "abort 5d4f now");
        assert_eq!(valid.policy.valid().map(|policy| policy.steps.len()), Some(1));
        assert!(valid.order.is_some() && valid.problems.is_empty());
        let bad = with("steps: [{}]", "abort");
        let why = "annotation everynode.dev/rollout-policy: steps[0].name: Required value";
        assert_eq!((bad.policy, bad.order), (PolicySource::Invalid(why.into()), None));
        assert_eq!(bad.problems.len(), 1);
        assert_eq!(of(|_| ()).daemon_set.policy, PolicySource::None);
    }

    /// G21: the status states what is known of the rollout, beside other conditions.
    #[test]
    fn the_condition_of_a_rollout_is_read() {
        let since = |conditions: Value| {
            let status = of(|ds| ds["status"]["conditions"] = conditions).daemon_set.status;
            status
                .rollout
                .filter(|rollout| rollout.reason == RolloutReason::Paused)
                .map(|rollout| rollout.since)
        };
        let at = "2026-01-01T00:00:00Z";
        let pause = json!({ "type": "Progressing", "status": "Unknown", "reason": "Paused",
            "lastTransitionTime": at });
        let other = json!({ "type": "Sane", "status": "True" });
        assert_eq!(since(json!([other, pause])), timestamp(at));
        for none in [
            json!(null),
            json!([other]),
            json!([{ "type": "Progressing", "reason": "Other", "lastTransitionTime": at }]),
            json!([{ "type": "Progressing", "reason": "Paused", "lastTransitionTime": "soon" }]),
        ] {
            assert_eq!(since(none.clone()), None, "{none}");
        }
    }

    /// G16: a pod of an older revision is made from that revision's template alone.
    #[test]
    fn a_pod_of_an_older_revision_is_made_from_its_template() {
        let raw = of(|_| ()).raw;
        let older = json!({ "metadata": { "labels": { "app": "d", "old": "yes" } },
            "spec": { "containers": [{ "name": "c" }], "volumes": [{ "emptyDir": {} }] } });
        let new = NewPod {
            name: Some("d-1".into()),
            node: "n".into(),
            hash: "older".into(),
            template_generation: None,
            template: Some(canonical(&older).into()),
            schedule_by: everynode_core::plan::ScheduleBy::Scheduler,
        };
        let pod: Value = serde_json::from_str(&raw.pod(&new)).unwrap();
        let labels = json!({ "app": "d", "old": "yes", "controller-revision-hash": "older" });
        assert_eq!(pod["metadata"]["labels"], labels);
        assert_eq!(pod["metadata"]["name"], "d-1");
        assert_eq!(pod["spec"]["containers"], older["spec"]["containers"]);
        assert_eq!(pod["spec"]["volumes"], older["spec"]["volumes"]);
        assert_eq!(pod["spec"]["hostNetwork"], Value::Null, "that of the target");
        let next = NewPod { template: None, hash: "new".into(), ..new };
        let pod: Value = serde_json::from_str(&raw.pod(&next)).unwrap();
        assert_eq!(pod["spec"]["hostNetwork"], true);
    }

    /// C4: a malformed percentage, selector or strategy is a problem, and the DaemonSet is kept.
    #[test]
    fn a_malformed_field_becomes_a_problem() {
        for bad in [
            json!("10 %"),
            json!("ten"),
            json!("-1%"),
            json!("%"),
            json!(-1),
            json!(1.5),
            json!({}),
        ] {
            let ds = of(|ds| {
                ds["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = bad.clone()
            });
            let problems = &ds.daemon_set.problems;
            assert_eq!(ds.daemon_set.update_strategy, UpdateStrategy::Malformed, "{bad}");
            assert!(matches!(&problems[..], [Problem::UpdateStrategy { .. }]), "{problems:?}");
        }
        let ds = of(|ds| {
            ds["spec"]["selector"]["matchExpressions"] = json!([{ "key": "a", "operator": "~" }])
        });
        assert_eq!(ds.daemon_set.selector, None);
        assert!(matches!(&ds.daemon_set.problems[..], [Problem::Selector { .. }]));
    }

    /// C4: a malformed template is a problem of its DaemonSet, even if the JSON around it is valid.
    #[test]
    fn a_malformed_template_is_a_problem() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for bad in [r#"{"spec":{"x":"\ud800"}}"#, r#"{"spec":{"x":1e999}}"#, &deep] {
            let json = format!(
                r#"{{"metadata":{{"name":"d","namespace":"ns","uid":"u"}},
                "spec":{{"selector":{{"matchLabels":{{"app":"d"}}}},"template":{bad}}}}}"#
            );
            let ds = daemon_set(json.as_bytes(), None).unwrap();
            let problems = &ds.daemon_set.problems;
            assert!(matches!(&problems[..], [Problem::Template { .. }]), "{bad}: {problems:?}");
            assert_eq!(ds.raw.template(), Value::Null);
            let again = daemon_set(json.as_bytes(), Some(&ds)).unwrap();
            assert_eq!(&again.daemon_set.problems, problems);
        }
    }

    /// C1, C4: a DaemonSet that is malformed outside its template is an error with its name.
    #[test]
    fn a_malformed_object_is_an_error_with_its_name() {
        for bad in [
            r#""annotations":{"a":"\ud800"}},"spec":{}"#,
            r#""annotations":{}},"spec":{"selector":{"matchLabels":{"a":"\ud800"}}}"#,
            r#""generation":1e999},"spec":{}"#,
        ] {
            let json = format!(r#"{{"metadata":{{"name":"d","namespace":"ns",{bad}}}"#);
            let error = daemon_set(json.as_bytes(), None).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with("DaemonSet "), "{error}");
        }
    }

    /// C2, C4: invalid UTF-8 becomes U+FFFD, as in Go.
    #[test]
    fn a_daemon_set_with_invalid_utf_8_is_kept() {
        let json = b"{\"metadata\":{\"name\":\"d\",\"namespace\":\"ns\",\
            \"annotations\":{\"a\":\"\xff\"}},\
            \"spec\":{\"template\":{\"x\":\"\xff\"}}}";
        let ds = daemon_set(json, None).unwrap();
        assert_eq!(ds.raw.annotations["a"], "\u{fffd}");
        assert_eq!(ds.raw.template(), json!({ "x": "\u{fffd}" }));
    }

    /// C80: a change of the status alone does not parse the template again.
    #[test]
    fn an_unchanged_template_is_shared() {
        let malformed = json!({ "matchExpressions": [{ "key": "a", "operator": "~" }] });
        let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [malformed] } } });
        let mut value = base();
        value["spec"]["template"]["spec"]["affinity"] = affinity;
        let first = daemon_set(value.to_string().as_bytes(), None).unwrap();
        value["status"]["numberReady"] = 5.into();
        let second = daemon_set(value.to_string().as_bytes(), Some(&first)).unwrap();
        assert!(Arc::ptr_eq(
            &first.daemon_set.template.canonical,
            &second.daemon_set.template.canonical
        ));
        assert!(Arc::ptr_eq(&first.raw.template, &second.raw.template));
        assert_eq!(first.daemon_set.problems, second.daemon_set.problems);
        assert_eq!(second.daemon_set.problems.len(), 1);
    }
}
