//! PodDisruptionBudgets: whether they allow an eviction, and what their status is (S13). As in
//! upstream's eviction endpoint and disruption controller.

mod budgets;

use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::Timestamp;

use self::budgets::{Budget, PodCount};
use super::Registry;
use crate::clock::{self, rfc3339};
use crate::condition;
use crate::json::{Map, Value, json};
use crate::kinds::{POD, POD_DISRUPTION_BUDGET};
use crate::object::Object;
use crate::status::{Details, Reason, Status, StatusCause};
use crate::store::{Store, WriteOptions};
use crate::value::{integer, is_set, string};

pub(super) use self::budgets::Budgets;
pub(crate) use self::budgets::DueBudget;

/// Time after which an eviction that was allowed, but deleted no pod, is forgotten.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl Registry {
    /// Refuses an eviction that violates the pod's disruption budget, and counts one that it
    /// allows.
    ///
    /// # Errors
    /// 429 for a budget that allows no disruption, 500 for a pod with several budgets.
    pub(super) fn spend_budget(
        &mut self,
        pod: &Arc<Object>,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let phase = pod.text(&["status", "phase"]);
        if self.store().count(&POD_DISRUPTION_BUDGET) == 0
            || matches!(phase, "Succeeded" | "Failed" | "Pending")
            || pod.is_terminating()
        {
            return Ok(());
        }
        let names: Vec<&Arc<str>> = self.admission().budgets.selecting(pod).take(2).collect();
        let Some(name) = names.first() else { return Ok(()) };
        if names.len() > 1 {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction \
                           subresource does not support.";
            return Err(Status::new(Reason::InternalError, message));
        }
        let namespace = pod.namespace();
        let found = self.store().find_with_tree(&POD_DISRUPTION_BUDGET, namespace, name);
        let budget = found.expect("the budgets are those of the store");
        let object = budget.value();
        if !is_ready(pod.value()) && may_evict_unready(object) {
            return Ok(());
        }
        check_budget(object)?;
        let mut object = object.clone();
        let left = integer(&object, "/status/disruptionsAllowed") - 1;
        object["status"]["disruptionsAllowed"] = left.into();
        if left == 0 {
            set_condition(&mut object, options.now);
        }
        object["status"]["disruptedPods"][pod.name()] = rfc3339(options.now).into();
        self.update_status(&POD_DISRUPTION_BUDGET, namespace, budget.name(), object, options)
            .map(drop)
    }

    /// A budget whose status may be out of date, found with a limited amount of work.
    pub(crate) fn next_budget(&mut self, work: &mut usize) -> DueBudget {
        let (admission, store) = self.admission_mut();
        admission.budgets.next(store, work)
    }

    /// Looks at a budget again.
    pub(crate) fn check_budget_again(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        self.admission_mut().0.budgets.enqueue(namespace, name);
    }

    /// Brings the status of a budget up to date, whose pods are counted. Returns the time at which
    /// it has to be looked at again, if there is one.
    pub(crate) fn refresh_budget(&mut self, budget: &Object, now: Timestamp) -> Option<Timestamp> {
        let counted = self.admission().budgets.counted(budget.namespace(), budget.name())?;
        let before = budget.value();
        let pods = &counted.count;
        let disrupted = Disrupted::of(self.store(), budget, counted, now);
        let healthy = pods.healthy - disrupted.healthy;
        let mut object = before.clone();
        let generation = object["metadata"]["generation"].clone();
        let status = &mut object["status"];
        match expected(before, pods) {
            Some((expected, desired)) => {
                let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
                status["currentHealthy"] = healthy.into();
                status["desiredHealthy"] = desired.into();
                status["expectedPods"] = expected.into();
                status["disruptionsAllowed"] = allowed.into();
                status["observedGeneration"] = generation;
                if let Some(status) = status.as_object_mut() {
                    status.remove("disruptedPods");
                    if !disrupted.times.is_empty() {
                        status.insert("disruptedPods", disrupted.times.into());
                    }
                }
                set_condition(&mut object, now);
            }
            None => fail_safe(&mut object, pods, now),
        }
        if object != *before {
            let (namespace, name) = (budget.namespace(), budget.name());
            let options = WriteOptions::at(now);
            let written =
                self.update_status(&POD_DISRUPTION_BUDGET, namespace, name, object, &options);
            if let Err(status) = written {
                tracing::warn!(name, %status, "the status of a disruption budget was refused");
            }
        }
        disrupted.recheck
    }
}

fn check_budget(budget: &Value) -> Result<(), Status> {
    let name = string(budget, "/metadata/name");
    let refuse = |message: String, retry_after_seconds| {
        Status::new(Reason::TooManyRequests, REFUSAL).with_details(Details {
            causes: vec![StatusCause::new("DisruptionBudget", "", message)],
            retry_after_seconds,
            ..Details::default()
        })
    };
    if integer(budget, "/status/observedGeneration") < integer(budget, "/metadata/generation") {
        let message =
            format!("The disruption budget {name} is still being processed by the server.");
        return Err(refuse(message, 10));
    }
    if integer(budget, "/status/disruptionsAllowed") > 0 {
        return Ok(());
    }
    Err(refuse(
        format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            integer(budget, "/status/desiredHealthy"),
            integer(budget, "/status/currentHealthy")
        ),
        0,
    ))
}

/// A pod that is not ready does not count, so its eviction may do no harm.
fn may_evict_unready(budget: &Value) -> bool {
    if string(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" {
        return true;
    }
    let desired = integer(budget, "/status/desiredHealthy");
    integer(budget, "/status/currentHealthy") >= desired && desired > 0
}

fn is_ready(pod: &Value) -> bool {
    condition::is_true(&pod["status"], "Ready")
}

/// The pods that were evicted and are not deleted yet.
struct Disrupted {
    times: Map,
    /// How many of them are counted as healthy.
    healthy: i64,
    /// The time at which the first one is forgotten.
    recheck: Option<Timestamp>,
}

impl Disrupted {
    fn of(store: &Store, object: &Object, budget: &Budget, now: Timestamp) -> Self {
        let mut disrupted = Self { times: Map::new(), healthy: 0, recheck: None };
        let known = object.value()["status"]["disruptedPods"].as_object();
        for (name, time) in known.into_iter().flatten() {
            let Some(pod) = store.find(&POD, object.namespace(), name) else { continue };
            let Some(at) = time.as_str().and_then(clock::parse) else { continue };
            let until = at + DELETION_TIMEOUT;
            if !budget.selects(pod) || pod.is_terminating() || until <= now {
                continue;
            }
            disrupted.times.insert(name.clone(), time.clone());
            disrupted.healthy += i64::from(is_ready(&pod.read()));
            disrupted.recheck = Some(disrupted.recheck.map_or(until, |earlier| earlier.min(until)));
        }
        disrupted
    }
}

/// The number of pods that should exist, and of those that must be healthy. `None` if the number
/// can't be known: the owners of the pods have no scale, as DaemonSets.
fn expected(budget: &Value, pods: &PodCount) -> Option<(i64, i64)> {
    let spec = &budget["spec"];
    if is_set(spec, "/maxUnavailable") {
        let expected = scale_of_owners(pods)?;
        let unavailable = scaled(&spec["maxUnavailable"], expected);
        return Some((expected, (expected - unavailable).max(0)));
    }
    match &spec["minAvailable"] {
        Value::Number(number) => Some((pods.pods, number.as_i64().unwrap_or(0))),
        percentage @ Value::String(_) => {
            let expected = scale_of_owners(pods)?;
            Some((expected, scaled(percentage, expected)))
        }
        _ => Some((0, 0)),
    }
}

/// No pod with a controller in the sandbox has a scale: only pods without one are counted, as 0.
fn scale_of_owners(pods: &PodCount) -> Option<i64> {
    if pods.controller().is_some() { None } else { Some(0) }
}

/// A number, or a percentage of `total`, rounded up.
fn scaled(value: &Value, total: i64) -> i64 {
    match value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok()) {
        Some(percentage) => percentage.saturating_mul(total).saturating_add(99).max(0) / 100,
        None => value.as_i64().unwrap_or(0),
    }
}

/// Allows nothing, and says why.
fn fail_safe(object: &mut Value, pods: &PodCount, now: Timestamp) {
    let controller = pods.controller();
    let message = controller
        .map(|resource| format!("{resource} does not implement the scale subresource"))
        .unwrap_or_default();
    object["status"]["disruptionsAllowed"] = 0.into();
    let generation = object["status"]["observedGeneration"].clone();
    write_condition(object, "SyncFailed", "False", &message, &generation, now);
}

/// The condition DisruptionAllowed, from the number of allowed disruptions.
fn set_condition(object: &mut Value, now: Timestamp) {
    let allowed = integer(object, "/status/disruptionsAllowed") > 0;
    let (reason, status) =
        if allowed { ("SufficientPods", "True") } else { ("InsufficientPods", "False") };
    let generation = object["status"]["observedGeneration"].clone();
    write_condition(object, reason, status, "", &generation, now);
}

fn write_condition(
    object: &mut Value,
    reason: &str,
    status: &str,
    message: &str,
    generation: &Value,
    now: Timestamp,
) {
    let mut condition = json!({
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": message,
    });
    if generation.as_i64().is_some_and(|generation| generation != 0) {
        condition["observedGeneration"] = generation.clone();
    }
    condition::transition(&mut object["status"], condition, now);
}
