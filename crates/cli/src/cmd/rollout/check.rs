//! `everynode rollout check`: makes the checks of a policy once, from this machine (G5, G24).

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use everynode_controller::api::Api;
use everynode_controller::checks::answer::unknown;
use everynode_controller::checks::credentials::Credentials;
use everynode_controller::checks::hosts::Hosts;
use everynode_controller::checks::{Runner, Tls};
use everynode_core::api::{
    CheckAnswer, CheckKind, CheckSubject, CheckVerdict, DaemonSet, HASH_LABEL, JobPresence,
    PolicySource, RolloutCheck, RolloutPolicy, Timestamp,
};
use everynode_core::plan::CheckQuestion;
use everynode_insight::guarded::{CheckResult, GuardedRollout, RolloutChecks};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{Instant, sleep};

use super::Guarded;
use crate::args::{OutputFormat, RolloutCheckArguments};
use crate::cluster::{Cluster, Resource, Selection};
use crate::output::{self, TextLayout, Tone};

const EXIT_FAILED: u8 = 3;
const EXIT_UNKNOWN: u8 = 4;
/// The wave that Jobs of this command name.
const BY_HAND: &str = "by-hand";
const JOB_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Executes the command.
pub(super) async fn execute(arguments: RolloutCheckArguments) -> anyhow::Result<ExitCode> {
    let credentials = arguments.check_credentials.as_deref().map(Credentials::read).transpose()?;
    let cluster = Cluster::connect(&arguments.connection).await?;
    let name = &arguments.daemon_set;
    let Guarded { daemon_set, revisions, problems } = super::read(&cluster, name).await?;
    problems.iter().for_each(output::note);
    let policy = policy(&daemon_set)?;
    let checks = selected(policy, arguments.check.as_deref())?;
    let rollout = GuardedRollout::of(&daemon_set, None, &revisions);
    let (revision, base) = rollout.map(|it| (it.revision, it.base)).unwrap_or_default();
    let revision = revision.unwrap_or_default();
    let credentials = credentials.unwrap_or_default();
    let runner = Runner::new(Hosts::Any, Tls::default(), credentials, cluster.api());
    let deadline = arguments.run_jobs.then(|| Instant::now() + arguments.timeout);
    let subject = match checks.iter().any(|check| check.kind.has_variables()) {
        true => Some(subject(&cluster, &daemon_set, &revision, base.as_deref()).await?),
        false => None,
    };
    let answers = checks.iter().map(|check| {
        let question = question(&daemon_set, &revision, check, subject.as_ref());
        answer(&runner, question, deadline)
    });
    let answers = join_all(answers).await;
    let verdicts: Vec<CheckVerdict> = answers.iter().map(|answer| answer.verdict).collect();
    let results = RolloutChecks {
        namespace: daemon_set.key.namespace.to_string(),
        name: daemon_set.key.name.to_string(),
        checks: checks.into_iter().zip(answers).map(|(check, it)| result(check, &it)).collect(),
    };
    let text = match arguments.output.output {
        Some(OutputFormat::Document(format)) => output::document(&results, format)?,
        Some(OutputFormat::Name) => format!("daemonset.apps/{name}\n"),
        Some(OutputFormat::Wide) | None => {
            text(&results, TextLayout::stdout(arguments.output.color.color))
        }
    };
    output::print(&text)?;
    Ok(exit_code(&verdicts))
}

fn policy(daemon_set: &DaemonSet) -> anyhow::Result<&RolloutPolicy> {
    let key = &daemon_set.key;
    match &daemon_set.policy {
        PolicySource::None => {
            bail!("no policy guards the rollouts of daemonset {key}; see docs/rollouts.md")
        }
        PolicySource::Invalid(why) => {
            bail!("the rollout policy of daemonset {key} is invalid: {why}")
        }
        PolicySource::Valid(policy) if policy.checks.is_empty() => {
            bail!("the rollout policy of daemonset {key} has no checks")
        }
        PolicySource::Valid(policy) => Ok(policy),
    }
}

fn selected<'a>(
    policy: &'a RolloutPolicy,
    name: Option<&str>,
) -> anyhow::Result<Vec<&'a RolloutCheck>> {
    let is_meant = |check: &&RolloutCheck| name.is_none_or(|name| *check.name == *name);
    let checks: Vec<&RolloutCheck> = policy.checks.iter().filter(is_meant).collect();
    if let (Some(name), []) = (name, &checks[..]) {
        let names: Vec<&str> = policy.checks.iter().map(|check| &*check.name).collect();
        bail!("the rollout policy has no check {name}: it has {}", names.join(", "));
    }
    Ok(checks)
}

/// The values of variables: as if all new pods were those of one wave.
async fn subject(
    cluster: &Cluster,
    daemon_set: &DaemonSet,
    revision: &str,
    base: Option<&str>,
) -> anyhow::Result<CheckSubject> {
    let key = &daemon_set.key;
    let selection = Selection::in_namespace(key.namespace.as_str())
        .labelled(&format!("{HASH_LABEL}={revision}"));
    let uid = daemon_set.uid.to_string();
    let pods: Vec<Pod> = cluster.list_as(Resource::Pods, &selection).await?;
    let is_own = |pod: &&Pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
    };
    let pods = || pods.iter().filter(is_own);
    let nodes = pods().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    Ok(CheckSubject {
        daemon_set: key.clone(),
        revision: revision.into(),
        base: base.map(Into::into),
        wave: BY_HAND.into(),
        nodes: nodes.map(Into::into).collect(),
        pods: pods().filter_map(|pod| Some(pod.metadata.name.as_deref()?.into())).collect(),
    })
}

fn question(
    daemon_set: &DaemonSet,
    revision: &str,
    check: &RolloutCheck,
    subject: Option<&CheckSubject>,
) -> CheckQuestion {
    let now = Timestamp(jiff::Timestamp::now().as_millisecond());
    CheckQuestion {
        daemon_set: daemon_set.key.clone(),
        revision: revision.into(),
        wave: BY_HAND.into(),
        since: now,
        check: check.clone(),
        kind: subject.map_or_else(|| check.kind.clone(), |subject| check.kind.about(subject)),
        asked: now,
        asked_wall: now,
        job_number: 1,
        has_job: false,
    }
}

/// The answer to a check. A Job is created only if there is a deadline for its end.
async fn answer(
    runner: &Runner<Api>,
    mut question: CheckQuestion,
    deadline: Option<Instant>,
) -> CheckAnswer {
    let CheckKind::CronJob(name) = question.check.kind.clone() else {
        return runner.answer(&question).await;
    };
    let Some(deadline) = deadline else {
        return match runner.find_cron_job(&question.daemon_set, &name).await {
            Ok(_) => unknown("the cronjob exists, --run-jobs would create a job of it"),
            Err(why) => unknown(&why),
        };
    };
    loop {
        let answer = runner.answer(&question).await;
        let is_over = answer.verdict != CheckVerdict::Unknown;
        // Without a Job nothing changes by waiting.
        if is_over || answer.job != JobPresence::Exists || Instant::now() >= deadline {
            return answer;
        }
        question.has_job = true;
        sleep(JOB_POLL_INTERVAL).await;
    }
}

fn result(check: &RolloutCheck, answer: &CheckAnswer) -> CheckResult {
    CheckResult {
        name: check.name.to_string(),
        kind: check.kind.field(),
        question: check.kind.to_string(),
        answer: answer.verdict,
        text: answer.text.to_string(),
    }
}

fn exit_code(verdicts: &[CheckVerdict]) -> ExitCode {
    let has = |verdict| verdicts.contains(&verdict);
    match (has(CheckVerdict::Failed), has(CheckVerdict::Unknown)) {
        (true, _) => ExitCode::from(EXIT_FAILED),
        (false, true) => ExitCode::from(EXIT_UNKNOWN),
        (false, false) => ExitCode::SUCCESS,
    }
}

fn text(results: &RolloutChecks, layout: TextLayout) -> String {
    let rows: Vec<_> = results.checks.iter().map(row).collect();
    output::table(layout, &["CHECK", "ANSWER", "TEXT", "QUESTION"], &rows)
}

fn row(check: &CheckResult) -> Vec<(Tone, String)> {
    vec![
        (Tone::Plain, check.name.clone()),
        super::get::answer_cell(check.answer),
        (Tone::Plain, check.text.clone()),
        (Tone::Plain, check.question.clone()),
    ]
}
