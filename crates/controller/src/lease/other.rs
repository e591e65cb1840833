//! Finds another installation that is the cluster's DaemonSet controller and guards the rollouts
//! itself, as `everynode run` does. Then one that runs beside the built-in controller does nothing:
//! two would each spend the budget (G18).
//!
//! Such an installation is known by the name of its Lease, in any namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::election::{Decision, Election, Timing};
use super::record;
use crate::environment::Environment;
use crate::outage_log::{self, FailureKind, OutageLog};

/// The pause between two lists of the Leases.
const PAUSE: Duration = Duration::from_secs(5);
/// The timeout of a list.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How the other installation is found.
#[derive(Clone, Debug)]
pub struct OtherInstallation {
    /// The name of its Lease.
    pub lease_name: String,
    /// The minimum duration of its lease.
    pub timing: Timing,
    /// The clocks.
    pub environment: Environment,
    /// For the log.
    pub outages: OutageLog,
    /// Takes what is known of it.
    pub presence: watch::Sender<Presence>,
}

/// The known state of the other installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Its Leases have not been listed.
    #[default]
    Unknown,
    /// Nobody holds a Lease of the name.
    Absent,
    /// Somebody does.
    Present,
}

/// Lists the Leases again and again. While a list fails, what was known remains.
pub async fn follow(client: kube::Client, other: OtherInstallation) {
    let OtherInstallation { lease_name, timing, environment, outages, presence } = other;
    let leases: Api<Lease> = Api::all(client);
    let of_name = ListParams::default().fields(&format!("metadata.name={lease_name}"));
    let subject = format!("leases with the name {lease_name}");
    // Nobody has this identity.
    let candidate = || Election::new("-".to_owned(), timing);
    let mut known: BTreeMap<String, Election> = BTreeMap::new();
    loop {
        match timeout(TIMEOUT, leases.list(&of_name)).await {
            Ok(Ok(list)) => {
                outages.answered();
                outages.recovered(&subject);
                let now = environment.moment();
                let mut is_held = |lease: &&Lease| {
                    let namespace = lease.metadata.namespace.clone().unwrap_or_default();
                    let election = known.entry(namespace).or_insert_with(candidate);
                    election.evaluate(record(lease), now) == Decision::Wait
                };
                // Each must be evaluated, to know since when it has not changed.
                let held: Vec<&Lease> = list.items.iter().filter(|lease| is_held(lease)).collect();
                report(&presence, held.first().copied());
            }
            Ok(Err(error)) => {
                let (kind, cause) = outage_log::failure(&error);
                outages.failed(&subject, kind, &cause);
            }
            Err(_) => {
                outages.failed(&subject, FailureKind::Unreachable, "no answer before the timeout");
            }
        }
        sleep(PAUSE).await;
    }
}

fn report(presence: &watch::Sender<Presence>, held: Option<&Lease>) {
    let new = if held.is_some() { Presence::Present } else { Presence::Absent };
    if presence.send_replace(new) == new {
        return;
    }
    match held {
        Some(lease) => {
            let namespace = lease.metadata.namespace.as_deref().unwrap_or_default();
            let name = lease.metadata.name.as_deref().unwrap_or_default();
            let holder = record(lease).holder;
            tracing::warn!(
                "lease {namespace}/{name} is held by {holder}: an installation without --beside is \
                 the DaemonSet controller of this cluster and guards its rollouts, so this one \
                 does nothing until that lease is released or expires"
            );
        }
        None => tracing::info!("no installation without --beside holds a lease"),
    }
}
