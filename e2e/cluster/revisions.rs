//! Revisions: their serialized form, their repair after edits, and their limit.

use anyhow::{Result, ensure};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::observe::uids;
use crate::world::manifest::{IMAGE, daemon_set, with};
use crate::world::{World, eventually};

/// C40, C41: the data of a revision equals the output of Go's encoder, byte for byte
#[tokio::test]
async fn a_revision_equals_the_output_of_go() -> Result<()> {
    let world = World::cluster(1).await?;
    let odd =
        json!({"spec": {"template": {"metadata": {"annotations": {"odd": "<a> & \u{2028} é"}}}}});
    world.roll_out(&with(daemon_set("a"), odd)).await?;
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", world.namespace);
    let text = world.client.request_text(http::Request::get(path).body(Vec::new())?).await?;
    // A sandbox serves text unescaped; an API server before 1.34 adds empty creation timestamps.
    let text = [("\\u003c", "<"), ("\\u003e", ">"), ("\\u0026", "&"), ("\\u2028", "\u{2028}")]
        .iter()
        .fold(text, |text, (escaped, plain)| text.replace(escaped, plain))
        .replace("\"creationTimestamp\":null,", "");
    let expected = format!(
        "{{\"spec\":{{\"template\":{{\"$patch\":\"replace\",\"metadata\":{{\
         \"annotations\":{{\"odd\":\"<a> & {} é\"}},\
         \"labels\":{{\"app\":\"a\"}}}},\
         \"spec\":{{\"containers\":[{{\"image\":\"{IMAGE}\",\"imagePullPolicy\":\"IfNotPresent\",\
         \"name\":\"main\",\"resources\":{{}},\
         \"terminationMessagePath\":\"/dev/termination-log\",\
         \"terminationMessagePolicy\":\"File\"}}],\
         \"dnsPolicy\":\"ClusterFirst\",\"restartPolicy\":\"Always\",\
         \"schedulerName\":\"default-scheduler\",\
         \"securityContext\":{{}},\"terminationGracePeriodSeconds\":1}}}}}}}}",
        '\u{2028}'
    );
    ensure!(text.contains(&expected), "{text}\nlacks\n{expected}");
    Ok(())
}

/// C42, C46: an edited history is repaired: missing labels are restored, deleted revisions are
/// created again
#[tokio::test]
async fn an_edited_history_is_repaired() -> Result<()> {
    let world = World::cluster(2).await?;
    world.roll_out(&daemon_set("a")).await?;
    let before = uids(&world, "a").await?;
    let name = only_revision(&world).await?;
    let label = "controller-revision-hash";
    let unlabel = json!({"metadata": {"labels": {label: null}}});
    world.revisions().patch(&name, &PatchParams::default(), &Patch::Merge(unlabel)).await?;
    eventually("the label is back", async || {
        let revision = world.revisions().get(&name).await?;
        let labels = revision.metadata.labels.unwrap_or_default();
        ensure!(labels.get(label) == Some(&name), "labels are {labels:?}");
        Ok(())
    })
    .await?;
    let name = only_revision(&world).await?;
    world.revisions().delete(&name, &Default::default()).await?;
    eventually("the revision is made again", async || {
        only_revision(&world).await?;
        Ok(())
    })
    .await?;
    world.settled("a").await?;
    let after = uids(&world, "a").await?;
    ensure!(after.len() == before.len(), "{} pods became {}", before.len(), after.len());
    Ok(())
}

/// C44: the history is limited
#[tokio::test]
async fn history_is_limited() -> Result<()> {
    let world = World::cluster(1).await?;
    world.roll_out(&with(daemon_set("a"), json!({"spec": {"revisionHistoryLimit": 1}}))).await?;
    for round in 0..3 {
        let annotations = json!({"round": format!("{round}")});
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        world.patch_daemon_set("a", patch).await?;
        world.settled("a").await?;
    }
    eventually("two revisions are left", async || {
        let count = world.revisions().list(&ListParams::default()).await?.items.len();
        ensure!(count == 2, "{count} revisions");
        Ok(())
    })
    .await
}

/// C44: the revision of existing pods is kept, whatever the limit
#[tokio::test]
async fn the_revision_of_existing_pods_is_never_deleted() -> Result<()> {
    let world = World::cluster(1).await?;
    let spec = json!({"revisionHistoryLimit": 0, "updateStrategy": {"type": "OnDelete"}});
    world.roll_out(&with(daemon_set("a"), json!({"spec": spec}))).await?;
    let first = only_revision(&world).await?;
    for round in 1..4 {
        let annotations = json!({"round": format!("{round}")});
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        world.patch_daemon_set("a", patch).await?;
        eventually("the first and the current revision are left", async || {
            let revisions = world.revisions().list(&ListParams::default()).await?.items;
            let numbers: Vec<i64> = revisions.iter().map(|found| found.revision).collect();
            ensure!(numbers.len() == 2 && numbers.contains(&(round + 1)), "{numbers:?}");
            let mut names = revisions.into_iter().filter_map(|found| found.metadata.name);
            ensure!(names.any(|name| name == first), "the revision of the pods is gone");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

pub(crate) async fn only_revision(world: &World) -> Result<String> {
    let revisions = world.revisions().list(&ListParams::default()).await?.items;
    ensure!(revisions.len() == 1, "{} revisions", revisions.len());
    Ok(revisions[0].metadata.name.clone().unwrap_or_default())
}
