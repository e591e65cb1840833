//! The checks of guarded rollouts: asks what a plan wants to know, and reports the answers (G5,
//! G24). Nothing is decided here: [`answer`] says what is asked and what an answer means, [`hosts`]
//! what may be asked, [`job`] what a Job looks like, and all three do no I/O; [`credentials`] reads
//! the tokens and passwords of hosts; the core decides what follows.

pub mod answer;
pub mod credentials;
pub mod hosts;
mod http;
pub mod job;
mod tls;

use std::sync::Arc;

use ::http::Method;
use everynode_core::api::{CheckAnswer, CheckVerdict, DaemonSetKey, JobPresence};
use everynode_core::plan::CheckQuestion;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::api::{Content, Error, Server};
use answer::{Question, unknown};
use credentials::Credentials;
use hosts::Hosts;
pub use http::Http;
pub use tls::Tls;

/// Maximum number of checks that are asked at the same time. Others wait for their turn.
const ASKED_AT_ONCE: usize = 32;

/// Asks checks. The simulation implements it without a network.
pub trait CheckClient: Send + Sync {
    /// Asks one check. Every question has one answer, at the latest after some seconds.
    fn ask(&self, question: CheckQuestion) -> BoxFuture<'static, CheckAnswer>;
}

/// Asks web servers, Prometheus, and the API server for Jobs.
#[derive(Clone)]
pub struct Runner<S> {
    http: Http,
    api: S,
    permits: Arc<Semaphore>,
}

impl<S: Server> Runner<S> {
    /// A runner that may ask these hosts, those that have credentials with them.
    pub fn new(hosts: Hosts, tls: Tls, credentials: Credentials, api: S) -> Self {
        let permits = Arc::new(Semaphore::new(ASKED_AT_ONCE));
        Self { http: Http::new(hosts, tls, credentials), api, permits }
    }

    /// The answer to one check.
    pub async fn answer(&self, question: &CheckQuestion) -> CheckAnswer {
        let Ok(_permit) = self.permits.acquire().await else {
            return unknown("everynode stops");
        };
        match Question::new(&question.kind) {
            Question::Server(request, answer) => match self.http.send(request).await {
                Ok(reply) => answer(&reply),
                Err(cause) => unknown(&cause),
            },
            Question::Job(cron_job) => self.job(question, cron_job).await,
        }
    }

    /// The answer of a check's Job. It is created unless it exists, or existed before.
    async fn job(&self, question: &CheckQuestion, cron_job: &str) -> CheckAnswer {
        let name = job::name(question, cron_job);
        let path = job::path(&question.daemon_set, &name);
        match self.api.get(&path).await {
            Ok(body) => job::answer(question, &name, &body),
            Err(error) if !error.is_reason("NotFound") => {
                refused(&format!("read job {name}"), &error)
            }
            Err(_) if question.has_job => gone(&name),
            // Another controller has created it, and the next one after it was deleted.
            Err(_) => match self.has_next_job(question, cron_job).await {
                Ok(true) => gone(&name),
                Ok(false) => self.start_job(question, cron_job, &name).await,
                Err(refused) => refused,
            },
        }
    }

    async fn has_next_job(
        &self,
        question: &CheckQuestion,
        cron_job: &str,
    ) -> Result<bool, CheckAnswer> {
        let next = CheckQuestion { job_number: question.job_number + 1, ..question.clone() };
        let name = job::name(&next, cron_job);
        match self.api.get(&job::path(&question.daemon_set, &name)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_reason("NotFound") => Ok(false),
            Err(error) => Err(refused(&format!("read job {name}"), &error)),
        }
    }

    async fn start_job(&self, question: &CheckQuestion, cron_job: &str, name: &str) -> CheckAnswer {
        let DaemonSetKey { namespace, .. } = &question.daemon_set;
        let cron_job = match self.api.get(&job::cron_job_path(namespace, cron_job)).await {
            Ok(body) => body,
            Err(error) if error.is_reason("NotFound") => {
                return unknown(&format!("cronjob {namespace}/{cron_job} does not exist"));
            }
            Err(error) => return refused(&format!("read cronjob {cron_job}"), &error),
        };
        let body = match job::body(question, name, &cron_job) {
            Ok(body) => body.to_string(),
            Err(cause) => return unknown(&cause),
        };
        let path = job::collection_path(namespace);
        match self.api.write(Method::POST, &path, Content::Json, body.into()).await {
            Ok(_) => unknown(&format!("job {name} has been created")).with_job(JobPresence::Exists),
            Err(error) if error.is_reason("AlreadyExists") => {
                unknown(&format!("job {name} exists already"))
            }
            Err(error) => refused(&format!("create job {name}"), &error),
        }
    }

    /// The CronJob of a check, without creating a Job.
    ///
    /// # Errors
    /// Why that is not so, or not known.
    pub async fn find_cron_job(&self, key: &DaemonSetKey, name: &str) -> Result<Value, String> {
        let body = self.api.get(&job::cron_job_path(&key.namespace, name)).await;
        let body = body.map_err(|error| match error.is_reason("NotFound") {
            true => format!("cronjob {}/{name} does not exist", key.namespace),
            false => refusal(&format!("read cronjob {name}"), &error),
        })?;
        serde_json::from_slice(&body).map_err(|error| format!("cronjob {name}: {error}"))
    }
}

impl<S: Server> CheckClient for Runner<S> {
    fn ask(&self, question: CheckQuestion) -> BoxFuture<'static, CheckAnswer> {
        let runner = self.clone();
        async move { runner.answer(&question).await }.boxed()
    }
}

/// Answers nothing, as if no host were allowed: for a controller whose checks do not matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChecksDisabled;

impl CheckClient for ChecksDisabled {
    fn ask(&self, _question: CheckQuestion) -> BoxFuture<'static, CheckAnswer> {
        std::future::ready(CheckAnswer::new(CheckVerdict::Unknown, "checks are not asked")).boxed()
    }
}

fn gone(job: &str) -> CheckAnswer {
    let text = format!("job {job} was deleted before it had a result");
    unknown(&text).with_job(JobPresence::Gone)
}

fn refused(action: &str, error: &Error) -> CheckAnswer {
    unknown(&refusal(action, error))
}

/// Why the API server did not do what a `cronJob` needs.
fn refusal(action: &str, error: &Error) -> String {
    match error.code() {
        Some(403) => format!(
            "no right to {action}, which deploy/components/check-jobs (or check-jobs-beside) \
             grants: {error}"
        ),
        Some(_) | None => format!("{action}: {error}"),
    }
}

#[cfg(test)]
mod tests;
