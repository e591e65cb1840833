//! Leader election by a Lease, and the fence that keeps a replica from writing once it could have lost it (C63).
//!
//! Who may lead is judged in [`election`]; here the Lease is read and written. Nothing else of the controller knows of
//! leases: writers ask the [`Fence`], the loop watches a flag.

mod clock;
mod election;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::client::Pings;
use crate::outage_log::{self, FailureKind, OutageLog};
use crate::wall_clock;
pub use clock::Clock;
pub use election::Timing;
use election::{Election, Record, Verdict};

/// Which Lease to compete for, and as whom.
#[derive(Clone, Debug)]
pub struct Config {
    pub namespace: String,
    pub name: String,
    /// Different for every process that ever competes.
    pub identity: String,
    pub timing: Timing,
    /// For the log.
    pub outages: OutageLog,
}

impl Timing {
    /// For a connection that carries nothing but the lease: a dead one is noticed, and replaced, before an attempt on it is
    /// given up.
    pub fn pings(&self) -> Pings {
        let (interval, timeout) =
            (self.renew_deadline.mul_f64(0.15), self.renew_deadline.mul_f64(0.3));
        Pings { interval, timeout, while_idle: true }
    }
}

/// What a replica knows of its own role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// The Lease has not been read, or can't be read any more.
    #[default]
    Unknown,
    /// Another replica leads; this one waits.
    Standby,
    Leading,
}

impl Leadership {
    const fn words(self) -> &'static str {
        match self {
            Self::Unknown => "nobody knows who leads",
            Self::Standby => "another replica leads",
            Self::Leading => "this replica leads",
        }
    }
}

/// Leadership was lost while leading: the process must stop deciding.
#[derive(Debug, thiserror::Error)]
#[error("lease {namespace}/{name}: not renewed within {renew_deadline:?}, no longer leading")]
pub struct Lost {
    pub namespace: String,
    pub name: String,
    pub renew_deadline: Duration,
}

/// Tells writers whether they may still write. Cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug)]
enum State {
    /// No leader election: always open.
    Open,
    Closed,
    /// Open for `lasts` from the moment that the last successful renewal was sent.
    Until {
        sent: Clock,
        lasts: Duration,
    },
}

impl Fence {
    /// For a process that runs without leader election.
    pub fn open() -> Self {
        Self(Arc::new(Mutex::new(State::Open)))
    }

    /// For one that has yet to be elected.
    pub fn closed() -> Self {
        Self(Arc::new(Mutex::new(State::Closed)))
    }

    /// May a write be sent now? Others can take the lease over no sooner than the lease duration after our last renewal
    /// was sent; we stop at the renew deadline, so that a write in flight has the difference to land.
    pub fn permits_writes(&self) -> bool {
        self.permits_at(Clock::now())
    }

    fn permits_at(&self, now: Clock) -> bool {
        match *self.state() {
            State::Open => true,
            State::Closed => false,
            State::Until { sent, lasts } => now.since(sent) < lasts,
        }
    }

    /// From now on no write begins, and those that wait for an answer are given up.
    pub fn close(&self) {
        self.set(State::Closed);
    }

    fn set(&self, state: State) {
        *self.state() = state;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Attempts to release the lease. There is at most one renewal that they can meet.
const RELEASES_MAX: usize = 3;

/// Competes for the Lease and keeps it, until `release` is cancelled (then it is given up for others to take at once) or
/// it is lost. `role` and `fence` tell the rest of the process.
///
/// # Errors
/// [`Lost`] if the Lease could not be renewed in time.
pub async fn hold(
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
                candidate.give_up().await;
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
    /// Returns only when leadership was won and lost.
    async fn lead(&mut self, role: &watch::Sender<Leadership>) -> Lost {
        let renew_deadline = self.config.timing.renew_deadline;
        let mut renewed: Option<Clock> = None;
        loop {
            let sent = Clock::now();
            let mut failing_since = Some(Instant::now());
            match timeout(self.patience(renewed), self.attempt()).await {
                Ok(Ok(true)) => {
                    self.answered();
                    self.fence.set(State::Until { sent, lasts: renew_deadline });
                    (renewed, failing_since) = (Some(sent), None);
                    self.announce(role, Leadership::Leading);
                }
                Ok(Ok(false)) if renewed.is_some() => return self.lost(),
                Ok(Ok(false)) => {
                    self.answered();
                    self.announce(role, Leadership::Standby);
                }
                Ok(Err(error)) => {
                    self.doubt(role);
                    let (kind, cause) = outage_log::failure(&error);
                    self.config.outages.failed(&self.subject(), kind, &cause);
                }
                Err(_) => {
                    self.doubt(role);
                    let cause = "no answer in time";
                    self.config.outages.failed(&self.subject(), FailureKind::Unreachable, cause);
                }
            }
            if renewed.is_some_and(|at| Clock::now().since(at) >= renew_deadline) {
                return self.lost();
            }
            sleep(self.pause(renewed, failing_since)).await;
        }
    }

    fn announce(&self, role: &watch::Sender<Leadership>, now: Leadership) {
        if role.send_replace(now) != now {
            tracing::info!("{}: {} ({})", self.subject(), now.words(), self.config.identity);
        }
    }

    fn answered(&self) {
        self.config.outages.answered();
        self.config.outages.recovered(&self.subject());
    }

    /// A leader leads on until its deadline; a standby that can't read the Lease knows nothing.
    fn doubt(&self, role: &watch::Sender<Leadership>) {
        if *role.borrow() == Leadership::Standby {
            self.announce(role, Leadership::Unknown);
        }
    }

    /// How long an attempt may take: there is time for another one before the renew deadline, by a connection that works.
    fn patience(&self, renewed: Option<Clock>) -> Duration {
        let renew_deadline = self.config.timing.renew_deadline;
        let left = renewed.map(|at| renew_deadline.saturating_sub(Clock::now().since(at)));
        (renew_deadline / 2).min(left.unwrap_or(renew_deadline))
    }

    /// The next attempt comes a retry period later, but not after the renew deadline; what an attempt that failed has taken is
    /// part of that period. Candidates that wait spread out by a fifth, so that they don't all knock at once.
    fn pause(&self, renewed: Option<Clock>, failing_since: Option<Instant>) -> Duration {
        let Timing { renew_deadline, retry_period, .. } = self.config.timing;
        let Some(at) = renewed else {
            return retry_period.mul_f64(1.0 + 0.2 * rand::random::<f64>());
        };
        let spent = failing_since.map(|since| since.elapsed()).unwrap_or_default();
        let left = renew_deadline.saturating_sub(Clock::now().since(at));
        retry_period.saturating_sub(spent).min(left)
    }

    /// One round: read, judge, write. `Ok(true)`: the lease is ours as of now. `Ok(false)`: it is another's.
    async fn attempt(&mut self) -> kube::Result<bool> {
        let Some(lease) = self.leases.get_opt(&self.config.name).await? else {
            let lease = self.filled(Lease::default(), true);
            return accepted(self.leases.create(&PostParams::default(), &lease).await);
        };
        let verdict = self.election.judge(record(&lease), Clock::now());
        let lease = match verdict {
            Verdict::Wait => return Ok(false),
            Verdict::Renew => self.filled(lease, false),
            Verdict::TakeOver => self.filled(lease, true),
        };
        let replaced = self.leases.replace(&self.config.name, &PostParams::default(), &lease).await;
        match accepted(replaced) {
            // Somebody wrote between our read and our write: the next round judges what they wrote.
            Ok(false) if verdict == Verdict::Renew => {
                let lease = self.leases.get(&self.config.name).await?;
                Ok(self.election.judge(record(&lease), Clock::now()) == Verdict::Renew)
            }
            outcome => outcome,
        }
    }

    /// The lease as it is to be written: ours from now on.
    fn filled(&self, mut lease: Lease, acquired: bool) -> Lease {
        let now = MicroTime(wall_clock::now());
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

    /// Lets others take over at once. A failure costs them the rest of the lease, nothing more.
    async fn give_up(&mut self) {
        let mut result = self.try_give_up().await;
        for _ in 1..RELEASES_MAX {
            match &result {
                // A renewal of ours that was under way has been written meanwhile.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Ok(()) | Err(_) => break,
            }
            result = self.try_give_up().await;
        }
        if let Err(error) = result {
            let (_, cause) = outage_log::failure(&error);
            tracing::warn!("{}: can't be released: {cause}", self.subject());
        }
    }

    async fn try_give_up(&mut self) -> kube::Result<()> {
        let mut lease = self.leases.get(&self.config.name).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(wall_clock::now()));
        self.leases.replace(&self.config.name, &PostParams::default(), &lease).await?;
        tracing::info!("{}: released", self.subject());
        Ok(())
    }

    fn lost(&self) -> Lost {
        Lost {
            namespace: self.config.namespace.clone(),
            name: self.config.name.clone(),
            renew_deadline: self.config.timing.renew_deadline,
        }
    }

    /// What requests are made for, in the log.
    fn subject(&self) -> String {
        format!("lease {}/{}", self.config.namespace, self.config.name)
    }
}

/// A conflict is an answer, not a failure: somebody else was faster.
fn accepted(result: kube::Result<Lease>) -> kube::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let duration = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
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
