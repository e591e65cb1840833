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

impl Watches {
    /// Starts all watches except that of pods.
    pub(super) fn start_all_but_pods(&self, namespaces: bool) {
        let path = "/api/v1/nodes".to_owned();
        self.start("nodes", path, decode::Nodes::default(), |change| {
            Event::Observed(Observation::Node(change))
        });
        let path = self.path("apis/apps/v1", "daemonsets");
        self.start("daemonsets", path, decode::DaemonSets::default(), |change| {
            Event::Observed(Observation::DaemonSet(change))
        });
        let path = self.path("apis/apps/v1", "controllerrevisions");
        self.start("controllerrevisions", path, decode::Revisions::default(), |change| {
            Event::Observed(Observation::Revision(change))
        });
        if namespaces {
            let path = namespaces_path(self.namespace.as_deref());
            self.start("namespaces", path, decode::Namespaces::default(), |change| {
                Event::Observed(Observation::Namespace(change))
            });
        }
    }

    /// Starts the watch of pods.
    pub(super) fn start_pods(&self) {
        let path = self.path("api/v1", "pods");
        self.start("pods", path, decode::Pods::default(), |change| {
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
