//! The minimal cost of one pod without any decision: the requests of a placement and of rollouts
//! with maxUnavailable 10% and 1 and their watch events, through the controller's HTTP client and
//! with its pauses, without storing objects. The controller's additional cost is for parsing,
//! deciding and building requests.
//!
//! `cargo bench -p everynode-cli --bench floor [-- NODES…]` measures it with sandboxes, and
//! `… -- --kubeconfig=FILE` with a cluster whose nodes start pods.

#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod agent;
mod sandbox;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use everynode_controller::api::{Api, Content, Server};
use everynode_controller::client::{self, Location, Pings};
use everynode_controller::lease::Fence;
use everynode_core::api::Uid;
use everynode_core::plan::{NewPod, ScheduleBy};
use everynode_k8s::patch::{self, Owner};
use everynode_k8s::{convert, pod_template, protobuf};
use futures::future::try_join;
use futures::{AsyncBufRead, AsyncReadExt, StreamExt, TryStreamExt, stream};
use http::{Method, header};
use http_body_util::BodyExt;
use kube::client::Body;
use memchr::memmem;
use sandbox::Sandbox;
use serde_json::{Value, json};

/// The default sizes of clusters.
const NODES: &[u32] = &[1_000, 10_000];
const PODS: &str = "/api/v1/namespaces/default/pods";
const REQUESTS_AT_ONCE: usize = 32;
/// The part of the event of a deletion: its type.
const DELETED: &str = "DELETED";
/// The part of an event of a started pod: its phase.
const RUNNING: &str = "Running";
/// The pause of `everynode run` after each round of work.
const PAUSE: Duration = Duration::from_millis(4);
/// The placeholder for the node's name.
const NODE: &str = "the-name-of-the-node";

fn main() -> anyhow::Result<()> {
    // As in `everynode run`.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.on_thread_park(|| std::thread::sleep(PAUSE));
    runtime.enable_all().build()?.block_on(measure_all())
}

async fn measure_all() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("| nodes | CPU ms to place a pod | to replace it, 10% at a time | one at a time |");
    println!("|--:|--:|--:|--:|");
    let kubeconfig = arguments.iter().find_map(|argument| argument.strip_prefix("--kubeconfig="));
    if let Some(kubeconfig) = kubeconfig {
        return measure(Path::new(kubeconfig)).await;
    }
    let asked = arguments.iter().filter(|argument| !argument.starts_with("--"));
    let asked: Vec<u32> = asked.map(|nodes| nodes.parse()).collect::<Result<_, _>>()?;
    for nodes in if asked.is_empty() { NODES.to_vec() } else { asked } {
        let sandbox = Sandbox::start(&["--no-controller", "--nodes", &nodes.to_string()])?;
        measure(sandbox.kubeconfig()).await?;
    }
    Ok(())
}

/// Prints a row of the table.
async fn measure(kubeconfig: &Path) -> anyhow::Result<()> {
    let location = Location { kubeconfig: Some(kubeconfig.to_owned()), ..Location::default() };
    let client = client::client(&client::config(&location)?, Pings::default())?;
    let api = Api::new(client.clone(), Fence::open(), None);
    let list: Value = serde_json::from_slice(&api.get("/api/v1/nodes").await?)?;
    let names = list["items"].as_array().context("no list of nodes")?.iter();
    let names: Vec<&str> = names.filter_map(|node| node["metadata"]["name"].as_str()).collect();
    ensure!(!names.is_empty(), "no nodes");
    let mut watch = Watch::begin(&client).await?;
    let pod = pod();
    let start = run_time()?;
    let mut pods = create_all(&api, &mut watch, &pod, &names).await?;
    let placed = run_time()?;
    let batch = names.len().div_ceil(10);
    for (names, pods) in names.chunks(batch).zip(pods.chunks_mut(batch)) {
        try_join(delete_all(&api, pods), watch.wait_for_pods(DELETED, pods.len())).await?;
        pods.clone_from_slice(&create_all(&api, &mut watch, &pod, names).await?);
    }
    let replaced = run_time()?;
    for (node, pod_of_node) in names.iter().zip(&mut pods) {
        delete(&api, pod_of_node).await?;
        watch.wait_for(&[DELETED, &pod_of_node.name]).await?;
        *pod_of_node = create(&api, body(&pod, node)).await?;
        watch.wait_for(&[RUNNING, &pod_of_node.name]).await?;
    }
    let replaced_singly = run_time()?;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0 / names.len() as f64;
    let times = [placed - start, replaced - placed, replaced_singly - replaced];
    let [place, at_ten_percent, at_one] = times.map(milliseconds);
    println!("| {} | {place:.3} | {at_ten_percent:.3} | {at_one:.3} |", names.len());
    delete_all(&api, &pods).await
}

/// Creates a pod for each node, and waits until they run.
async fn create_all(
    api: &Api,
    watch: &mut Watch,
    pod: &str,
    nodes: &[&str],
) -> anyhow::Result<Vec<convert::Meta>> {
    let creations = stream::iter(nodes).map(|node| create(api, body(pod, node)));
    let created = creations.buffered(REQUESTS_AT_ONCE).try_collect();
    Ok(try_join(created, watch.wait_for_pods(RUNNING, nodes.len())).await?.0)
}

async fn delete_all(api: &Api, pods: &[convert::Meta]) -> anyhow::Result<()> {
    let deletions = stream::iter(pods).map(|pod| delete(api, pod));
    deletions.buffered(REQUESTS_AT_ONCE).try_for_each(|()| async { Ok(()) }).await
}

async fn delete(api: &Api, pod: &convert::Meta) -> anyhow::Result<()> {
    let options = patch::delete_options(&pod.uid).to_string();
    let path = format!("{PODS}/{}", pod.name);
    api.write(Method::DELETE, &path, Content::Json, options.into()).await?;
    Ok(())
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
        r#override: None,
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

/// A watch of all pods in protobuf, whose events are searched for texts and discarded.
struct Watch {
    stream: Pin<Box<dyn AsyncBufRead>>,
    event: Vec<u8>,
}

impl Watch {
    async fn begin(client: &kube::Client) -> anyhow::Result<Self> {
        let path = format!("{PODS}?watch=true&allowWatchBookmarks=true");
        let request = http::Request::get(path).header(header::ACCEPT, protobuf::MEDIA_TYPE);
        let (parts, body) = client.send(request.body(Body::empty())?).await?.into_parts();
        ensure!(parts.status.is_success(), "the watch was refused: {}", parts.status);
        let body = body.into_data_stream().map_err(std::io::Error::other).into_async_read();
        Ok(Self { stream: Box::pin(body), event: Vec::new() })
    }

    /// Waits for events of this many pods that contain this text.
    async fn wait_for_pods(&mut self, text: &str, pods: usize) -> anyhow::Result<()> {
        let mut names = HashSet::new();
        while names.len() < pods {
            names.insert(self.wait_for(&[text]).await?.name);
        }
        Ok(())
    }

    /// The metadata of the pod of the next event that contains all of these texts.
    async fn wait_for(&mut self, texts: &[&str]) -> anyhow::Result<convert::Meta> {
        loop {
            let mut length = [0; protobuf::FRAME_HEADER_BYTES];
            self.stream.read_exact(&mut length).await.context("the watch has ended")?;
            self.event.resize(u32::from_be_bytes(length) as usize, 0);
            self.stream.read_exact(&mut self.event).await?;
            if texts.iter().all(|text| memmem::find(&self.event, text.as_bytes()).is_some()) {
                let event = protobuf::watch_event(&Bytes::copy_from_slice(&self.event))?;
                return Ok(convert::meta_of_protobuf(&event.object)?);
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
