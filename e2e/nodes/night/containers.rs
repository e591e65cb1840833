//! Containers that fail: probes, hooks, init containers, sidecars, programs and what they need.
//! Each story rolls out a broken version, sees what people are told, and rolls out a fix.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::manifest::{Change, agent};
use super::super::state::{
    State, all_updated, backs_off, event, exited, first_running, is_refused, phase, ready,
    updated_count, waiting,
};
use super::super::story::{Run, story};
use crate::world::pod::name_of;

/// Rolls out the broken version over the good one, checks what is told, and that the rollout stops
/// there; then rolls out the good one with another image.
async fn breaks(
    run: &mut Run<'_>,
    broken: Value,
    cause: &str,
    known: impl Fn(&State) -> bool,
) -> Result<()> {
    run.starts(agent()).await?;
    run.apply(broken).await?;
    run.told(cause, known).await?;
    run.stays(12, "two nodes keep their pods", |state| updated_count(state) == 0).await?;
    run.apply(agent().image("3")).await?;
    run.within(60, "a fix updated all", all_updated).await
}

/// True if a pod of this image runs and is not ready.
fn a_new_one_runs(tag: &str) -> impl Fn(&State) -> bool {
    move |state| first_running(state, tag).is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_readiness_probe_fails() -> Result<()> {
    story("the readiness probe asks for a page that does not exist", async |run| {
        let probe = json!({ "readinessProbe": { "httpGet": { "path": "/nope" } } });
        let broken = agent().image("2").container(probe);
        breaks(run, broken, "Readiness probe failed", event("Unhealthy", "Readiness")).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_liveness_probe_fails() -> Result<()> {
    story("the liveness probe asks for a page that does not exist", async |run| {
        let probe = json!({ "periodSeconds": 1, "httpGet": { "path": "/nope" } });
        let broken = agent().image("2").container(json!({ "livenessProbe": probe }));
        run.starts(agent()).await?;
        run.apply(broken).await?;
        run.told("Liveness probe failed", event("Killing", "failed liveness probe")).await?;
        run.pass(20).await;
        run.apply(agent().image("3")).await?;
        run.within(60, "a fix updated all", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_liveness_probe_fails_once() -> Result<()> {
    story(
        "on one node the liveness probe fails, and the kubelet restarts the container",
        async |run| {
            run.starts(agent()).await?;
            let pod = run.record.look(|state| state.pod_on(1).map(name_of).unwrap_or_default());
            run.kubectl(&["exec", &pod, "--", "rm", "/www/alive"]).await?;
            run.within(60, "restarted", |state| state.restarts_on(1) == 1).await?;
            run.within(60, "ready again", ready(3)).await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_readiness_probe_flaps() -> Result<()> {
    story(
        "the new version is ready for 2 s, then not for 2 s, and so on; minReadySeconds 5",
        async |run| {
            let once = json!({ "readinessProbe": { "failureThreshold": 1 } });
            run.starts(agent().spec(json!({ "minReadySeconds": 5 })).container(once)).await?;
            let script = "(while :; do sleep 2; rm -f /www/ready; sleep 2; touch /www/ready; done) \
                          & exec /bin/agent";
            let flapping = run.manifest.clone().image("2").script(script);
            run.apply(flapping).await?;
            run.pass(5).await;
            run.stays(20, "the other nodes keep their pods", |state| updated_count(state) == 0)
                .await?;
            run.told("(agent)", |state| first_running(state, "2").is_some() && !ready(3)(state))
                .await?;
            run.apply(agent().image("3")).await?;
            run.within(60, "a fix updated all", all_updated).await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_startup_probe_never_succeeds() -> Result<()> {
    story("a startup probe fails for 5 s, then the kubelet kills the container", async |run| {
        let probe = json!({ "httpGet": { "path": "/nope", "port": 8080 }, "periodSeconds": 1,
            "failureThreshold": 5 });
        let broken = agent().image("2").container(json!({ "startupProbe": probe }));
        breaks(run, broken, "Startup probe failed", event("Unhealthy", "Startup")).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_startup_probe_takes_its_time() -> Result<()> {
    story(
        "a startup probe succeeds after 10 s, which a liveness probe would not have waited for",
        async |run| {
            let probe = json!({ "httpGet": { "path": "/ready", "port": 8080 }, "periodSeconds": 1,
                "failureThreshold": 30 });
            run.starts(agent()).await?;
            let slow = agent().image("2").env(&[("READY_AFTER", "10")]);
            run.apply(slow.container(json!({ "startupProbe": probe }))).await?;
            run.told("running, not ready (agent)", a_new_one_runs("2")).await?;
            run.within(120, "all updated", all_updated).await
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_start_hook_fails() -> Result<()> {
    story("postStart exits with 3", async |run| {
        let hook = json!({ "exec": { "command": ["sh", "-c", "echo broken; exit 3"] } });
        let broken = agent().image("2").container(json!({ "lifecycle": { "postStart": hook } }));
        breaks(run, broken, "FailedPostStartHook", event("FailedPostStartHook", "")).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_start_hook_hangs() -> Result<()> {
    story("postStart takes 15 s, in which the container counts as not running", async |run| {
        let hook = json!({ "exec": { "command": ["sleep", "15"] } });
        run.starts(agent()).await?;
        run.apply(agent().image("2").container(json!({ "lifecycle": { "postStart": hook } })))
            .await?;
        run.told("ContainerCreating", waiting("ContainerCreating")).await?;
        run.within(120, "all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_container_fails() -> Result<()> {
    story("an init container exits with 7", async |run| {
        let init = json!({ "name": "setup", "command": ["sh", "-c", "exit 7"] });
        breaks(run, agent().image("2").init(init), "container setup", exited(7)).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_container_fails_twice_and_then_succeeds() -> Result<()> {
    story("an init container exits with 1 on its first two attempts", async |run| {
        let script = "[ -e /v/2 ] && exit 0; [ -e /v/1 ] && touch /v/2; touch /v/1; exit 1";
        let init = json!({ "name": "setup", "command": ["sh", "-c", script],
            "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
        let volume = json!({ "volumes": [{ "name": "v", "emptyDir": {} }] });
        run.starts(agent()).await?;
        run.apply(agent().image("2").pod(volume).init(init)).await?;
        run.told("container setup", exited(1)).await?;
        run.within(180, "all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_container_never_ends() -> Result<()> {
    story("an init container sleeps for an hour", async |run| {
        let init = json!({ "name": "setup", "command": ["sleep", "3600"] });
        breaks(run, agent().image("2").init(init), "PodInitializing", waiting("PodInitializing"))
            .await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_init_container_fails() -> Result<()> {
    story("of two init containers the second one exits with 9", async |run| {
        let first = json!({ "name": "first", "command": ["true"] });
        let second = json!({ "name": "second", "command": ["sh", "-c", "exit 9"] });
        let broken = agent().image("2").init(first).init(second);
        breaks(run, broken, "container second", exited(9)).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_container_has_no_image() -> Result<()> {
    story("the image of an init container does not exist", async |run| {
        let init = json!({ "name": "setup", "image": "everynode.test/agent:nowhere" });
        breaks(run, agent().image("2").init(init), "of container setup", |state| {
            waiting("ErrImagePull")(state) || waiting("ImagePullBackOff")(state)
        })
        .await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar() -> Result<()> {
    story("an init container that restarts always (a sidecar) is added", async |run| {
        let sidecar = json!({ "name": "proxy", "restartPolicy": "Always",
            "env": [{ "name": "PORT", "value": "8081" }] });
        run.starts(agent()).await?;
        run.apply(agent().image("2").init(sidecar)).await?;
        run.within(90, "all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_crashes() -> Result<()> {
    story("a sidecar exits with 1 again and again", async |run| {
        let sidecar = json!({ "name": "proxy", "restartPolicy": "Always",
            "image": "everynode.test/agent:crash",
            "env": [{ "name": "PORT", "value": "8081" }],
            "readinessProbe": { "exec": { "command": ["false"] }, "periodSeconds": 1 } });
        breaks(run, agent().image("2").init(sidecar), "container proxy", exited(1)).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_never_starts_up() -> Result<()> {
    story("a sidecar's startup probe fails, so that the agent is never started", async |run| {
        let probe = json!({ "exec": { "command": ["false"] }, "periodSeconds": 1,
            "failureThreshold": 300 });
        let sidecar = json!({ "name": "proxy", "restartPolicy": "Always", "startupProbe": probe });
        breaks(run, agent().image("2").init(sidecar), "Startup probe failed", |state| {
            event("Unhealthy", "Startup")(state)
        })
        .await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_ends_slowly() -> Result<()> {
    story("a sidecar takes 4 s to end, after the agent; grace period 20 s", async |run| {
        let sidecar = json!({ "name": "proxy", "restartPolicy": "Always", "env": [
            { "name": "PORT", "value": "8081" }, { "name": "STOP_AFTER", "value": "4" }] });
        let manifest = agent().init(sidecar);
        run.starts(manifest.pod(json!({ "terminationGracePeriodSeconds": 20 }))).await?;
        run.image("2").await?;
        run.within(120, "all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_containers_crashes() -> Result<()> {
    story("a second container exits with 1 again and again", async |run| {
        let mut broken = agent().image("2");
        let second = json!({ "name": "helper", "image": "everynode.test/agent:crash",
            "env": [{ "name": "PORT", "value": "8081" }] });
        let containers = broken["spec"]["template"]["spec"]["containers"].as_array_mut();
        containers.into_iter().for_each(|all| all.push(second.clone()));
        run.starts(agent()).await?;
        run.apply(broken).await?;
        run.told("container helper", exited(1)).await?;
        run.apply(agent().image("3")).await?;
        run.within(60, "a fix updated all", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_does_not_exist() -> Result<()> {
    story("the command does not exist in the image", async |run| {
        let broken = agent().image("2").container(json!({ "command": ["/no/such/program"] }));
        breaks(run, broken, "no such file or directory", |state| {
            exited(128)(state) || waiting("RunContainerError")(state)
        })
        .await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_ends_with_success() -> Result<()> {
    story("the program ends with 0 after 3 s, again and again", async |run| {
        let command = json!({ "command": ["sleep", "3"], "livenessProbe": null });
        breaks(run, agent().image("2").container(command), "exit code 0)", backs_off).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_needs_too_much_memory() -> Result<()> {
    story("the program exceeds its memory limit", async |run| {
        let limit = json!({ "resources": { "limits": { "memory": "24Mi" } },
            "livenessProbe": null });
        let broken = agent().image("2").script("sleep 1; exec tail /dev/zero").container(limit);
        breaks(run, broken, "exit code 137)", exited(137)).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_missing() -> Result<()> {
    story("a ConfigMap for the environment is missing, and created 12 s later", async |run| {
        let from = json!({ "envFrom": [{ "configMapRef": { "name": "settings" } }] });
        run.starts(agent()).await?;
        run.apply(agent().image("2").container(from)).await?;
        run.told("configmap \"settings\" not found", waiting("CreateContainerConfigError")).await?;
        run.stays(12, "two nodes keep their pods", |state| updated_count(state) == 0).await?;
        run.kubectl(&["create", "configmap", "settings"]).await?;
        run.within(120, "it is created, and all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_missing() -> Result<()> {
    story("a ConfigMap for a volume is missing, and created 12 s later", async |run| {
        let volume = json!({ "volumes": [{ "name": "v", "configMap": { "name": "files" } }] });
        let mount = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
        run.starts(agent()).await?;
        run.apply(agent().image("2").pod(volume).container(mount)).await?;
        run.told("configmap \"files\" not found", event("FailedMount", "not found")).await?;
        run.stays(12, "two nodes keep their pods", |state| updated_count(state) == 0).await?;
        run.kubectl(&["create", "configmap", "files"]).await?;
        run.within(180, "it is created, and all updated", all_updated).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_path_is_missing() -> Result<()> {
    story("a directory of the host does not exist", async |run| {
        let path = json!({ "path": "/nope", "type": "Directory" });
        let volume = json!({ "volumes": [{ "name": "v", "hostPath": path }] });
        let mount = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
        let broken = agent().image("2").pod(volume).container(mount);
        breaks(run, broken, "/nope is not a directory", event("FailedMount", "/nope")).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_must_not_be_root() -> Result<()> {
    story("runAsNonRoot with an image whose user is root", async |run| {
        let context = json!({ "securityContext": { "runAsNonRoot": true } });
        let broken = agent().image("2").container(context);
        breaks(run, broken, "image will run as root", waiting("CreateContainerConfigError")).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_never_pulled() -> Result<()> {
    story("imagePullPolicy Never, and the node does not have the image", async |run| {
        let never = json!({ "imagePullPolicy": "Never" });
        let broken = agent().image("none").container(never);
        breaks(run, broken, "ErrImageNeverPull", waiting("ErrImageNeverPull")).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_has_no_valid_name() -> Result<()> {
    story("an image with an invalid name", async |run| {
        let broken = agent().image("UPPER@x");
        breaks(run, broken, "InvalidImageName", waiting("InvalidImageName")).await
    })
    .await
}

/// C24: each pod that the kubelet refuses is deleted, with a back-off
#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_refuses_a_pod() -> Result<()> {
    story("the kubelet refuses the pod (SysctlForbidden), for 20 s; then a fix", async |run| {
        let sysctl = json!({ "sysctls": [{ "name": "kernel.msgmax", "value": "65536" }] });
        run.starts(agent()).await?;
        run.apply(agent().image("2").pod(json!({ "securityContext": sysctl }))).await?;
        run.told("SysctlForbidden", phase("Failed", "SysctlForbidden")).await?;
        run.pass(20).await;
        let refused = run.record.count(is_refused);
        run.note(format!("{refused} pods were refused"));
        run.apply(agent().image("3")).await?;
        run.within(60, "a fix updated all", all_updated).await
    })
    .await
}
