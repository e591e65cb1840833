//! Causes that only a kubelet brings about: those of a real cluster's tests may be hollow.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::causes::shows;
use crate::world::manifest::{daemon_set, with};
use crate::world::{Setup, World};

/// C54: readiness gates and the last warnings of pods are named
#[tokio::test(flavor = "multi_thread")]
async fn gates_and_warnings_are_named() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    let gates = json!([{"conditionType": "example.com/lb"}]);
    let template = json!({"spec": {"template": {"spec": {"readinessGates": gates}}}});
    world.create_daemon_set(&with(daemon_set("agent"), template)).await?;
    shows(&world, "pod readiness gate \"example.com/lb\"", true).await?;

    let pods = world.pods_of("agent").await?;
    let pod = pods.first().context("it has pods")?;
    let metadata = &pod.metadata;
    let name = metadata.name.as_deref().context("it has a name")?;
    let now = Timestamp::now().strftime("%FT%TZ").to_string();
    let message = "MountVolume.SetUp failed for volume \"cfg\" : configmap \"agent-cfg\" not found";
    let warning = json!({"apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.1"), "namespace": world.namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": name,
            "namespace": world.namespace, "uid": metadata.uid},
        "type": "Warning", "reason": "FailedMount", "message": message, "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "kubelet"}});
    create(&world, &warning).await?;
    shows(&world, message, false).await?;
    shows(&world, "(FailedMount)", false).await?;

    // The gate opens when somebody says so.
    let open = "{\"status\":{\"conditions\":[{\"type\":\"example.com/lb\",\"status\":\"True\"}]}}";
    let last = pods.last().and_then(|pod| pod.metadata.name.as_deref()).context("it has pods")?;
    let last = format!("pod/{last}");
    world.kubectl(&["patch", &last, "--subresource=status", "-p", open]).await?;
    world.kubectl(&["wait", &last, "--for=condition=Ready", "--timeout=30s"]).await?;
    Ok(())
}

async fn create(world: &World, object: &Value) -> Result<()> {
    let arguments = ["create", "-f", "-"];
    world.kubectl_with_input(&arguments, &object.to_string()).await?.ok()?;
    Ok(())
}
