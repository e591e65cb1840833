//! everynode is killed while a pod is changed in place (G56), between any two of its requests: it
//! starts again, or the built-in controller takes over, for good or for a moment. The agent has a
//! second container, which never changes; node-2 is the canary.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::fixture::Controller;
use super::super::manifest::{Change, agent, image};
use super::super::state::{
    State, all_nodes_updated, is_changing, progressing, ready, resize_pending, updated_count,
};
use super::super::story::{Run, story_of_everynode};
use crate::world::beside::strategy;
use crate::world::guard::image_of;
use crate::world::http_proxy::RequestOutcome;
use crate::world::manifest::with;
use crate::world::pod::uid;

const POLICY: &str = "\
    update: InPlaceIfPossible\n\
    steps: [{name: canary, nodes: {matchLabels: {kubernetes.io/hostname: node-2}}, bake: 2s}]\n\
    maxUnavailable: 1\n";

/// When everynode is killed: at which of its requests that change pods, which then takes effect or
/// does not; what is seen then; and whether the amount of CPU changes with the image.
#[derive(Clone, Copy)]
struct Moment {
    at: usize,
    then: RequestOutcome,
    seen: fn(&State) -> bool,
    resizes: bool,
}

/// An agent and a helper.
fn two() -> Value {
    let helper = json!({ "name": "helper", "image": image("1"),
        "env": [{ "name": "PORT", "value": "8081" }] });
    let mut manifest = agent().policy(POLICY);
    if let Some(containers) = manifest["spec"]["template"]["spec"]["containers"].as_array_mut() {
        containers.push(helper);
    }
    manifest
}

fn next(tag: &str, cpu: &str) -> Value {
    let resources = json!({ "resources": { "requests": { "cpu": cpu, "memory": "16Mi" } } });
    two().image(tag).container(resources)
}

/// All nodes have the template's version, and no pod is half changed.
fn is_over(state: &State) -> bool {
    all_nodes_updated(state) && !is_changing(state)
}

fn pods(run: &Run<'_>) -> BTreeSet<String> {
    run.record.look(|state| state.agents().map(uid).collect())
}

/// Rolls a template out with everynode, until it is killed.
async fn until_killed(run: &mut Run<'_>, moment: Moment, manifest: Value) -> Result<()> {
    run.kill_controller();
    let _proxy = run.start_until(moment.at, moment.then, &[]).await?;
    run.apply(manifest).await?;
    run.controller_ends().await?;
    run.wait("it was killed at that moment", moment.seen).await
}

fn one_is_updated(state: &State) -> bool {
    updated_count(state) == 1 && !is_changing(state)
}

async fn killed(run: &mut Run<'_>, moment: Moment) -> Result<()> {
    let cpu = |amount| if moment.resizes { amount } else { "10m" };
    run.starts(next("1", "10m")).await?;
    let before = pods(run);
    until_killed(run, moment, next("2", cpu("20m"))).await?;
    run.start_controller(Controller::Everynode, &[])?;
    run.within(60, "it starts again, and all updated", is_over).await?;
    ensure!(pods(run) == before, "pods were replaced");
    ensure!(run.record.look(|state| (1..=3).all(|it| state.restarts_on(it) == 1)), "restarts");
    run.note("the same pods, and one restart of one container each");

    until_killed(run, moment, next("3", cpu("30m"))).await?;
    run.start_controller(Controller::BuiltIn, &[])?;
    run.within(90, "the other one takes over, and all updated", is_over).await?;
    returns(run).await?;

    until_killed(run, moment, next("1", cpu("10m"))).await?;
    run.start_controller(Controller::BuiltIn, &[])?;
    run.pass(3).await;
    let some = run.record.look(updated_count);
    run.kill_controller();
    run.start_controller(Controller::Everynode, &[])?;
    run.within(60, &format!("it is back after 3 s, when {some} are, and all updated"), is_over)
        .await?;
    run.wait("it says so", progressing("Complete")).await
}

/// everynode follows the built-in controller, and no pod is touched.
async fn returns(run: &mut Run<'_>) -> Result<()> {
    let before = pods(run);
    run.kill_controller();
    run.start_controller(Controller::Everynode, &[])?;
    run.wait("it says that it is done", progressing("Complete")).await?;
    run.pass(5).await;
    ensure!(pods(run) == before, "pods were replaced");
    run.note("back, every pod is the same");
    Ok(())
}

/// G56: the resize is sent by whoever comes next
#[tokio::test(flavor = "multi_thread")]
async fn before_the_resize() -> Result<()> {
    let moment =
        Moment { at: 3, then: RequestOutcome::Refused(503), seen: is_changing, resizes: true };
    let does = "everynode is killed when a pod's image is changed and its CPU is not";
    story_of_everynode(does, async |run| killed(run, moment).await).await
}

/// G56: nothing is sent twice
#[tokio::test(flavor = "multi_thread")]
async fn after_the_resize() -> Result<()> {
    let moment =
        Moment { at: 3, then: RequestOutcome::Unanswered, seen: is_changing, resizes: true };
    let does = "everynode is killed when a pod's image and CPU are changed";
    story_of_everynode(does, async |run| killed(run, moment).await).await
}

/// G56: the change is finished
#[tokio::test(flavor = "multi_thread")]
async fn while_a_container_restarts() -> Result<()> {
    let moment =
        Moment { at: 1, then: RequestOutcome::Unanswered, seen: is_changing, resizes: false };
    let does = "everynode is killed when a container stops for another image";
    story_of_everynode(does, async |run| killed(run, moment).await).await
}

/// G56: the pod gets its label
#[tokio::test(flavor = "multi_thread")]
async fn before_the_label() -> Result<()> {
    let moment =
        Moment { at: 2, then: RequestOutcome::Refused(503), seen: is_changing, resizes: false };
    let does = "everynode is killed when the container runs anew, before the pod's label";
    story_of_everynode(does, async |run| killed(run, moment).await).await
}

/// G56: a changed pod stays, whichever controller is there
#[tokio::test(flavor = "multi_thread")]
async fn after_the_label() -> Result<()> {
    let moment =
        Moment { at: 2, then: RequestOutcome::Unanswered, seen: one_is_updated, resizes: false };
    let does = "everynode is killed when a pod has its new label";
    story_of_everynode(does, async |run| killed(run, moment).await).await
}

/// Every node has an available pod of this image.
fn has(tag: &'static str) -> impl Fn(&State) -> bool {
    move |state| is_over(state) && state.agents().all(|pod| image_of(pod) == image(tag))
}

/// G56: what the built-in controller takes to be a pod of the former revision
#[tokio::test(flavor = "multi_thread")]
async fn to_the_former_template() -> Result<()> {
    let does = "everynode is killed when a container stops for another image; the former template \
                is put back, under the built-in controller";
    story_of_everynode(does, async |run| {
        run.starts(next("1", "10m")).await?;
        let moment =
            Moment { at: 1, then: RequestOutcome::Unanswered, seen: is_changing, resizes: false };
        until_killed(run, moment, next("2", "10m")).await?;
        run.start_controller(Controller::BuiltIn, &[])?;
        run.apply(next("1", "10m")).await?;
        run.pass(8).await;
        let half = run.record.look(is_changing);
        run.note(format!("the half changed pod {}", if half { "stays" } else { "is replaced" }));
        run.kill_controller();
        run.start_controller(Controller::Everynode, &[])?;
        run.within(60, "it is back, and every node has the former version", has("1")).await?;
        run.wait("it says so", progressing("Complete")).await
    })
    .await
}

/// G56: a pod whose resources wait for room
#[tokio::test(flavor = "multi_thread")]
async fn of_a_deferred_resize() -> Result<()> {
    let does = "everynode is killed when a pod waits for room for its CPU; the other one takes \
                over, then there is room, and everynode is back";
    story_of_everynode(does, async |run| {
        run.starts(next("1", "10m")).await?;
        run.fill(2, "1500m").await?;
        let moment =
            Moment { at: 3, then: RequestOutcome::Unanswered, seen: is_changing, resizes: true };
        until_killed(run, moment, next("2", "800m")).await?;
        run.wait("the resize waits", resize_pending(2, "Deferred")).await?;
        run.start_controller(Controller::Everynode, &[])?;
        run.stays(8, "no other node is updated", |state| updated_count(state) <= 1).await?;
        run.kill_controller();
        run.start_controller(Controller::BuiltIn, &[])?;
        run.pass(8).await;
        run.kill_controller();
        run.start_controller(Controller::Everynode, &[])?;
        run.pass(5).await;
        run.empties(2).await?;
        run.within(90, "there is room, and all updated", is_over).await?;
        run.wait("it says so", progressing("Complete")).await
    })
    .await
}

/// G20, G56: beside the built-in controller, which replaces no pod by itself
#[tokio::test(flavor = "multi_thread")]
async fn beside() -> Result<()> {
    let does = "beside the built-in controller (OnDelete), everynode is killed before the resize, \
                and before the pod's label; then it starts again";
    story_of_everynode(does, async |run| {
        run.kill_controller();
        let _built_in = run.another_controller(Controller::BuiltIn, &[])?;
        let of = |tag: &str, cpu: &str| with(next(tag, cpu), strategy("OnDelete"));
        run.starts(of("1", "10m")).await?;
        let before = pods(run);
        for (at, tag, cpu) in [(3, "2", "20m"), (4, "3", "30m")] {
            let refused = RequestOutcome::Refused(503);
            let proxy = run.start_until(at, refused, &["--beside"]).await?;
            run.apply(of(tag, cpu)).await?;
            run.controller_ends().await?;
            drop(proxy);
            run.wait("a pod is half changed", is_changing).await?;
            run.stays(5, "it stays so", is_changing).await?;
            run.start_controller(Controller::Everynode, &["--beside"])?;
            run.within(60, "all updated", is_over).await?;
            run.kill_controller();
        }
        ensure!(pods(run) == before, "pods were replaced");
        run.note("the same pods");
        Ok(())
    })
    .await
}

/// G11, G56: the pod that is changed back has the label of the target
#[tokio::test(flavor = "multi_thread")]
async fn while_going_back() -> Result<()> {
    let does = "the rollout is aborted in its bake, and everynode killed when the canary's \
                container stops for the former image; the other one takes over for 10 s";
    story_of_everynode(does, async |run| {
        run.ends_as_it_is();
        let of = |tag: &str| next(tag, "10m").policy(&POLICY.replace("bake: 2s", "bake: 60s"));
        run.starts(of("1")).await?;
        run.kill_controller();
        let proxy = run.start_until(3, RequestOutcome::Unanswered, &[]).await?;
        run.apply(of("2")).await?;
        run.wait("the canary bakes", one_is_updated).await?;
        run.everynode(&["rollout", "abort"]).await?;
        run.controller_ends().await?;
        drop(proxy);
        run.wait("the canary is half changed", is_changing).await?;
        run.start_controller(Controller::BuiltIn, &[])?;
        run.pass(10).await;
        let former = run
            .record
            .look(|state| state.agents().filter(|pod| image_of(pod) == image("1")).count());
        run.note(format!("then {former} of 3 nodes have the former version"));
        run.kill_controller();
        run.start_controller(Controller::Everynode, &[])?;
        run.within(60, "it is back, and every node has the former version", |state| {
            let former = image("1");
            ready(3)(state)
                && !is_changing(state)
                && state.agents().all(|it| image_of(it) == former)
        })
        .await?;
        run.wait("it says so", progressing("Failed")).await
    })
    .await
}
