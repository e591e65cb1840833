//! Pods that are changed in place (G56), and images that are pulled before (G55): nodes without
//! room or disk, and images that cannot be pulled. node-2 is the canary, which bakes for 2 s.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::manifest::{Change, agent, image};
use super::super::state::{
    State, all_nodes_updated, event, is_changing, node_ready, progressing, ready, resize_pending,
    updated,
};
use super::super::story::{Run, story_of_everynode};
use crate::world::guard::image_of;
use crate::world::pod::uid;

const STEPS: &str = "\
    steps: [{name: canary, nodes: {matchLabels: {kubernetes.io/hostname: node-2}}, bake: 2s}]\n\
    maxUnavailable: 1\n";
const FAILURE: &str = "failure: {maxNodes: 0, readyWithin: 30s, rollbackAfter: 0s}\n";

fn in_place(more: &str) -> Value {
    agent().policy(&format!("update: InPlaceIfPossible\n{STEPS}{more}"))
}

fn requests(cpu: &str) -> Value {
    json!({ "resources": { "requests": { "cpu": cpu, "memory": "16Mi" } } })
}

/// All nodes have the template's version, and no pod is half changed.
fn is_over(state: &State) -> bool {
    all_nodes_updated(state) && !is_changing(state)
}

/// The pods of the nodes, in order.
fn pods(run: &Run<'_>) -> [String; 3] {
    run.record.look(|state| [1, 2, 3].map(|it| state.pod_on(it).map(uid).unwrap_or_default()))
}

/// Says how many of the pods are the same as before.
fn note_same(run: &mut Run<'_>, before: &[String; 3]) -> usize {
    let same = pods(run).iter().zip(before).filter(|(now, before)| now == before).count();
    run.note(format!("{same} of 3 pods are the same"));
    same
}

/// Every node has an available pod of image 1, and no pod is half changed.
fn all_are_back(state: &State) -> bool {
    let first = image("1");
    ready(3)(state) && !is_changing(state) && state.agents().all(|it| image_of(it) == first)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_and_resources() -> Result<()> {
    story_of_everynode("another image, and more CPU and memory", async |run| {
        run.starts(in_place("")).await?;
        let before = pods(run);
        let more = json!({ "resources": { "requests": { "cpu": "50m", "memory": "32Mi" } } });
        run.apply(in_place("").image("2").container(more)).await?;
        run.within(60, "all updated", is_over).await?;
        ensure!(note_same(run, &before) == 3, "pods were replaced");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guaranteed_pod() -> Result<()> {
    story_of_everynode("more CPU and memory of Guaranteed pods; then as Burstable", async |run| {
        let of = |limit: &str, request: &str| {
            let amounts = |cpu: &str| json!({ "cpu": cpu, "memory": "32Mi" });
            let resources = json!({ "limits": amounts(limit), "requests": amounts(request) });
            in_place("").container(json!({ "resources": resources }))
        };
        run.starts(of("50m", "50m")).await?;
        let before = pods(run);
        run.apply(of("100m", "100m")).await?;
        run.within(60, "all updated", is_over).await?;
        ensure!(note_same(run, &before) == 3, "pods were replaced");
        let restarts: i32 = run.record.look(|state| (1..=3).map(|it| state.restarts_on(it)).sum());
        run.note(format!("{restarts} restarts"));
        run.apply(of("100m", "80m")).await?;
        run.within(60, "as Burstable all updated", is_over).await?;
        ensure!(note_same(run, &before) == 0, "a pod cannot get another class");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_that_is_refused() -> Result<()> {
    story_of_everynode(
        "InPlaceOnly: another image, and more CPU than a node has; then a fix",
        async |run| {
            let only = agent().policy(&format!("update: InPlaceOnly\n{STEPS}{FAILURE}"));
            run.starts(only.clone()).await?;
            let before = pods(run);
            run.apply(only.clone().image("2").container(requests("64"))).await?;
            run.within(60, "it fails", progressing("Failed")).await?;
            run.told("have enough allocatable resources: cpu", progressing("Failed")).await?;
            ensure!(note_same(run, &before) == 3, "pods were replaced");
            run.apply(only.image("3")).await?;
            run.within(60, "a fix updated all", is_over).await?;
            ensure!(note_same(run, &before) == 3, "pods were replaced");
            Ok(())
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_that_is_refused_and_a_pod_that_is_replaced() -> Result<()> {
    story_of_everynode(
        "InPlaceIfPossible: more CPU than a node has; the new pod fits nowhere; then a fix",
        async |run| {
            run.starts(in_place(FAILURE)).await?;
            run.apply(in_place(FAILURE).container(requests("64"))).await?;
            let words = "enough allocatable resources";
            run.within(30, "an event says so", event("PodNotChangedInPlace", words)).await?;
            run.stays(10, "two nodes keep their pods", |state| {
                [1, 3].iter().all(|it| state.pod_on(*it).is_some_and(|pod| state.is_available(pod)))
            })
            .await?;
            run.within(60, "it fails", progressing("RollingBack")).await?;
            run.within(60, "every node has the old version", all_are_back).await?;
            run.apply(in_place(FAILURE).image("2")).await?;
            run.within(90, "a fix updated all", is_over).await
        },
    )
    .await
}

/// Restarts the kubelet of a node with another policy for its CPUs.
async fn cpu_manager(run: &mut Run<'_>, number: usize, lines: &str) -> Result<()> {
    run.node("kill-kubelet", number).await?;
    let script = format!(
        "sed -i /cpuManagerPolicy/d\\;/reservedSystemCPUs/d /etc/kubernetes/kubelet.yaml; \
         printf '{lines}' >> /etc/kubernetes/kubelet.yaml; rm -f /var/lib/kubelet/cpu_manager_state"
    );
    run.inside(number, &script).await?;
    run.node("start-kubelet", number).await?;
    run.pass(4).await;
    run.wait("the node is ready", node_ready(number, "True")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_that_is_infeasible() -> Result<()> {
    story_of_everynode(
        "more CPU of Guaranteed pods, where node-2 has static CPUs; then the same with InPlaceOnly",
        async |run| {
            let of = |method: &str, cpu: &str| {
                let amounts = json!({ "cpu": cpu, "memory": "32Mi" });
                let resources = json!({ "limits": amounts, "requests": amounts });
                agent()
                    .policy(&format!("update: {method}\n{STEPS}{FAILURE}"))
                    .container(json!({ "resources": resources }))
            };
            let lines = "cpuManagerPolicy: static\\nreservedSystemCPUs: \"0\"\\n";
            cpu_manager(run, 2, lines).await?;
            run.starts(of("InPlaceIfPossible", "50m")).await?;
            let before = pods(run);
            run.apply(of("InPlaceIfPossible", "60m")).await?;
            run.within(60, "all updated", is_over).await?;
            note_same(run, &before);
            let before = pods(run);
            run.apply(of("InPlaceOnly", "70m")).await?;
            run.within(60, "with InPlaceOnly it fails", progressing("RollingBack")).await?;
            run.within(60, "all are back", progressing("Failed")).await?;
            run.wait("nothing is half changed", |state| ready(3)(state) && !is_changing(state))
                .await?;
            note_same(run, &before);
            run.told("can never have the resources", progressing("Failed")).await?;
            run.apply(of("InPlaceIfPossible", "60m")).await?;
            run.wait("it is over", is_over).await?;
            cpu_manager(run, 2, "").await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_that_waits_for_room() -> Result<()> {
    story_of_everynode("more CPU than node-2 has left; 8 s later there is room", async |run| {
        run.starts(in_place("")).await?;
        let before = pods(run);
        run.fill(2, "1500m").await?;
        run.apply(in_place("").container(requests("800m"))).await?;
        run.wait("the resize waits", resize_pending(2, "Deferred")).await?;
        run.told("node-2", is_changing).await?;
        run.pass(8).await;
        run.empties(2).await?;
        run.within(90, "there is room, and all updated", is_over).await?;
        ensure!(note_same(run, &before) == 3, "pods were replaced");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_without_room() -> Result<()> {
    story_of_everynode(
        "resizeWithin 5 s: more CPU than node-2 has left; 20 s later there is room",
        async |run| {
            let manifest = in_place("resizeWithin: 5s\n");
            run.starts(manifest.clone()).await?;
            let before = pods(run);
            run.fill(2, "1500m").await?;
            run.apply(manifest.container(requests("800m"))).await?;
            run.within(30, "an event says so", event("PodNotChangedInPlace", "no room")).await?;
            run.pass(15).await;
            run.empties(2).await?;
            run.within(90, "there is room, and all updated", is_over).await?;
            note_same(run, &before);
            Ok(())
        },
    )
    .await
}

/// The image is on each node by its digest, as one that was pulled so.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_by_digest() -> Result<()> {
    story_of_everynode("images by digest: one that nodes have, one that nobody has", async |run| {
        run.ends_as_it_is();
        let images = "prepare: {images: {}}\nfailure: {maxNodes: 0, rollbackAfter: 0s}\n";
        run.starts(in_place(images)).await?;
        let before = pods(run);
        let script = "ctr -n k8s.io images ls | grep agent:2 | grep -o sha256:[0-9a-f]*";
        let digest = run.inside(1, script).await?;
        let name = format!("everynode.test/agent@{}", digest.trim());
        for number in 1..=3 {
            let script = format!("ctr -n k8s.io images tag everynode.test/agent:2 {name}");
            run.inside(number, &script).await?;
        }
        run.apply(in_place(images).container(json!({ "image": name }))).await?;
        run.within(60, "all updated", is_over).await?;
        ensure!(note_same(run, &before) == 3, "pods were replaced");
        let nobody = format!("everynode.test/agent@sha256:{}", "0".repeat(64));
        run.apply(in_place(images).container(json!({ "image": nobody }))).await?;
        run.within(150, "it fails", progressing("Failed")).await?;
        ensure!(note_same(run, &before) == 3, "pods were replaced");
        let all = run.record.look(ready(3));
        ensure!(all, "an agent was stopped");
        run.note("no agent was stopped");
        Ok(())
    })
    .await
}

/// Lets the node's own registry at port 5000 want a password.
const REGISTRY: &str = "mkdir -p /root/registry && echo '/:user:pass' > /root/httpd.conf && \
                        busybox httpd -p 127.0.0.1:5000 -h /root/registry -c /root/httpd.conf";

#[tokio::test(flavor = "multi_thread")]
async fn a_private_image_without_a_secret() -> Result<()> {
    story_of_everynode("a private image without a secret", async |run| {
        run.ends_as_it_is();
        let failure = "failure: {maxNodes: 0, rollbackAfter: 0s}\n";
        let warm = format!("prepare: {{images: {{}}}}\n{failure}");
        for number in 1..=3 {
            run.inside(number, REGISTRY).await?;
        }
        let private = json!({ "image": "localhost:5000/private:1" });
        run.starts(in_place(&warm)).await?;
        let before = pods(run);
        run.apply(in_place(&warm).container(private.clone())).await?;
        run.told("pulls the new images first: ", event("Failed", "pull access denied")).await?;
        run.within(150, "pulled before, it fails", progressing("Failed")).await?;
        ensure!(run.record.look(ready(3)), "an agent was stopped");
        note_same(run, &before);
        run.apply(in_place(failure)).await?;
        run.wait("it is back", is_over).await?;
        // Another template: this one has failed.
        run.apply(in_place(failure).container(requests("11m")).container(private)).await?;
        run.within(150, "not pulled before, it fails", progressing("RollingBack")).await?;
        run.within(60, "every node has the old version", all_are_back).await?;
        note_same(run, &before);
        Ok(())
    })
    .await
}

/// Serves image 2 at port 5000 of the node, by two indexes that say for which architectures it is:
/// the tag `other.index` is for arm64, `both.index` for amd64 as well.
const INDEXES: &str = r#"
    mkdir -p /root/registry/v2/agent/manifests && cd /root/registry/v2/agent
    ctr -n k8s.io images export /root/agent.tar everynode.test/agent:2 && tar -xf /root/agent.tar
    mv blobs/sha256 sha256 && mkdir -p blobs
    for blob in sha256/*; do
      cp $blob blobs/sha256:${blob#*/}
      cp $blob manifests/sha256:${blob#*/}
    done
    type=application/vnd.oci.image
    own=$(grep -o '"digest":"sha256:[0-9a-f]*","size":[0-9]*' index.json)
    of() {
      platform="\"platform\":{\"os\":\"linux\",\"architecture\":\"$1\"}"
      echo "{\"mediaType\":\"$type.manifest.v1+json\",$own,$platform}"
    }
    index() {
      echo "{\"schemaVersion\":2,\"mediaType\":\"$type.index.v1+json\",\"manifests\":[$2]}" > $1
      cp $1 sha256:$(sha256sum < $1 | cut -d' ' -f1)
    }
    cd manifests
    index other.index "$(of arm64)"
    index both.index "$(of arm64),$(of amd64)"
    echo ".index:$type.index.v1+json" > /root/httpd.conf
    busybox httpd -p 127.0.0.1:5000 -h /root/registry -c /root/httpd.conf"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_image_for_another_architecture() -> Result<()> {
    story_of_everynode("an image that is for arm64; then one for arm64 and amd64", async |run| {
        let warm = in_place(&format!("prepare: {{images: {{}}}}\n{FAILURE}"));
        let with = |tag| {
            warm.clone().container(json!({ "image": format!("localhost:5000/agent:{tag}.index") }))
        };
        for number in 1..=3 {
            run.inside(number, INDEXES).await?;
        }
        run.starts(warm.clone()).await?;
        let before = pods(run);
        run.apply(with("other")).await?;
        let why = "no match for platform in manifest";
        run.told("pulls the new images first: ", event("Failed", why)).await?;
        run.within(150, "it fails", progressing("Failed")).await?;
        run.told(why, progressing("Failed")).await?;
        ensure!(run.everynode(&["rollout", "get"]).await?.contains(why), "nobody says why");
        let is_stopped = !run.record.look(ready(3));
        ensure!(note_same(run, &before) == 3 && !is_stopped, "an agent was stopped");
        run.apply(with("both")).await?;
        run.within(60, "for both, all updated", is_over).await?;
        ensure!(note_same(run, &before) == 3, "pods were replaced");
        Ok(())
    })
    .await
}

/// Takes the image from the disk of a node, as one that it has not pulled yet.
const FORGET: &str = "ctr -n k8s.io images export /root/agent.tar everynode.test/agent:2 && \
                      ctr -n k8s.io images rm --sync everynode.test/agent:2";
const FILL: &str = "fallocate -l 900M /var/lib/kubelet/fill";
const EMPTY: &str = "rm -f /var/lib/kubelet/fill";

fn has_pressure(number: usize, status: &'static str) -> impl Fn(&State) -> bool {
    move |state| {
        let node = state.nodes.get(&super::super::fixture::node(number));
        let status_of = node.and_then(|node| node.status.as_ref());
        let mut conditions = status_of.and_then(|it| it.conditions.as_ref()).into_iter().flatten();
        conditions.any(|it| it.type_ == "DiskPressure" && it.status == status)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_while_images_are_pulled() -> Result<()> {
    story_of_everynode(
        "node-3 has no image 2, and its disk fills up when it is to pull it; then there is space, \
         and the image",
        async |run| {
            run.ends_as_it_is();
            let policy = format!("prepare: {{images: {{within: 2m}}}}\n{FAILURE}");
            run.starts(in_place(&policy)).await?;
            run.inside(3, FORGET).await?;
            run.node("kill-kubelet", 3).await?;
            run.node("start-kubelet", 3).await?;
            run.pass(5).await;
            run.wait("node-3 is ready", node_ready(3, "True")).await?;
            run.apply(in_place(&policy).image("2")).await?;
            run.wait("its puller is there", |state| {
                state.pods.values().any(|pod| {
                    pod.metadata
                        .labels
                        .as_ref()
                        .is_some_and(|labels| labels.contains_key("everynode.dev/pulls-images-for"))
                })
            })
            .await?;
            run.inside(3, FILL).await?;
            run.within(60, "its disk is full", has_pressure(3, "True")).await?;
            run.reaches(40, "the other two updated", updated(&[1, 2])).await;
            run.inside(
                3,
                &format!("{EMPTY}; ctr -n k8s.io images import --no-unpack /root/agent.tar"),
            )
            .await?;
            run.within(150, "there is space, and all updated", is_over).await?;
            let all = run.record.count(|_| true);
            run.note(format!("{all} pods in all"));
            Ok(())
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_while_a_pod_is_changed() -> Result<()> {
    story_of_everynode(
        "the disk of node-2 fills up while its pod is changed; 20 s later there is space",
        async |run| {
            run.ends_as_it_is();
            run.others_delete_pods();
            let slow = in_place(FAILURE).env(&[("STOP_AFTER", "4")]);
            run.starts(slow.clone()).await?;
            run.apply(slow.image("2")).await?;
            run.wait("it is being changed", is_changing).await?;
            run.inside(2, FILL).await?;
            run.within(60, "its disk is full", has_pressure(2, "True")).await?;
            run.pass(20).await;
            run.inside(2, EMPTY).await?;
            run.within(150, "there is space, and all updated", is_over).await?;
            let all = run.record.count(|_| true);
            run.note(format!("{all} pods in all"));
            Ok(())
        },
    )
    .await
}
