//! The cluster with a virtual clock that the tests control.

mod disruption;
mod lifecycle;
mod motion;
mod node;
mod resize;
mod scheduling;

use std::fmt::Write as _;

use everynode_core::api::Timestamp;

use super::lifecycle::Lifecycles;
use super::{Cluster, Settings};
use crate::json::{Value, json};
use crate::kinds::{EVENT, NODE, POD};
use crate::nodes;
use crate::registry::Registry;
use crate::store::{DeleteOptions, Options, WriteOptions};

const START: i64 = 1_767_225_600_000;

/// A cluster and its current time.
struct Sim {
    cluster: Cluster,
    now: Timestamp,
}

impl Sim {
    fn new(nodes: u32) -> Self {
        Self::with_seed(nodes, 0)
    }

    fn with_seed(nodes: u32, seed: u64) -> Self {
        let now = Timestamp(START);
        let registry = Registry::new(&Options { seed, ..Options::default() }, now);
        let settings = Settings { seed, ..Settings::default() };
        let mut cluster = Cluster::new(registry, settings, Lifecycles::built_in(), now);
        if nodes > 0 {
            cluster.add_nodes(nodes::generate(nodes, 3).unwrap(), now).unwrap();
        }
        let mut sim = Self { cluster, now };
        sim.cluster.settle(now);
        sim
    }

    fn at(&self) -> WriteOptions {
        WriteOptions::at(self.now)
    }

    fn create_pod(&mut self, pod: Value) {
        let options = self.at();
        self.cluster.registry_mut().create(&POD, "default", pod, &options).unwrap();
        self.cluster.settle(self.now);
    }

    fn delete_pod(&mut self, name: &str) {
        let options = self.at();
        let delete = DeleteOptions::default();
        self.cluster.registry_mut().delete(&POD, "default", name, &delete, &options).unwrap();
        self.cluster.settle(self.now);
    }

    fn create_node(&mut self, node: Value) {
        let options = self.at();
        self.cluster.registry_mut().create(&NODE, "", node, &options).unwrap();
        self.cluster.settle(self.now);
    }

    fn delete_node(&mut self, name: &str) {
        let options = self.at();
        let delete = DeleteOptions::default();
        self.cluster.registry_mut().delete(&NODE, "", name, &delete, &options).unwrap();
        self.cluster.settle(self.now);
    }

    fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut node = self.node(name);
        edit(&mut node);
        let options = self.at();
        self.cluster.registry_mut().update(&NODE, "", name, node, &options).unwrap();
        self.cluster.settle(self.now);
    }

    fn edit_pod(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut pod = self.pod(name).unwrap();
        edit(&mut pod);
        let options = self.at();
        self.cluster.registry_mut().update(&POD, "default", name, pod, &options).unwrap();
        self.cluster.settle(self.now);
    }

    fn taint(&mut self, node: &str, taints: Value) {
        self.edit_node(node, |node| node["spec"]["taints"] = taints);
    }

    fn annotate_node(&mut self, name: &str, key: &str, value: Option<&str>) {
        self.edit_node(name, |node| match value {
            Some(value) => node["metadata"]["annotations"][key] = json!(value),
            None => {
                node["metadata"]["annotations"].as_object_mut().unwrap().remove(key);
            }
        });
    }

    /// Advances the time from deadline to deadline.
    fn run_for(&mut self, ms: i64) {
        self.run_for_and(ms, |_| ());
    }

    fn run_for_and(&mut self, ms: i64, mut see: impl FnMut(&Self)) {
        let end = self.now.0 + ms;
        let mut next = self.cluster.settle(self.now);
        see(self);
        while let Some(at) = next.filter(|at| at.0 <= end) {
            self.now = at;
            next = self.cluster.settle(at);
            see(self);
        }
        self.now = Timestamp(end);
    }

    fn pod(&self, name: &str) -> Option<Value> {
        self.cluster.store().find(&POD, "default", name).map(|pod| pod.value().clone())
    }

    fn node(&self, name: &str) -> Value {
        self.cluster.store().find(&NODE, "", name).unwrap().value().clone()
    }

    fn events(&self, name: &str) -> Vec<String> {
        self.cluster
            .store()
            .iter(&EVENT, None)
            .filter(|event| event.text(&["involvedObject", "name"]) == name)
            .map(|event| {
                let text = |path| event.text(&[path]).to_owned();
                format!("{} {}: {}", text("type"), text("reason"), text("message"))
            })
            .collect()
    }

    /// A pod in one line, as `kubectl get` shows it.
    fn line(&self, name: &str) -> String {
        match self.pod(name) {
            None => "gone".to_owned(),
            Some(pod) => describe(&pod),
        }
    }

    /// The history of a pod: a line for each change of its visible state.
    fn transcript(&mut self, name: &str, ms: i64) -> String {
        let start = self.now.0;
        let mut last = String::new();
        let mut lines = String::new();
        self.run_for_and(ms, |sim| {
            let line = sim.line(name);
            if line != last {
                let ms = format!("{} ms", sim.now.0 - start);
                writeln!(lines, "{ms:<9} {line}").unwrap();
                last = line;
            }
        });
        lines
    }
}

fn describe(pod: &Value) -> String {
    let status = &pod["status"];
    let mut line = status["phase"].as_str().unwrap_or("-").to_owned();
    if let Some(reason) = status["reason"].as_str() {
        write!(line, " ({reason})").unwrap();
    }
    for field in ["initContainerStatuses", "containerStatuses"] {
        for container in status[field].as_array().into_iter().flatten() {
            write!(line, " {}", describe_container(container)).unwrap();
        }
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        if condition["type"] == "Ready" && condition["status"] == "True" {
            line.push_str(" Ready");
        }
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        line.push_str(" Terminating");
    }
    line
}

fn describe_container(container: &Value) -> String {
    let state = &container["state"];
    let said = if let Some(reason) = state["waiting"]["reason"].as_str() {
        reason.to_owned()
    } else if !state["terminated"].is_null() {
        format!("exited {}", state["terminated"]["exitCode"])
    } else {
        let ready = if container["ready"] == true { "ready" } else { "unready" };
        format!("running {ready}")
    };
    let restarts = container["restartCount"].as_i64().unwrap_or(0);
    let restarts = if restarts > 0 { format!(", {restarts} restarts") } else { String::new() };
    format!("{}[{said}{restarts}]", container["name"].as_str().unwrap_or("?"))
}

/// A pod with one container and no requests.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]},
    })
}

/// A pod with the given lifecycle.
fn pod_that(lifecycle: &str) -> Value {
    let mut pod = pod("p");
    pod["metadata"]["annotations"]["sandbox.everynode.dev/lifecycle"] = json!(lifecycle);
    pod
}

/// A pod that is pinned to one node, as those of a DaemonSet are.
fn pinned(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
        }]},
    }});
    pod
}
