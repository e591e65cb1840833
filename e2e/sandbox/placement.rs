//! Placement of pods: affinity, taints, namespaces, and `--schedule-by`. Requires nodes that the
//! test may label and taint.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::separate_process::{bare, run};
use crate::world::manifest::{daemon_set, with};
use crate::world::pod::node_of;
use crate::world::{Setup, World, eventually};

/// A sandbox of four nodes with the label `rank` from 1 to 4.
async fn ranked() -> Result<World> {
    ranked_with(Setup::default()).await
}

async fn ranked_with(setup: Setup<'_>) -> Result<World> {
    let world = World::sandbox(setup).await?;
    for (index, name) in World::node_names(&world.list_nodes().await?).iter().enumerate() {
        let labels = json!({"metadata": {"labels": {"rank": (index + 1).to_string()}}});
        world.nodes().patch(name, &PatchParams::default(), &Patch::Merge(labels)).await?;
    }
    Ok(world)
}

/// The ranks of the nodes that have a pod of the DaemonSet at the end.
async fn placed(world: &World, name: &str, expected: &[&str]) -> Result<()> {
    let expected: BTreeSet<String> = expected.iter().map(|rank| (*rank).to_owned()).collect();
    eventually(&format!("{name} is on {expected:?}"), async || {
        let nodes = world.list_nodes().await?;
        let on: BTreeSet<String> = world.pods_of(name).await?.iter().map(node_of).collect();
        let ranks: BTreeSet<String> = nodes
            .iter()
            .filter(|node| node.metadata.name.as_ref().is_some_and(|name| on.contains(name)))
            .filter_map(|node| node.metadata.labels.as_ref()?.get("rank").cloned())
            .collect();
        ensure!(ranks == expected, "it is on {ranks:?}");
        let ds = world.daemon_sets().get(name).await?.status.unwrap_or_default();
        ensure!(usize::try_from(ds.desired_number_scheduled)? == expected.len(), "{ds:?}");
        Ok(())
    })
    .await
}

fn with_template_spec(name: &str, spec: Value) -> Value {
    with(daemon_set(name), json!({"spec": {"template": {"spec": spec}}}))
}

fn with_terms(name: &str, terms: Value) -> Value {
    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    with_template_spec(name, json!({"affinity": {"nodeAffinity": required}}))
}

/// C10, C11, C12: selectors, affinity terms and a node name, each in a separate DaemonSet
#[tokio::test]
async fn each_kind_of_affinity_leads_to_its_nodes() -> Result<()> {
    let world = ranked().await?;
    let expression = |key: &str, operator: &str, values: Value| {
        let expression = json!({"key": key, "operator": operator, "values": values});
        json!([{"matchExpressions": [expression]}])
    };
    let first = World::node_names(&world.list_nodes().await?).into_iter().min();
    let first = first.context("a sandbox has nodes")?;
    let field =
        json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [first]}]}]);
    let either = json!([
        {"matchExpressions": [{"key": "rank", "operator": "In", "values": ["1"]}]},
        {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["3"]}]},
    ]);
    for (name, manifest, expected) in [
        (
            "selector",
            with_template_spec("selector", json!({"nodeSelector": {"rank": "2"}})),
            &["2"][..],
        ),
        ("in", with_terms("in", expression("rank", "In", json!(["1", "3"]))), &["1", "3"]),
        (
            "not-in",
            with_terms("not-in", expression("rank", "NotIn", json!(["1"]))),
            &["2", "3", "4"],
        ),
        ("gt", with_terms("gt", expression("rank", "Gt", json!(["2"]))), &["3", "4"]),
        ("lt", with_terms("lt", expression("rank", "Lt", json!(["2"]))), &["1"]),
        ("absent", with_terms("absent", expression("rank", "DoesNotExist", Value::Null)), &[]),
        ("either", with_terms("either", either), &["1", "4"]),
        ("field", with_terms("field", field), &["1"]),
        ("named", with_template_spec("named", json!({"nodeName": first})), &["1"]),
    ] {
        world.create_daemon_set(&manifest).await.with_context(|| name.to_owned())?;
        placed(&world, name, expected).await?;
    }
    Ok(())
}

/// C13, C14: numeric tolerations select nodes by the value of their taint
#[tokio::test]
async fn tolerations_compare_numbers() -> Result<()> {
    let world = ranked().await?;
    for name in World::node_names(&world.list_nodes().await?) {
        let rank = world
            .nodes()
            .get(&name)
            .await?
            .metadata
            .labels
            .and_then(|mut labels| labels.remove("rank"));
        let taint = format!("load={}:NoSchedule", rank.unwrap_or_default());
        world.kubectl(&["taint", "node", &name, &taint]).await?;
    }
    let toleration = |operator: &str, value: &str| {
        json!({"tolerations": [
            {"key": "load", "operator": operator, "value": value, "effect": "NoSchedule"}]})
    };
    for (name, spec, expected) in [
        ("none", json!({}), &[][..]),
        ("equal", toleration("Equal", "2"), &["2"]),
        ("less", toleration("Lt", "3"), &["1", "2"]),
        ("more", toleration("Gt", "3"), &["4"]),
    ] {
        world
            .create_daemon_set(&with_template_spec(name, spec))
            .await
            .with_context(|| name.to_owned())?;
        placed(&world, name, expected).await?;
    }
    Ok(())
}

/// C15: neither the sandbox's controller nor `everynode run` heeds a namespace's node selector by
/// default
#[tokio::test]
async fn a_namespaces_node_selector_is_ignored_by_default() -> Result<()> {
    for controller in [true, false] {
        let setup = Setup { controller, ..Setup::default() };
        let world = ranked_with(setup).await?;
        let _run = (!controller).then(|| run(&world, &["--leader-elect=false"])).transpose()?;
        select_nodes(&world, json!("rank=2")).await?;
        world.create_daemon_set(&daemon_set("a")).await?;
        placed(&world, "a", &["1", "2", "3", "4"]).await?;
    }
    Ok(())
}

/// C15, C16: with the option, it creates pods only where the annotation allows it, follows changes
/// of the annotation, and removes no pods
#[tokio::test]
async fn a_namespaces_node_selector_applies_with_the_option() -> Result<()> {
    let setup = Setup { controller: false, ..Setup::default() };
    let world = ranked_with(setup).await?;
    let _controller = run(&world, &["--leader-elect=false", "--namespace-node-selectors"])?;
    select_nodes(&world, json!("rank=2")).await?;
    world.create_daemon_set(&daemon_set("a")).await?;
    placed(&world, "a", &["2"]).await?;
    select_nodes(&world, Value::Null).await?;
    placed(&world, "a", &["1", "2", "3", "4"]).await?;
    let before: BTreeSet<String> = world.pods_of("a").await?.iter().map(node_of).collect();
    select_nodes(&world, json!("rank=2")).await?;
    eventually("the others count as misscheduled", async || {
        let status = world.daemon_sets().get("a").await?.status.unwrap_or_default();
        ensure!(status.number_misscheduled == 3, "{status:?}");
        Ok(())
    })
    .await?;
    let pods = world.pods_of("a").await?;
    let after: BTreeSet<String> = pods.iter().map(node_of).collect();
    ensure!(before == after, "they were on {before:?} and are on {after:?}");
    ensure!(
        pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()),
        "one is being deleted"
    );
    Ok(())
}

async fn select_nodes(world: &World, selector: Value) -> Result<()> {
    let key = "scheduler.alpha.kubernetes.io/node-selector";
    let patch = json!({"metadata": {"annotations": {key: selector}}});
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.patch(&world.namespace, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// C30, C31: with --schedule-by=controller pods are created on their node, and need no scheduler
#[tokio::test]
async fn the_controller_can_schedule_pods() -> Result<()> {
    let world = bare(2).await?;
    let _controller = run(&world, &["--leader-elect=false", "--schedule-by=controller"])?;
    // The scheduler with this name does not exist, so only the controller can bind the pod.
    let manifest = with_template_spec("a", json!({"schedulerName": "nobody"}));
    world.roll_out(&manifest).await?;
    let pods = world.pods_of("a").await?;
    ensure!(pods.iter().all(|pod| affinity(pod).is_none()), "they are pinned by affinity");
    Ok(())
}

/// The pod's node affinity in short form.
pub(crate) fn affinity(pod: &Pod) -> Option<Value> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.clone()?;
    let affinity = serde_json::to_value(affinity).ok()?;
    Some(json!({
        "required": affinity["requiredDuringSchedulingIgnoredDuringExecution"],
        "preferred": affinity["preferredDuringSchedulingIgnoredDuringExecution"],
    }))
}
