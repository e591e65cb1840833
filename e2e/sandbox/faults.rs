//! Failures of API servers, simulated by fault rules of the sandbox: the controller starts,
//! continues, does nothing twice, and logs a few lines.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::observe::{Limits, Observer, same_pods, uids};
use crate::world::faults::FaultSetup;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::process::{Process, SHORT_PINGS};
use crate::world::{World, eventually, within};

/// Maximum time until a recovery, much shorter than any delay or back-off of a minute.
const SOON: Duration = Duration::from_secs(20);

/// The answer of kube-apiserver if its etcd can't report the progress of a watch.
const NO_PROGRESS: &str = "a watch stream was requested by the client but the required storage \
                           feature RequestWatchProgress is disabled";

async fn rolls_out_soon(world: &World, name: &str, controller: &Process) -> Result<()> {
    world.settled_within(SOON, name).await.with_context(|| controller.output())?;
    Ok(())
}

/// The number of pods with the next image.
async fn updated(world: &World) -> Result<usize> {
    let is_next = |pod: &Pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.into_iter().any(|container| container.image.as_deref() == Some(NEXT_IMAGE))
    };
    Ok(world.pods_of("a").await?.iter().filter(|pod| is_next(pod)).count())
}

/// C1: if the server ends every streaming list with an ERROR event of code 500, the controller
/// lists pages instead, and not continuously
#[tokio::test]
async fn the_controller_starts_where_every_streaming_list_fails() -> Result<()> {
    let setup = FaultSetup::of(3).await?;
    let error = json!({"error": {"code": 500, "message": NO_PROGRESS}});
    setup.set(json!([{"match": {"verbs": ["watchlist"]}, "fault": {"watchError": error}}])).await?;
    let mut controller = setup.run(&[])?;
    setup.world.create_daemon_set(&daemon_set("a")).await?;
    rolls_out_soon(&setup.world, "a", &controller).await?;
    let lists = setup.fired(0).await?;
    ensure!(lists > 0 && lists <= 15, "{lists} streaming lists were requested");
    controller.check_running()
}

/// C1, C4: a revision of another namespace with bytes that are not UTF-8 affects nothing else,
/// whether it exists at the start or is created later
#[tokio::test]
async fn bytes_that_are_not_utf8_affect_nothing_else() -> Result<()> {
    for comes_later in [false, true] {
        let setup = FaultSetup::of(3).await?;
        let world = &setup.world;
        let spoilt = json!({"namespace": "elsewhere", "name": "spoilt", "text": "sunrise"});
        setup
            .set(json!([{
                "match": {"resources": ["controllerrevisions"]},
                "fault": {"invalidUtf8": spoilt},
            }]))
            .await?;
        if !comes_later {
            put_revision_elsewhere(world).await?;
        }
        let mut controller = setup.run(&[])?;
        world.create_daemon_set(&daemon_set("a")).await?;
        rolls_out_soon(world, "a", &controller).await?;
        if comes_later {
            put_revision_elsewhere(world).await?;
        }
        world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
        rolls_out_soon(world, "a", &controller).await?;
        ensure!(setup.fired(0).await? > 0, "no request for revisions was touched");
        controller.check_running()?;
    }
    Ok(())
}

async fn put_revision_elsewhere(world: &World) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "elsewhere"}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let revisions: Api<ControllerRevision> = Api::namespaced(world.client.clone(), "elsewhere");
    let revision =
        json!({"metadata": {"name": "spoilt"}, "revision": 1, "data": {"note": "sunrise"}});
    revisions.create(&PostParams::default(), &serde_json::from_value(revision)?).await?;
    Ok(())
}

/// C52, C61: deletions that take effect but are answered with 500, or not at all, while the watch
/// of pods is behind, never exceed maxUnavailable
#[tokio::test]
async fn a_deletion_of_unknown_outcome_deletes_no_second_pod() -> Result<()> {
    let error = json!({"error": {"code": 500, "afterCommit": true}});
    let lost = json!({"loseAnswer": {"afterCommit": true}});
    for fault in [error, lost] {
        let setup = FaultSetup::of(4).await?;
        let world = &setup.world;
        let deletion = json!({
            "match": {"verbs": ["delete"], "resources": ["pods"]},
            "when": {"times": 1},
            "fault": fault,
        });
        let (mut controller, proxy) = setup.run_behind_proxy(&[]).await?;
        world.roll_out(&daemon_set("a")).await?;
        let behind = Duration::from_secs(3);
        setup.stall_pods(&proxy, behind, &[deletion]).await.with_context(|| controller.output())?;
        let observer = Observer::start(world, "a", Limits::ONE_BY_ONE).await?;
        world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
        setup.has_fired(1, 1).await.with_context(|| controller.output())?;
        rolls_out_soon(world, "a", &controller).await?;
        observer.finish().await.with_context(|| controller.output())?;
        controller.check_running()?;
    }
    Ok(())
}

/// C34, C35: creations that take effect but are answered with 504, 502 without a Status, or not at
/// all, while the watch of pods is behind and reads fail: no node gets a second pod, and no node
/// waits for a minute
#[tokio::test]
async fn a_creation_of_unknown_outcome_creates_no_second_pod() -> Result<()> {
    let faults = [
        json!({"error": {"code": 504, "afterCommit": true}}),
        json!({"error": {"code": 502, "plainText": true, "afterCommit": true}}),
        json!({"loseAnswer": {"afterCommit": true}}),
    ];
    for fault in faults {
        let setup = FaultSetup::of(3).await?;
        let world = &setup.world;
        let creation = json!({
            "match": {"verbs": ["create"], "resources": ["pods"]},
            "when": {"times": 2},
            "fault": fault,
        });
        // Reads that a controller may send right after also fail.
        let read = json!({
            "match": {"verbs": ["get", "list"], "resources": ["pods"]},
            "when": {"times": 2},
            "fault": {"error": {"code": 503}},
        });
        let (mut controller, proxy) = setup.run_behind_proxy(&[]).await?;
        world.roll_out(&daemon_set("a")).await?;
        let (behind, faults) = (Duration::from_secs(5), [creation, read]);
        setup.stall_pods(&proxy, behind, &faults).await.with_context(|| controller.output())?;
        let observer = Observer::start(world, "a", Limits::ONE_BY_ONE).await?;
        join(world, &["late-1", "late-2"]).await?;
        setup.has_fired(1, 2).await.with_context(|| controller.output())?;
        available_soon(world, 5, &controller).await?;
        let report = observer.finish().await.with_context(|| controller.output())?;
        ensure!(report.created.len() == 2, "{:?} were created for 2 nodes", report.created);
        controller.check_running()?;
    }
    Ok(())
}

async fn join(world: &World, names: &[&str]) -> Result<()> {
    for name in names {
        let node = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        world.nodes().create(&PostParams::default(), &node).await?;
    }
    Ok(())
}

async fn available_soon(world: &World, pods: i32, controller: &Process) -> Result<()> {
    within(SOON, "each node has an available pod", async || {
        let status = world.check_rollout("a").await?.status.unwrap_or_default();
        ensure!(status.desired_number_scheduled == pods, "the status is {status:?}");
        Ok(())
    })
    .await
    .with_context(|| controller.output())
}

/// C34, C35: creations that take effect after their answer: no node has two pods, and no node waits
/// for a minute
#[tokio::test]
async fn a_delayed_creation_creates_no_second_pod() -> Result<()> {
    let faults = [json!({"after": "1s", "error": {"code": 504}}), json!({"after": "1s"})];
    for late in faults {
        let setup = FaultSetup::of(3).await?;
        let world = &setup.world;
        setup
            .set(json!([{
                "match": {"verbs": ["create"], "resources": ["pods"]},
                "when": {"times": 2},
                "fault": {"commitLate": late},
            }]))
            .await?;
        let observer = Observer::start(world, "a", Limits::ONE_BY_ONE).await?;
        let mut controller = setup.run(&[])?;
        world.create_daemon_set(&daemon_set("a")).await?;
        setup.has_fired(0, 2).await.with_context(|| controller.output())?;
        available_soon(world, 3, &controller).await?;
        // By then all creations have taken effect.
        world.pods_have_aged("a").await?;
        let report = observer.finish().await.with_context(|| controller.output())?;
        ensure!(report.created.len() == 3, "{:?} were created for 3 nodes", report.created);
        controller.check_running()?;
    }
    Ok(())
}

/// C28, C61: creations rejected with 429 are repeated after the time of Retry-After, and none twice
#[tokio::test]
async fn requests_rejected_with_429_are_repeated_later() -> Result<()> {
    let setup = FaultSetup::of(3).await?;
    let world = &setup.world;
    setup
        .set(json!([{
            "match": {"verbs": ["create"], "resources": ["pods"]},
            "when": {"times": 2},
            "fault": {"error": {"code": 429, "retryAfterSeconds": 1}},
        }]))
        .await?;
    let observer = Observer::start(world, "a", Limits::ONE_BY_ONE).await?;
    let mut controller = setup.run(&[])?;
    world.create_daemon_set(&daemon_set("a")).await?;
    rolls_out_soon(world, "a", &controller).await?;
    let report = observer.finish().await?;
    ensure!(report.created.len() == 3, "{:?} were created for 3 nodes", report.created);
    ensure!(setup.fired(0).await? == 2, "it was not rejected twice");
    // The first creation is a batch of its own, so the first three requests are for the same pod.
    let requests = setup.requests("create", "pods")?;
    for pair in requests[..3].windows(2) {
        let gap = pair[1].at.duration_since(pair[0].at);
        ensure!(gap >= SignedDuration::from_secs(1), "it was repeated after {gap:?}");
    }
    controller.check_running()
}

/// C1, C60: a list that ends prematurely, as a stream or as a page, is not treated as complete
#[tokio::test]
async fn an_incomplete_list_is_not_used() -> Result<()> {
    let setup = FaultSetup::of(4).await?;
    let world = &setup.world;
    let mut first = setup.run(&[])?;
    world.roll_out(&daemon_set("a")).await?;
    let before = uids(world, "a").await?;
    first.terminate().await?;
    let resources = ["nodes", "pods", "daemonsets", "controllerrevisions"];
    let rule = |verb: &str, resource: &str, fault: Value| {
        json!({
            "match": {"verbs": [verb], "resources": [resource]},
            "when": {"times": 2},
            "fault": fault,
        })
    };
    let rules = resources.iter().flat_map(|resource| {
        let stream = rule("watchlist", resource, json!({"cut": {"objects": 1}}));
        let page = rule("list", resource, json!({"cut": {"bytes": 300}}));
        let refused = json!({"error": {"code": 400}});
        [stream, rule("watchlist", resource, refused), page]
    });
    setup.set(rules.collect::<Vec<_>>().into()).await?;
    let observer = Observer::start(world, "a", Limits::ONE_BY_ONE).await?;
    let mut second = setup.run(&[])?;
    world.create_daemon_set(&daemon_set("b")).await?;
    within(Duration::from_secs(40), "a DaemonSet is served", async || {
        let ready = world.daemon_sets().get("b").await?.status.map(|status| status.number_ready);
        ensure!(ready == Some(4), "{ready:?} pods are ready");
        Ok(())
    })
    .await
    .with_context(|| second.output())?;
    same_pods(world, "a", &before).await?;
    observer.finish().await?;
    for rule in [0, 3, 6] {
        ensure!(setup.fired(rule).await? > 0, "rule {rule} has not fired");
    }
    second.check_running()
}

/// C1, C23: a pod that is deleted during a streaming list is treated as deleted: its node gets
/// another one
#[tokio::test]
async fn a_deletion_during_a_streaming_list_is_observed() -> Result<()> {
    let setup = FaultSetup::of(3).await?;
    let world = &setup.world;
    let mut first = setup.run(&[])?;
    world.roll_out(&daemon_set("a")).await?;
    first.terminate().await?;
    setup
        .set(json!([{
            "match": {"verbs": ["watchlist"], "resources": ["pods"]},
            "fault": {"lateBookmark": {"after": "2s"}},
        }]))
        .await?;
    let mut second = setup.run(&[])?;
    setup.has_fired(0, 1).await?;
    let victim = world.pods_of("a").await?.pop().context("a pod")?;
    let name = victim.metadata.name.context("a name")?;
    world.pods().delete(&name, &DeleteParams::default().grace_period(0)).await?;
    within(SOON, "each node has a pod", async || {
        let pods = world.pods_of("a").await?;
        ensure!(pods.len() == 3, "{} pods", pods.len());
        Ok(())
    })
    .await
    .with_context(|| second.output())?;
    second.check_running()
}

/// C1, C46: a watch that ends with an ERROR event of any code is restarted, and no change is lost
#[tokio::test]
async fn a_watch_that_ends_with_an_error_is_restarted() -> Result<()> {
    let setup = FaultSetup::of(3).await?;
    let world = &setup.world;
    let rules = [410, 500, 429].map(|code| {
        json!({
            "match": {"verbs": ["watch"]},
            "when": {"times": 6},
            "fault": {"watchError": {"error": {"code": code}, "at": {"time": "300ms"}}},
        })
    });
    setup.set(json!(rules)).await?;
    let mut controller = setup.run(&[])?;
    world.create_daemon_set(&daemon_set("a")).await?;
    rolls_out_soon(world, "a", &controller).await?;
    for rule in 0..3 {
        setup.has_fired(rule, 6).await.with_context(|| controller.output())?;
    }
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    rolls_out_soon(world, "a", &controller).await?;
    controller.check_running()
}

/// A rollout during which the server restarts: unreachable for 3 s, then answering 403 for 1 s.
/// Returns when it answers again.
async fn restarted(setup: &FaultSetup, controller: &Process) -> Result<Instant> {
    let world = &setup.world;
    world.roll_out(&daemon_set("a")).await.with_context(|| controller.output())?;
    setup
        .set_for_all(json!([{
            "match": {"verbs": ["create"], "resources": ["pods"]},
            "when": {"every": 3, "times": 1},
            "fault": {"restart": {"down": "3s", "forbidden": "1s", "afterCommit": true}},
        }]))
        .await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    eventually("the server is unreachable", async || {
        ensure!(world.list_nodes().await.is_err(), "it answers");
        Ok(())
    })
    .await?;
    eventually("the server is reachable again", async || world.list_nodes().await).await?;
    let back = Instant::now();
    ensure!(setup.fired(0).await? == 1, "there was no restart");
    Ok(back)
}

/// C64: after an outage of 3 s, and 403 for 1 s, a rollout continues within 5 s
#[tokio::test]
async fn a_rollout_continues_within_five_seconds_of_an_outage() -> Result<()> {
    let setup = FaultSetup::of(8).await?;
    let world = &setup.world;
    let mut controller = setup.run(&[])?;
    let back = restarted(&setup, &controller).await?;
    within(Duration::from_secs(5), "the rollout continues", async || {
        let updated = updated(world).await?;
        // The server became unreachable after it had created the third one.
        ensure!(updated > 3, "{updated} pods are new");
        Ok(())
    })
    .await
    .with_context(|| format!("{:?} after: {}", back.elapsed(), controller.output()))?;
    world.settled("a").await?;
    ensure!(world.pods_of("a").await?.len() == 8, "not one pod on each of 8 nodes");
    controller.check_running()
}

/// C64: an outage causes a few log lines, each a sentence without Debug output
#[tokio::test]
async fn an_outage_causes_few_log_lines() -> Result<()> {
    const LINES_MAX: usize = 12;
    let setup = FaultSetup::of(5).await?;
    let mut controller = setup.run(&[])?;
    restarted(&setup, &controller).await?;
    setup.world.settled("a").await.with_context(|| controller.output())?;
    controller.check_running()?;
    let log = controller.output();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    ensure!(lines.len() <= LINES_MAX, "{} lines:\n{log}", lines.len());
    for debug in ["Some(", "None", "Status {", "Err(", "Api("] {
        let found = log.lines().find(|line| line.contains(debug));
        ensure!(found.is_none(), "a Debug form ({debug}): {found:?}");
    }
    let longest = log.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    ensure!(longest <= 400, "a line of {longest} characters:\n{log}");
    Ok(())
}

/// C63, C64: a connection that stalls while the lease is renewed costs one attempt, not the lease
#[tokio::test]
async fn a_frozen_connection_does_not_cost_the_lease() -> Result<()> {
    let setup = FaultSetup::of(2).await?;
    let world = &setup.world;
    let flags = [
        "--leader-elect-lease-duration=9s",
        "--leader-elect-renew-deadline=6s",
        "--leader-elect-retry-period=500ms",
    ];
    let mut controller = setup.run(&[&flags[..], &SHORT_PINGS].concat())?;
    let leader = super::leader::holder(world).await?;
    setup
        .set(json!([{
            "match": {"verbs": ["update", "patch"], "resources": ["leases"]},
            "when": {"times": 1},
            "fault": {"freeze": {}},
        }]))
        .await?;
    setup.has_fired(0, 1).await?;
    let at_freeze = renewed_at(world).await?;
    eventually("the lease is renewed", async || {
        controller.check_running()?;
        let renewed = renewed_at(world).await?;
        ensure!(renewed > at_freeze, "not since {renewed:?}");
        Ok(())
    })
    .await?;
    ensure!(super::leader::holder(world).await? == leader, "another replica leads");
    world.roll_out(&daemon_set("a")).await.with_context(|| controller.output())?;
    controller.check_running()
}

async fn renewed_at(world: &World) -> Result<Option<jiff::Timestamp>> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-system");
    let spec = leases.get("everynode").await?.spec;
    Ok(spec.and_then(|spec| spec.renew_time).map(|time| time.0))
}
