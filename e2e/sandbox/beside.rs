//! `everynode run --beside` while controllers are killed, while another installation guards the
//! rollouts, and with rights missing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::separate_process::run;
use crate::observe::uids;
use crate::world::beside::{ACCOUNT, Beside, RollBack, apply, built_in, guard, on_delete, rights};
use crate::world::manifest::{NEXT_IMAGE, image_patch};
use crate::world::{World, eventually, within};

const POLICY: &str = "{steps: [{name: canary, upTo: [1], approval: true}], maxUnavailable: 1}";

/// G9, G19: while the built-in controller is away, at most the budget is down; once it is back, the
/// rollout goes on, also after a crash of the guard
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_survives_crashes_of_both_controllers() -> Result<()> {
    let mut beside = Beside::start(6, RollBack::No).await?;
    let Beside { world, built_in: creator, guard: deleter, .. } = &mut beside;
    world.create_daemon_set(&on_delete("agent", POLICY)).await?;
    world.reaches("agent", "Complete").await.with_context(|| deleter.output())?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let creator = creator.as_mut().context("a sandbox")?;
    creator.signal("KILL")?;
    creator.ended().await?;
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    eventually("a pod is deleted", async || {
        ensure!(world.pods_of("agent").await?.len() == 5);
        Ok(())
    })
    .await?;
    deleter.signal("KILL")?;
    deleter.ended().await?;
    *deleter = guard(world, RollBack::No).await?;
    // It must not delete another one, whose replacement nobody creates.
    eventually("the new process guards the rollout", async || {
        let log = deleter.output();
        ensure!(log.contains("all lists are complete"), "{log}");
        Ok(())
    })
    .await?;
    let left = uids(world, "agent").await?;
    *creator = built_in(world)?;
    world.settled("agent").await?;
    world.reaches("agent", "Complete").await?;
    ensure!(left.len() == 5, "{} pods were left", left.len());
    beside.check()
}

/// G18: beside an installation that is the DaemonSet controller and guards rollouts itself, it says
/// so and does nothing; once that one is gone, it guards them
#[tokio::test(flavor = "multi_thread")]
async fn beside_another_installation_it_does_nothing() -> Result<()> {
    let mut beside = Beside::start(4, RollBack::No).await?;
    let Beside { world, built_in: creator, guard: deleter, .. } = &mut beside;
    creator.as_mut().context("a sandbox")?.terminate().await?;
    let mut other = run(world, &[])?;
    eventually("it says why it does nothing", async || {
        let log = deleter.output();
        ensure!(log.contains("lease kube-system/everynode is held by"), "{log}");
        ensure!(log.contains("does nothing until that lease is released"), "{log}");
        Ok(())
    })
    .await?;
    let before = world.requests_of(&world.namespace, ACCOUNT)?.len();
    world.create_daemon_set(&on_delete("agent", POLICY)).await?;
    world.reaches("agent", "Complete").await.with_context(|| other.output())?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let guarded_by = async || world.everynode(&["top", "-o", "wide"]).await?.ok();
    let top = guarded_by().await?;
    ensure!(top.contains("GUARDED BY") && !top.contains("everynode beside"), "{top}");
    let requests = world.requests_of(&world.namespace, ACCOUNT)?;
    let written = requests.iter().skip(before).filter(|request| request.is_write());
    let written: Vec<_> = written.filter(|r| !r.resource.starts_with("leases")).collect();
    ensure!(written.is_empty(), "{written:?}");
    other.terminate().await?;
    *creator = Some(built_in(world)?);
    let top = guarded_by().await?;
    ensure!(top.contains("everynode beside"), "{top}");
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.settled("agent").await.with_context(|| deleter.output())?;
    world.reaches("agent", "Complete").await?;
    beside.check()
}

/// G20: each right that is missing is named, and nothing else happens
#[tokio::test(flavor = "multi_thread")]
async fn each_missing_right_is_named() -> Result<()> {
    let beside = Beside::start(3, RollBack::Allowed).await?;
    let Beside { world, guard: mut first, .. } = beside;
    first.terminate().await?;
    let documents = rights(&world, RollBack::Allowed).await?;
    for (number, missing) in MISSING.iter().enumerate() {
        let less = missing.iter().fold(documents.clone(), |documents, (resource, verb)| {
            without(&documents, resource, verb)
        });
        apply(&world, &less).await?;
        world.kubectl(&["delete", "lease", ACCOUNT, "--ignore-not-found"]).await?;
        let mut process = guard(&world, RollBack::Allowed).await?;
        let name = format!("agent-{number}");
        world.create_daemon_set(&on_delete(&name, POLICY)).await?;
        create_idle_policies(&world, &name).await?;
        if missing.contains(&("pods", "delete")) {
            world.reaches(&name, "Complete").await?;
        }
        let are_named = async || {
            let log = process.output();
            for (resource, verb) in *missing {
                let named = format!("cannot {verb} resource \"{resource}\"");
                ensure!(log.contains(&named), "not in the log: {named}\n{log}");
            }
            Ok(())
        };
        eventually(&format!("the log names {missing:?}"), async || {
            // Whatever is refused, the next step is tried.
            world.patch_daemon_set(&name, image_patch(NEXT_IMAGE)).await?;
            let _ = world.everynode(&["rollout", "abort", &format!("ds/{name}")]).await?;
            within(Duration::from_secs(1), "it does", are_named).await
        })
        .await?;
        process.check_running()?;
        process.terminate().await?;
        world.kubectl(&["delete", "daemonset", &name]).await?;
    }
    Ok(())
}

/// Rights whose absence shows at the same time: one that is missing does not hide the next.
const MISSING: [&[(&str, &str)]; 10] = [
    &[
        ("daemonsets", "watch"),
        ("controllerrevisions", "watch"),
        ("nodes", "watch"),
        ("rolloutpolicies", "watch"),
        ("clusterrolloutpolicies", "watch"),
    ],
    &[("pods", "watch")],
    &[("namespaces", "watch")],
    &[("leases", "list")],
    &[("leases", "get")],
    &[("leases", "create")],
    &[("leases", "update")],
    &[
        ("events", "create"),
        ("rolloutpolicies/status", "patch"),
        ("clusterrolloutpolicies/status", "patch"),
        ("daemonsets/status", "patch"),
    ],
    &[("controllerrevisions", "patch")],
    &[("pods", "delete"), ("daemonsets", "patch")],
];

/// Creates policies of both kinds that select no DaemonSet. Their status says so.
async fn create_idle_policies(world: &World, name: &str) -> Result<()> {
    let none = json!({ "matchLabels": { "name": "none" } });
    let of_namespace = json!({ "daemonSets": { "selector": none } });
    let of_cluster = json!({ "daemonSets": { "selector": none }, "namespaces": none });
    for (kind, spec) in [("RolloutPolicy", of_namespace), ("ClusterRolloutPolicy", of_cluster)] {
        let policy = json!({ "apiVersion": "everynode.dev/v1alpha1", "kind": kind,
            "metadata": { "name": name }, "spec": spec });
        eventually("the definition is served", async || {
            world.kubectl_with_input(&["apply", "-f", "-"], &policy.to_string()).await?.ok()
        })
        .await?;
    }
    Ok(())
}

/// The documents without one verb for one resource.
fn without(documents: &[Value], resource: &str, verb: &str) -> Vec<Value> {
    let mut documents = documents.to_vec();
    for rules in documents.iter_mut().filter_map(|document| document["rules"].as_array_mut()) {
        let split = |rule: &Value| -> Vec<Value> {
            let resources = rule["resources"].as_array().cloned().unwrap_or_default();
            let of_resource = |one: &Value| {
                let mut rule = rule.clone();
                rule["resources"] = Value::Array(vec![one.clone()]);
                if one == resource
                    && let Some(verbs) = rule["verbs"].as_array_mut()
                {
                    verbs.retain(|granted| {
                        granted != verb && !(verb == "watch" && granted == "list")
                    });
                }
                rule
            };
            resources.iter().map(of_resource).collect()
        };
        *rules = rules.iter().flat_map(split).collect();
        rules.retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
    }
    documents
}
