//! Changes that stories make to nodes, to the API server and to the controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use anyhow::{Context, Result};
use http::Method;
use http::request::Parts;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::fixture::{Controller, NODES, node};
use super::manifest::image;
use super::state::is_ready;
use super::story::Run;
use crate::world::http_proxy::{HttpProxy, RequestOutcome};
use crate::world::process::{Process, end};

/// The commands that break something, each with the one that repairs it.
const BREAKS: [(&str, &str); 5] = [
    ("kill-kubelet", "start-kubelet"),
    ("kill-containerd", "start-containerd"),
    ("off", "on"),
    ("cut", "mend"),
    ("kill-apiserver", "start-apiserver"),
];

impl Run<'_> {
    /// Does one of the commands of the program to a node.
    pub(crate) async fn node(&mut self, command: &str, number: usize) -> Result<()> {
        self.do_to(number, &[command, &number.to_string()]).await
    }

    /// Kills or starts the API server.
    pub(crate) async fn api_server(&mut self, command: &str) -> Result<()> {
        self.do_to(0, &[&format!("{command}-apiserver")]).await
    }

    async fn do_to(&mut self, number: usize, arguments: &[&str]) -> Result<()> {
        let command = arguments.first().context("a command")?;
        if let Some((_, repair)) = BREAKS.iter().find(|(breaks, _)| breaks == command) {
            self.repairs.insert(number, repair);
        } else {
            self.repairs.remove(&number);
        }
        self.since = Timestamp::now();
        self.nodes.call(arguments).await.map(drop)
    }

    /// Runs a shell script on a node. Files outside of the kubelet's disk last until it reboots.
    pub(crate) async fn inside(&mut self, number: usize, script: &str) -> Result<String> {
        self.changed.insert(number);
        self.since = Timestamp::now();
        self.nodes.call(&["inside", &number.to_string(), "sh", "-c", script]).await
    }

    /// Restarts the kubelet of a node with another line in its configuration.
    pub(crate) async fn configure(&mut self, number: usize, edit: &str) -> Result<()> {
        self.node("kill-kubelet", number).await?;
        let script = format!("sed -i '{edit}' /etc/kubernetes/kubelet.yaml");
        self.inside(number, &script).await?;
        self.node("start-kubelet", number).await
    }

    /// Runs kubectl in the story's namespace.
    pub(crate) async fn kubectl(&mut self, arguments: &[&str]) -> Result<String> {
        self.since = Timestamp::now();
        let output = self.world.kubectl(arguments).await?;
        self.is_recorded().await?;
        Ok(output)
    }

    /// Kills the controller.
    pub(crate) fn kill_controller(&mut self) {
        self.since = Timestamp::now();
        self.process = None;
    }

    /// Starts a controller, which may be the other one.
    pub(crate) fn start_controller(&mut self, which: Controller, more: &[&str]) -> Result<()> {
        self.since = Timestamp::now();
        self.process = Some(self.nodes.controller(&self.world, which, more)?);
        Ok(())
    }

    /// Starts everynode so that it is killed (SIGKILL) at a request by which it changes a pod: the
    /// number `at` of these, which takes effect if `then` is `Unanswered`. Whoever drops the proxy
    /// cuts it off.
    pub(crate) async fn start_until(
        &mut self,
        at: usize,
        then: RequestOutcome,
        more: &[&str],
    ) -> Result<HttpProxy> {
        let (id, count) = (Arc::new(AtomicU32::new(0)), AtomicUsize::new(0));
        let victim = id.clone();
        let outcome = move |request: &Parts| {
            let path = request.uri.path();
            let changes_pod = request.method == Method::PATCH && path.contains("/pods/");
            if !changes_pod || count.fetch_add(1, Ordering::SeqCst) + 1 < at {
                return RequestOutcome::Answered;
            }
            end(victim.load(Ordering::SeqCst));
            then
        };
        let proxy = HttpProxy::start(self.world.client.clone(), outcome).await?;
        let directory = self.world.directory.path();
        let kubeconfig = proxy.kubeconfig(directory)?;
        let arguments = [&["run", "--leader-elect=false"], more].concat();
        let process = Process::everynode_with(directory, "run", &arguments, Some(&kubeconfig))?;
        id.store(process.id(), Ordering::SeqCst);
        self.process = Some(process);
        Ok(proxy)
    }

    /// Waits until the controller has been killed.
    pub(crate) async fn controller_ends(&mut self) -> Result<()> {
        let process = self.process.as_mut().context("no controller runs")?;
        let ended = process.ended().await.map(drop);
        self.process = None;
        self.since = Timestamp::now();
        ended
    }

    /// The process of the controller, if it runs.
    pub(crate) fn controller_process(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Starts a controller beside the story's own.
    pub(crate) fn another_controller(&self, which: Controller, more: &[&str]) -> Result<Process> {
        self.nodes.controller(&self.world, which, more)
    }

    /// Takes this amount of CPU on a node, by a pod of somebody else.
    pub(crate) async fn fill(&mut self, number: usize, cpu: &str) -> Result<()> {
        let name = format!("filler-{number}");
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "nodeName": node(number), "containers": [{ "name": "main",
                "image": image("1"), "resources": { "requests": { "cpu": cpu } } }] } });
        self.world.kubectl_with_input(&["apply", "-f", "-"], &pod.to_string()).await?.ok()?;
        self.wait("it runs", move |state| {
            let mut pods = state.pods.values();
            pods.any(|it| it.metadata.name.as_ref() == Some(&name) && is_ready(it))
        })
        .await
    }

    /// Ends the pod that takes CPU on a node.
    pub(crate) async fn empties(&mut self, number: usize) -> Result<()> {
        let name = format!("filler-{number}");
        self.kubectl(&["delete", "pod", &name, "--grace-period=1"]).await.map(drop)
    }

    /// Makes an image of a program, on all nodes.
    pub(crate) async fn import(&self, image: &str, program: &str) -> Result<()> {
        self.nodes.call(&["import", image, program]).await.map(drop)
    }

    /// Repairs what the story has broken and not repaired.
    pub(crate) async fn repair(&mut self) -> Result<()> {
        while let Some((number, command)) = self.repairs.pop_first() {
            let number = number.to_string();
            let arguments = [command, &number];
            let arguments = if number == "0" { &arguments[..1] } else { &arguments[..] };
            self.nodes.call(arguments).await?;
        }
        Ok(())
    }

    /// Makes all nodes as they were: files, labels, taints.
    pub(super) async fn restore_nodes(&mut self) -> Result<()> {
        for number in std::mem::take(&mut self.changed) {
            self.nodes.call(&["reboot", &number.to_string()]).await?;
        }
        let api = self.world.nodes();
        for mut found in api.list(&ListParams::default()).await?.items {
            if let Some(name) = found.metadata.name.clone().filter(|_| restore(&mut found)) {
                api.replace(&name, &PostParams::default(), &found).await?;
            }
        }
        self.wait("all nodes are ready", |state| {
            (1..=NODES).all(|number| state.is_up(&node(number)) && state.is_eligible(&node(number)))
        })
        .await
    }
}

/// Removes labels and taints that the kubelet and the control plane do not set. Returns true if
/// there were some.
fn restore(node: &mut Node) -> bool {
    let before = node.clone();
    if let Some(labels) = &mut node.metadata.labels {
        labels.retain(|key, _| key.contains("kubernetes.io/"));
    }
    if let Some(spec) = &mut node.spec {
        spec.unschedulable = None;
        if let Some(taints) = &mut spec.taints {
            taints.retain(|taint| taint.key.starts_with("node.kubernetes.io/"));
        }
    }
    *node != before
}
