//! The Job of a `cronJob` check: its name, its content, and what it says (G5). Sans-IO.

use everynode_core::api::{CheckAnswer, CheckVerdict, DaemonSetKey, JobPresence, Namespace};
use everynode_core::plan::CheckQuestion;
use everynode_core::revisions::revision_hash;
use everynode_k8s::record::time_text;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::unknown;

/// The annotation of a Job that says which check it belongs to.
pub const CHECK_ANNOTATION: &str = "everynode.dev/check";
/// Says that a Job was not created by its CronJob's schedule, as `kubectl create job` does.
const INSTANTIATE_ANNOTATION: &str = "cronjob.kubernetes.io/instantiate";
/// `ttlSecondsAfterFinished` of a CronJob that states none: a week.
const TTL_SECONDS: u64 = 7 * 24 * 60 * 60;
/// Minimum of `ttlSecondsAfterFinished`, within which the result is read.
const TTL_SECONDS_MIN: u64 = 3600;
/// Maximum length of a Job's name, which its pods have as a label.
const NAME_LENGTH_MAX: usize = 63;

/// The name of the Job of a check. Another attempt at the wave has another one, and a controller
/// that starts finds the Job of the one before it.
pub fn name(question: &CheckQuestion, cron_job: &str) -> String {
    let hash = revision_hash(&identity(question), None);
    let room = NAME_LENGTH_MAX - hash.as_str().len() - 1;
    let prefix: String = cron_job.chars().take(room).collect();
    format!("{}-{hash}", prefix.trim_end_matches(['-', '.']))
}

/// Which check a Job belongs to, in words.
fn identity(question: &CheckQuestion) -> String {
    let CheckQuestion { daemon_set, revision, wave, since, check, job_number, .. } = question;
    let number = if *job_number > 1 { format!(" job {job_number}") } else { String::new() };
    format!(
        "daemonset {} revision {revision} wave {wave} since {} check {}{number}",
        daemon_set.name,
        time_text(*since),
        check.name
    )
}

/// The path of the Jobs of a namespace.
pub fn collection_path(namespace: &Namespace) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

/// The path of the Job of a check.
pub fn path(daemon_set: &DaemonSetKey, name: &str) -> String {
    format!("{}/{name}", collection_path(&daemon_set.namespace))
}

/// The path of a CronJob.
pub fn cron_job_path(namespace: &Namespace, name: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/cronjobs/{name}")
}

/// The Job to create, as `kubectl create job --from` makes it of a CronJob, except that its result
/// can be read (G46): neither a short TTL nor the limits of the CronJob's history delete it before.
///
/// # Errors
/// If the CronJob cannot be read.
pub fn body(question: &CheckQuestion, name: &str, cron_job: &[u8]) -> Result<Value, String> {
    let cron_job: Value =
        serde_json::from_slice(cron_job).map_err(|error| format!("the cronjob: {error}"))?;
    let template = &cron_job["spec"]["jobTemplate"];
    if !template["spec"].is_object() || !cron_job["metadata"]["uid"].is_string() {
        return Err("the cronjob has no template".to_owned());
    }
    let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut annotations = map(&template["metadata"]["annotations"]);
    annotations.insert(INSTANTIATE_ANNOTATION.to_owned(), "manual".into());
    annotations.insert(CHECK_ANNOTATION.to_owned(), identity(question).into());
    let mut spec = template["spec"].clone();
    let ttl = &mut spec["ttlSecondsAfterFinished"];
    // Nothing else deletes it while its CronJob exists.
    *ttl = ttl.as_u64().map_or(TTL_SECONDS, |ttl| ttl.max(TTL_SECONDS_MIN)).into();
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": question.daemon_set.namespace.as_str(),
            "labels": map(&template["metadata"]["labels"]),
            "annotations": annotations,
            // It is deleted with the CronJob, whose history has only what it is the controller of.
            "ownerReferences": [{
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "name": cron_job["metadata"]["name"],
                "uid": cron_job["metadata"]["uid"],
            }],
        },
        "spec": spec,
    }))
}

#[derive(Deserialize)]
struct Job {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
    #[serde(rename = "deletionTimestamp")]
    deleted: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    active: u64,
    failed: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

/// The answer of a Job: it passes when it has succeeded, and fails when it has failed.
pub fn answer(question: &CheckQuestion, name: &str, job: &[u8]) -> CheckAnswer {
    let job: Job = match serde_json::from_slice(job) {
        Ok(job) => job,
        Err(error) => return unknown(&format!("job {name}: {error}")),
    };
    let owner = job.metadata.annotations.get(CHECK_ANNOTATION);
    if owner.is_none_or(|owner| *owner != identity(question)) {
        return unknown(&format!("job {name} was not created for this check"));
    }
    let has = |r#type: &str| {
        let mut conditions = job.status.conditions.iter();
        conditions.find(|condition| condition.r#type == r#type && condition.status == "True")
    };
    let (verdict, text) = match (has("Complete"), has("Failed")) {
        (Some(_), _) => (CheckVerdict::Passed, format!("job {name} has succeeded")),
        (None, Some(Condition { reason, message, .. })) => {
            (CheckVerdict::Failed, format!("job {name} has failed: {reason}: {message}"))
        }
        (None, None) if job.metadata.deleted.is_some() => {
            return unknown(&format!("job {name} was deleted")).with_job(JobPresence::Exists);
        }
        (None, None) => {
            let Status { active, failed, .. } = job.status;
            let text = format!("job {name} has {active} active and {failed} failed pods");
            (CheckVerdict::Unknown, text)
        }
    };
    CheckAnswer::new(verdict, &text).with_job(JobPresence::Exists)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use everynode_core::api::{CheckKind, RolloutCheck, Timestamp};

    use super::*;

    pub(in super::super) fn question(kind: CheckKind) -> CheckQuestion {
        CheckQuestion {
            daemon_set: DaemonSetKey::new("logging", "fluentd"),
            revision: "5d4f".into(),
            wave: "canary".into(),
            since: Timestamp::from_seconds(90),
            kind: kind.clone(),
            check: RolloutCheck {
                name: "smoke".into(),
                interval: Duration::from_secs(30),
                initial_delay: Duration::ZERO,
                failures: 1,
                kind,
            },
            asked: Timestamp(0),
            asked_wall: Timestamp(0),
            job_number: 1,
            has_job: false,
        }
    }

    fn of_job() -> CheckQuestion {
        question(CheckKind::CronJob("smoke-test".into()))
    }

    /// G5: the name is that of the same attempt at the same wave, and no other, and short enough.
    #[test]
    fn each_attempt_has_its_job() {
        let first = of_job();
        let named = name(&first, "smoke-test");
        assert_eq!(named, name(&first, "smoke-test"));
        assert!(named.starts_with("smoke-test-"), "{named}");
        for other in [
            CheckQuestion { since: Timestamp::from_seconds(91), ..first.clone() },
            CheckQuestion { wave: "rest".into(), ..first.clone() },
            CheckQuestion { revision: "8c".into(), ..first.clone() },
            CheckQuestion { job_number: 2, ..first.clone() },
            CheckQuestion { daemon_set: DaemonSetKey::new("logging", "other"), ..first.clone() },
        ] {
            assert_ne!(name(&other, "smoke-test"), named);
        }
        let long = name(&first, &format!("{}.-{}", "x".repeat(50), "y".repeat(30)));
        assert!(long.len() <= 63 && !long.contains(".-"), "{long}");
    }

    /// G5: the Job is what kubectl makes of a CronJob, and says which check it belongs to.
    #[test]
    fn the_job_is_made_of_the_template() {
        let cron_job = json!({
            "metadata": { "name": "smoke-test", "uid": "u" },
            "spec": { "suspend": true, "jobTemplate": {
                "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } },
                "spec": { "backoffLimit": 0 } } },
        });
        let job = body(&of_job(), "n", cron_job.to_string().as_bytes()).expect("a body");
        let expected = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "n",
                "namespace": "logging",
                "labels": { "a": "b" },
                "annotations": {
                    "c": "d",
                    "cronjob.kubernetes.io/instantiate": "manual",
                    "everynode.dev/check": "daemonset fluentd revision 5d4f wave canary since \
                                            1970-01-01T00:01:30Z check smoke",
                },
                "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "CronJob",
                    "name": "smoke-test", "uid": "u" }],
            },
            "spec": { "backoffLimit": 0, "ttlSecondsAfterFinished": 604_800 },
        });
        assert_eq!(job, expected);
        for bad in ["", "{}", "[]", r#"{"spec":{"jobTemplate":{"spec":{}}}}"#] {
            assert!(body(&of_job(), "n", bad.as_bytes()).is_err(), "{bad}");
        }
    }

    /// G46: a Job remains for an hour, so that its result is read, and not for ever.
    #[test]
    fn a_job_remains_until_its_result_is_read() {
        for (ttl, expected) in [
            (json!({}), 604_800),
            (json!({ "ttlSecondsAfterFinished": null }), 604_800),
            (json!({ "ttlSecondsAfterFinished": 0 }), 3_600),
            (json!({ "ttlSecondsAfterFinished": 86400 }), 86_400),
        ] {
            let cron_job = json!({ "metadata": { "name": "smoke-test", "uid": "u" },
                "spec": { "jobTemplate": { "spec": ttl } } });
            let job = body(&of_job(), "n", cron_job.to_string().as_bytes()).expect("a body");
            assert_eq!(job["spec"], json!({ "ttlSecondsAfterFinished": expected }));
        }
    }

    fn said(conditions: &Value) -> (CheckVerdict, String) {
        let annotations = json!({ CHECK_ANNOTATION: identity(&of_job()) });
        let job = json!({ "metadata": { "annotations": annotations },
            "status": { "conditions": conditions, "active": 1 } });
        let answer = answer(&of_job(), "n", job.to_string().as_bytes());
        assert_eq!(answer.job, JobPresence::Exists);
        (answer.verdict, answer.text.to_string())
    }

    /// G5: a Job passes when it has succeeded and fails when it has failed; until then it says
    /// nothing.
    #[test]
    fn the_conditions_of_the_job_count() {
        use CheckVerdict::{Failed, Passed, Unknown};
        let running = (Unknown, "job n has 1 active and 0 failed pods".to_owned());
        assert_eq!(said(&json!([])), running);
        assert_eq!(said(&json!([{ "type": "Complete", "status": "False" }])), running);
        assert_eq!(said(&json!([{ "type": "FailureTarget", "status": "True" }])), running);
        let done = json!([{ "type": "Suspended", "status": "False" },
            { "type": "Complete", "status": "True" }]);
        assert_eq!(said(&done), (Passed, "job n has succeeded".to_owned()));
        let failed = json!([{ "type": "Failed", "status": "True",
            "reason": "BackoffLimitExceeded", "message": "too often" }]);
        let text = "job n has failed: BackoffLimitExceeded: too often".to_owned();
        assert_eq!(said(&failed), (Failed, text));
    }

    /// G5: a Job of the name that somebody else has created says nothing.
    #[test]
    fn a_job_of_others_does_not_count() {
        for metadata in [json!({}), json!({ "annotations": { CHECK_ANNOTATION: "another" } })] {
            let done = json!([{ "type": "Complete", "status": "True" }]);
            let job = json!({ "metadata": metadata, "status": { "conditions": done } });
            let answer = answer(&of_job(), "n", job.to_string().as_bytes());
            assert_eq!(&*answer.text, "job n was not created for this check");
            assert_eq!((answer.verdict, answer.job), (CheckVerdict::Unknown, JobPresence::Unknown));
        }
    }
}
