//! The lists and watches of a leader.

use std::sync::Arc;

use kube::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::decode;
use crate::environment::Environment;
use crate::event::Event;
use crate::metrics::Metrics;
use crate::observation::Observation;
use crate::outage_log::OutageLog;
use crate::supervisor::Supervisor;
use crate::watch::{Change, ConnectionState, Decode, Resource, Watch};

/// The group and version of policies.
const POLICY_GROUP: &str = "apis/everynode.dev/v1alpha1";

/// Starts the watches.
pub(super) struct Watches {
    pub client: Client,
    pub sender: mpsc::Sender<Event>,
    pub outages: OutageLog,
    pub environment: Environment,
    pub metrics: Arc<Metrics>,
    pub supervisor: Supervisor,
    /// Watches only objects in this namespace. Nodes are watched in any case.
    pub namespace: Option<String>,
    /// Stops all watches.
    pub stop: CancellationToken,
}

/// Resources that are not watched in every cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct OptionalResources {
    /// Namespaces, for their node selectors (C15).
    pub namespace_node_selectors: bool,
    /// The policy objects (G4).
    pub rollout_policies: bool,
}

/// Whether nothing works without a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Required,
    /// The server may lack it, or refuse to list it.
    Optional,
}

impl Watches {
    /// Starts all watches except that of pods.
    pub(super) fn start_all_but_pods(&self, resources: OptionalResources) {
        let path = "/api/v1/nodes".to_owned();
        self.start("nodes", Presence::Required, path, decode::Nodes::default(), |change| {
            Event::Observed(Observation::Node(change))
        });
        let path = self.path("apis/apps/v1", "daemonsets");
        self.start(
            "daemonsets",
            Presence::Required,
            path,
            decode::DaemonSets::default(),
            |change| Event::Observed(Observation::DaemonSet(change)),
        );
        let path = self.path("apis/apps/v1", "controllerrevisions");
        self.start(
            "controllerrevisions",
            Presence::Required,
            path,
            decode::Revisions::default(),
            |change| Event::Observed(Observation::Revision(change)),
        );
        if resources.namespace_node_selectors {
            self.start_namespaces(true);
        }
        if resources.rollout_policies {
            let path = self.path(POLICY_GROUP, "rolloutpolicies");
            self.start("rolloutpolicies", Presence::Optional, path, decode::Policies, |change| {
                Event::Observed(Observation::RolloutPolicy(change))
            });
            let path = format!("/{POLICY_GROUP}/clusterrolloutpolicies");
            self.start(
                "clusterrolloutpolicies",
                Presence::Optional,
                path,
                decode::Policies,
                |change| Event::Observed(Observation::ClusterRolloutPolicy(change)),
            );
        }
    }

    /// Starts the watch of namespaces, whose node selectors count or not.
    pub(super) fn start_namespaces(&self, honors_node_selectors: bool) {
        let path = namespaces_path(self.namespace.as_deref());
        let (decoder, presence) = match honors_node_selectors {
            true => (decode::Namespaces::default(), Presence::Required),
            // Only policies need the labels: they hold what they select while those are unknown.
            false => (decode::Namespaces::only_labels(), Presence::Optional),
        };
        self.start("namespaces", presence, path, decoder, |change| {
            Event::Observed(Observation::Namespace(change))
        });
    }

    /// Starts the watch of pods.
    pub(super) fn start_pods(&self) {
        let path = self.path("api/v1", "pods");
        self.start("pods", Presence::Required, path, decode::Pods::default(), |change| {
            Event::Observed(Observation::Pod(change))
        });
    }

    fn path(&self, group: &str, plural: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("/{group}/namespaces/{namespace}/{plural}"),
            None => format!("/{group}/{plural}"),
        }
    }

    fn start<D: Decode + 'static>(
        &self,
        name: &'static str,
        presence: Presence,
        path: String,
        decoder: D,
        wrap: fn(Change<D::Item>) -> Event,
    ) {
        let watch = Watch {
            client: self.client.clone(),
            resource: Resource { name, path },
            decoder,
            sender: self.sender.clone(),
            wrap,
            is_optional: presence == Presence::Optional,
            wrap_connection: |connection| match connection {
                ConnectionState::Connected(_) => Some(Event::Connected),
                ConnectionState::Lost(_) => None,
            },
            outages: self.outages.clone(),
            environment: self.environment.clone(),
            metrics: self.metrics.clone(),
        };
        let stop = self.stop.clone();
        let task = async move {
            stop.run_until_cancelled(watch.run()).await;
        };
        tokio::spawn(self.supervisor.supervise_until(
            self.stop.clone(),
            format!("the watch of {name}"),
            task,
        ));
    }
}

fn namespaces_path(namespace: Option<&str>) -> String {
    match namespace {
        Some(name) => format!("/api/v1/namespaces?fieldSelector=metadata.name%3D{name}"),
        None => "/api/v1/namespaces".to_owned(),
    }
}
