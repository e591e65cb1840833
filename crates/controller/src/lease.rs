//! Leader election by a Lease, and the fence that stops a replica's writes once it could have lost
//! the lease (C63).
//!
//! `election` decides who may lead; this module reads and writes the Lease. No other part of the
//! controller knows of leases: writers ask the [`Fence`], the loop watches a flag.

mod election;
pub mod other;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::client::Pings;
use crate::environment::{Environment, Moment};
use crate::outage_log::{self, FailureKind, OutageLog};
pub use election::Timing;
use election::{Decision, Election, LeaseRecord};

/// The Lease to compete for, and the identity to compete with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Unique for every process that ever competes.
    pub identity: String,
    /// When to renew and when to stop leading.
    pub timing: Timing,
    /// For the log.
    pub outages: OutageLog,
}

impl Timing {
    /// The pings of a connection that carries only the lease. They detect a dead connection and
    /// have it replaced before an attempt on it times out.
    pub fn pings(&self) -> Pings {
        let (interval, timeout) =
            (self.renew_deadline.mul_f64(0.15), self.renew_deadline.mul_f64(0.3));
        Pings { interval, timeout, while_idle: true }
    }
}

/// A replica's knowledge of who leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// The Lease has not been read, or can no longer be read.
    #[default]
    Unknown,
    /// Another replica leads, and this one waits.
    Standby,
    /// This replica leads.
    Leading,
}

impl Leadership {
    const fn description(self) -> &'static str {
        match self {
            Self::Unknown => "the leader is unknown",
            Self::Standby => "another replica leads",
            Self::Leading => "this replica leads",
        }
    }
}

/// The lease was lost while leading. The process must stop making decisions.
#[derive(Debug, thiserror::Error)]
#[error("lease {namespace}/{name}: not renewed within {renew_deadline:?}, no longer leading")]
pub struct Lost {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The time without a renewal after which a leader stops.
    pub renew_deadline: Duration,
}

impl From<&Config> for Lost {
    fn from(config: &Config) -> Self {
        Self {
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            renew_deadline: config.timing.renew_deadline,
        }
    }
}

/// Decides whether a write may be sent. Cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Fence {
    state: Arc<Mutex<FenceState>>,
    environment: Environment,
}

#[derive(Clone, Copy, Debug)]
enum FenceState {
    /// Without leader election: always open.
    Open,
    Closed,
    /// Open for the time `lasts` after the last successful renewal was sent.
    Until {
        sent: Moment,
        lasts: Duration,
    },
}

impl Fence {
    /// A fence for a process without leader election.
    pub fn open() -> Self {
        Self::new(FenceState::Open, Environment::default())
    }

    /// A fence for a replica that is not elected yet. Its leadership is measured with the clocks
    /// of `environment`.
    pub fn closed(environment: Environment) -> Self {
        Self::new(FenceState::Closed, environment)
    }

    fn new(state: FenceState, environment: Environment) -> Self {
        Self { state: Arc::new(Mutex::new(state)), environment }
    }

    /// True if a write may be sent now. Another replica can take over no sooner than the lease
    /// duration after our last renewal was sent. We stop at the renew deadline, which leaves the
    /// difference for writes in flight.
    pub fn permits_writes(&self) -> bool {
        self.permits_at(self.environment.moment())
    }

    fn permits_at(&self, now: Moment) -> bool {
        match *self.lock() {
            FenceState::Open => true,
            FenceState::Closed => false,
            FenceState::Until { sent, lasts } => now.since(sent) < lasts,
        }
    }

    /// Closes the fence: no write is sent any more, and none waits for its answer.
    pub fn close(&self) {
        self.set(FenceState::Closed);
    }

    fn set(&self, state: FenceState) {
        *self.lock() = state;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FenceState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Maximum number of attempts to release the lease. At most one renewal can conflict with them.
const RELEASES_MAX: usize = 3;

/// Competes for the Lease and renews it until `release` is cancelled or the lease is lost. On
/// cancellation it releases the lease, so that another replica can take over at once. `role` and
/// `fence` show the result to the rest of the process.
///
/// # Errors
/// [`Lost`] if the Lease could not be renewed before the renew deadline.
pub async fn compete(
    client: kube::Client,
    config: Config,
    fence: Fence,
    role: watch::Sender<Leadership>,
    release: CancellationToken,
) -> Result<(), Lost> {
    let election = Election::new(config.identity.clone(), config.timing);
    let leases = Api::namespaced(client, &config.namespace);
    let mut candidate = Candidate { leases, election, config, fence };
    let result = release.run_until_cancelled(candidate.lead(&role)).await;
    candidate.fence.close();
    let was_leading = role.send_replace(Leadership::Unknown) == Leadership::Leading;
    match result {
        Some(lost) => Err(lost),
        None => {
            if was_leading {
                candidate.release().await;
            }
            Ok(())
        }
    }
}

struct Candidate {
    leases: Api<Lease>,
    election: Election,
    config: Config,
    fence: Fence,
}

impl Candidate {
    /// Competes until leadership was won and lost.
    async fn lead(&mut self, role: &watch::Sender<Leadership>) -> Lost {
        let renew_deadline = self.config.timing.renew_deadline;
        let mut renewed: Option<Moment> = None;
        loop {
            let sent = self.now();
            let mut failing_since = Some(Instant::now());
            match timeout(self.attempt_timeout(renewed), self.try_acquire_or_renew()).await {
                Ok(Ok(true)) => {
                    self.report_success();
                    self.fence.set(FenceState::Until { sent, lasts: renew_deadline });
                    (renewed, failing_since) = (Some(sent), None);
                    self.set_role(role, Leadership::Leading);
                }
                Ok(Ok(false)) if renewed.is_some() => return self.lost(),
                Ok(Ok(false)) => {
                    self.report_success();
                    self.set_role(role, Leadership::Standby);
                }
                Ok(Err(error)) => {
                    self.report_unreadable(role);
                    let (kind, cause) = outage_log::failure(&error);
                    self.config.outages.failed(&self.subject(), kind, &cause);
                }
                Err(_) => {
                    self.report_unreadable(role);
                    let cause = "no answer before the timeout";
                    self.config.outages.failed(&self.subject(), FailureKind::Unreachable, cause);
                }
            }
            if renewed.is_some_and(|at| self.now().since(at) >= renew_deadline) {
                return self.lost();
            }
            sleep(self.pause(renewed, failing_since)).await;
        }
    }

    fn now(&self) -> Moment {
        self.fence.environment.moment()
    }

    fn set_role(&self, role: &watch::Sender<Leadership>, new: Leadership) {
        if role.send_replace(new) != new {
            tracing::info!("{}: {} ({})", self.subject(), new.description(), self.config.identity);
        }
    }

    fn report_success(&self) {
        self.config.outages.answered();
        self.config.outages.recovered(&self.subject());
    }

    /// The Lease can't be read. A leader leads until its renew deadline; a standby no longer knows
    /// who leads.
    fn report_unreadable(&self, role: &watch::Sender<Leadership>) {
        if *role.borrow() == Leadership::Standby {
            self.set_role(role, Leadership::Unknown);
        }
    }

    /// How long an attempt may take, so that another one on a new connection fits in before the
    /// renew deadline.
    fn attempt_timeout(&self, renewed: Option<Moment>) -> Duration {
        let renew_deadline = self.config.timing.renew_deadline;
        let left = renewed.map(|at| renew_deadline.saturating_sub(self.now().since(at)));
        (renew_deadline / 2).min(left.unwrap_or(renew_deadline))
    }

    /// The pause until the next attempt: the retry period, less the time that a failed attempt
    /// took, but not beyond the renew deadline. Candidates add up to a fifth at random, so that
    /// they don't all ask at once.
    fn pause(&self, renewed: Option<Moment>, failing_since: Option<Instant>) -> Duration {
        let Timing { renew_deadline, retry_period, .. } = self.config.timing;
        let Some(at) = renewed else {
            return retry_period.mul_f64(1.0 + 0.2 * self.fence.environment.random_fraction());
        };
        let spent = failing_since.map(|since| since.elapsed()).unwrap_or_default();
        let left = renew_deadline.saturating_sub(self.now().since(at));
        retry_period.saturating_sub(spent).min(left)
    }

    /// Reads the Lease, decides, and writes it. Returns whether this replica now holds the lease.
    async fn try_acquire_or_renew(&mut self) -> kube::Result<bool> {
        let Some(lease) = self.leases.get_opt(&self.config.name).await? else {
            if !self.election.may_create(self.now()) {
                return Ok(false);
            }
            let lease = self.with_our_identity(Lease::default(), true);
            return was_written(self.leases.create(&PostParams::default(), &lease).await);
        };
        let now = self.now();
        let decision = self.election.evaluate(record(&lease), now);
        let lease = match decision {
            Decision::Wait => return Ok(false),
            Decision::Renew => self.with_our_identity(lease, false),
            Decision::TakeOver => self.with_our_identity(lease, true),
        };
        let replaced = self.leases.replace(&self.config.name, &PostParams::default(), &lease).await;
        match was_written(replaced) {
            // Another client wrote in between. Decide again from what it wrote.
            Ok(false) if decision == Decision::Renew => {
                let lease = self.leases.get(&self.config.name).await?;
                let now = self.now();
                if self.election.evaluate(record(&lease), now) != Decision::Renew {
                    return Ok(false);
                }
                // Holding the lease is not renewing it: the others may have seen no change since.
                let lease = self.with_our_identity(lease, false);
                let name = &self.config.name;
                self.leases.replace(name, &PostParams::default(), &lease).await.map(|_| true)
            }
            outcome => outcome,
        }
    }

    /// The Lease with this replica as its holder, to be written.
    fn with_our_identity(&self, mut lease: Lease, acquired: bool) -> Lease {
        let now = MicroTime(self.fence.environment.wall_time());
        lease.metadata.name = Some(self.config.name.clone());
        lease.metadata.namespace = Some(self.config.namespace.clone());
        let old = lease.spec.take().unwrap_or_default();
        let first = old.lease_transitions.is_none();
        let transitions = old.lease_transitions.unwrap_or(0) + i32::from(acquired && !first);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: Some(seconds(self.config.timing.lease_duration)),
            acquire_time: if acquired { Some(now.clone()) } else { old.acquire_time },
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        });
        lease
    }

    /// Releases the lease, so that another replica can take over at once. After a failure the
    /// others wait until it expires.
    async fn release(&mut self) {
        let mut result = self.try_release().await;
        for _ in 1..RELEASES_MAX {
            match &result {
                // A renewal of ours that was in flight has been written in between.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Ok(()) | Err(_) => break,
            }
            result = self.try_release().await;
        }
        if let Err(error) = result {
            let (_, cause) = outage_log::failure(&error);
            tracing::warn!("{}: the release failed: {cause}", self.subject());
        }
    }

    async fn try_release(&mut self) -> kube::Result<()> {
        let mut lease = self.leases.get(&self.config.name).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(self.fence.environment.wall_time()));
        self.leases.replace(&self.config.name, &PostParams::default(), &lease).await?;
        tracing::info!("{}: released", self.subject());
        Ok(())
    }

    fn lost(&self) -> Lost {
        Lost::from(&self.config)
    }

    /// The subject of the lease's requests in the log.
    fn subject(&self) -> String {
        format!("lease {}/{}", self.config.namespace, self.config.name)
    }
}

/// True if a write succeeded. A conflict means that another client was faster; it is no error.
fn was_written(result: kube::Result<Lease>) -> kube::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

fn record(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let duration = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        lease_duration: duration.map(Duration::from_secs),
    }
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
