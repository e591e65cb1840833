//! The minimal cost of one pod without any decision: the requests of a rollout with maxUnavailable
//! 1 and its watch events, sequentially, through the controller's HTTP client, without storing
//! objects. The controller's additional cost is for parsing, deciding and building requests.
//!
//! `cargo bench -p everynode-cli --bench floor [-- NODES…]`

#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod agent;
mod sandbox;

use std::fs;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, ensure};
use everynode_controller::api::{Api, Content, Server};
use everynode_controller::client::{self, Location, Pings};
use everynode_controller::lease::Fence;
use everynode_core::api::Uid;
use everynode_core::plan::{NewPod, ScheduleBy};
use everynode_k8s::patch::{self, Owner};
use everynode_k8s::{convert, pod_template};
use futures::{AsyncBufRead, AsyncBufReadExt, StreamExt, TryStreamExt, stream};
use http::Method;
use sandbox::Sandbox;
use serde_json::{Value, json};

/// The default sizes of clusters.
const NODES: &[u32] = &[1_000, 10_000];
const PODS: &str = "/api/v1/namespaces/default/pods";
const REQUESTS_AT_ONCE: usize = 32;
/// The placeholder for the node's name.
const NODE: &str = "the-name-of-the-node";

// One thread, as in the controller.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let asked = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let asked: Vec<u32> = asked.map(|nodes| nodes.parse()).collect::<Result<_, _>>()?;
    println!("| nodes | CPU ms per pod that is replaced |\n|--:|--:|");
    for nodes in if asked.is_empty() { NODES.to_vec() } else { asked } {
        println!("| {nodes} | {:.3} |", measure(nodes).await?);
    }
    Ok(())
}

async fn measure(nodes: u32) -> anyhow::Result<f64> {
    let sandbox = Sandbox::start(&["--no-controller", "--nodes", &nodes.to_string()])?;
    let location =
        Location { kubeconfig: Some(sandbox.kubeconfig().to_owned()), ..Location::default() };
    let client = client::client(&client::config(&location)?, Pings::default())?;
    let api = Api::new(client.clone(), Fence::open(), None);
    let list: Value = serde_json::from_slice(&api.get("/api/v1/nodes").await?)?;
    let names = list["items"].as_array().context("no list of nodes")?.iter();
    let names: Vec<&str> = names.filter_map(|node| node["metadata"]["name"].as_str()).collect();
    ensure!(names.len() == nodes as usize, "{} nodes, not {nodes}", names.len());
    let mut watch = Watch::begin(&client).await?;
    let pod = pod();
    let pods: Vec<convert::Meta> = stream::iter(&names)
        .map(|node| create(&api, body(&pod, node)))
        .buffered(REQUESTS_AT_ONCE)
        .try_collect()
        .await?;
    for _ in &names {
        watch.wait_for("\"phase\":\"Running\"").await?;
    }
    let before = run_time()?;
    for (node, old) in names.iter().zip(&pods) {
        let options = patch::delete_options(&old.uid).to_string();
        let path = format!("{PODS}/{}", old.name);
        api.write(Method::DELETE, &path, Content::Json, options.into()).await?;
        watch.wait_for("\"type\":\"DELETED\"").await?;
        create(&api, body(&pod, node)).await?;
        watch.wait_for("\"phase\":\"Running\"").await?;
    }
    let cpu = run_time()?.saturating_sub(before);
    Ok(cpu.as_secs_f64() * 1000.0 / f64::from(nodes))
}

async fn create(api: &Api, pod: String) -> anyhow::Result<convert::Meta> {
    Ok(convert::meta(&api.write(Method::POST, PODS, Content::Json, pod.into()).await?)?)
}

/// A pod as the controller creates it, for a node with this name. It is built once, since building
/// pods is not measured.
fn pod() -> String {
    let uid = Uid::new("0c6ff5b8-21ad-4d3c-9f0e-8b1a2c3d4e5f");
    let owner = Owner { namespace: "default", name: "agent", uid: &uid };
    let new = NewPod {
        template: None,
        name: None,
        node: NODE.into(),
        hash: "5d8f6c9b7c".into(),
        template_generation: None,
        schedule_by: ScheduleBy::Scheduler,
    };
    let mut pod = pod_template::pod(&owner, &agent::template("agent"), &new);
    // A pod with a missing owner would be garbage-collected.
    pod["metadata"]["ownerReferences"] = json!([]);
    pod.to_string()
}

fn body(pod: &str, node: &str) -> String {
    pod.replace(NODE, node)
}

/// A watch of all pods, whose lines are searched for a text and discarded.
struct Watch {
    lines: Pin<Box<dyn AsyncBufRead>>,
    line: Vec<u8>,
}

impl Watch {
    async fn begin(client: &kube::Client) -> anyhow::Result<Self> {
        let request = http::Request::get("/api/v1/pods?watch=true&allowWatchBookmarks=true");
        let lines = client.request_stream(request.body(Vec::new())?).await?;
        Ok(Self { lines: Box::pin(lines), line: Vec::new() })
    }

    async fn wait_for(&mut self, text: &str) -> anyhow::Result<()> {
        loop {
            self.line.clear();
            let read = self.lines.read_until(b'\n', &mut self.line).await?;
            ensure!(read > 0, "the watch has ended");
            if std::str::from_utf8(&self.line)?.contains(text) {
                return Ok(());
            }
        }
    }
}

/// The CPU time of this thread.
fn run_time() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split(' ').next().context("the form of schedstat")?.parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}
