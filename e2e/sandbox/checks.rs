//! Checks of guarded rollouts: a query, a host that is not allowed, and a Job.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use serde_json::{Value, json};

use super::rights::{ACCOUNT, MANIFEST, NAMESPACE, apply, rights_in};
use super::separate_process::{bare, run};
use crate::world::guard::guarded;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch};
use crate::world::process::Process;
use crate::world::prometheus::Prometheus;
use crate::world::{World, eventually};

const CHECK_JOBS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/components/check-jobs/rbac.yaml");
const THIRD_IMAGE: &str = "registry.k8s.io/pause:3.8";

fn policy(prometheus: &Prometheus) -> String {
    let url = format!("http://{}", prometheus.address);
    let errors = json!({ "name": "errors", "interval": "1s", "failures": 2,
        "prometheus": { "url": url, "query": "sum(rate(errors[1m]))", "max": "0.5" } });
    let steps = json!([{ "name": "canary", "upTo": [1], "bake": "1s", "checks": ["errors"] }]);
    let failure = json!({ "rollbackAfter": "0s" });
    // The last wave has no checks.
    json!({ "steps": steps, "finally": {}, "failure": failure, "checks": [errors] }).to_string()
}

/// The message of the condition `Progressing`.
async fn message(world: &World) -> Result<String> {
    let status = world.daemon_sets().get("agent").await?.status.context("no status")?;
    let mut conditions = status.conditions.into_iter().flatten();
    let progressing = conditions.find(|condition| condition.type_ == "Progressing");
    Ok(progressing.and_then(|condition| condition.message).unwrap_or_default())
}

async fn states(world: &World, part: &str) -> Result<()> {
    eventually(&format!("the condition states {part:?}"), async || {
        let message = message(world).await?;
        ensure!(message.contains(part), "{message}");
        Ok(())
    })
    .await
}

async fn has_event(world: &World, reason: &str, part: &str) -> Result<()> {
    eventually(&format!("an event {reason}"), async || {
        let events = world.kubectl(&["get", "events"]).await?;
        let is_it = |line: &&str| line.contains(reason) && line.contains(part);
        ensure!(events.lines().any(|line| is_it(&line)), "{events}");
        Ok(())
    })
    .await
}

/// G5, G15, G22: a wave waits while a query says neither yes nor no, goes on with a value within
/// the bounds, and goes back with one that is not; the commands show what it was
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_depends_on_a_query() -> Result<()> {
    let world = bare(3).await?;
    let prometheus = Prometheus::start().await?;
    let hosts = format!("--check-hosts={}", prometheus.address);
    let mut controller = run(&world, &["--leader-elect=false", &hosts])?;
    world.create_daemon_set(&guarded("agent", &policy(&prometheus))).await?;
    world.reaches("agent", "Complete").await?;
    ensure!(prometheus.connections() == 0, "a check was asked without a wave");

    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingChecks").await?;
    states(&world, "check errors unknown at ").await?;
    has_event(&world, "RolloutCheckUnknown", "the query returns no value").await?;
    let check = world.everynode(&["rollout", "check", "ds/agent"]).await?;
    ensure!(check.code == 4 && check.stdout.contains("returns no value"), "{check:?}");
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("errors") && get.contains("unknown"), "{get}");
    let status = world.everynode(&["status", "ds/agent", "--no-wait"]).await?;
    ensure!(
        status.stdout.contains("its checks have not passed yet; check errors unknown at "),
        "{status:?}"
    );
    let all = world.images("agent").await?;
    ensure!(all == [(IMAGE.to_owned(), 2), (NEXT_IMAGE.to_owned(), 1)].into(), "{all:?}");

    prometheus.set("0.25");
    world.reaches("agent", "Complete").await?;
    has_event(&world, "RolloutCheckPassed", "0.25").await?;
    let check = world.everynode(&["rollout", "check", "ds/agent", "-o", "json"]).await?.ok()?;
    let check: Value = serde_json::from_str(&check)?;
    let first = &check["checks"][0];
    ensure!(first["answer"] == "passed" && first["text"] == "0.25", "{check}");

    prometheus.set("0.75");
    world.patch_daemon_set("agent", image_patch(THIRD_IMAGE)).await?;
    world.reaches("agent", "Failed").await?;
    states(&world, "check errors: 0.75 is above max 0.5, 2 times in a row (sum(rate(").await?;
    has_event(&world, "RolloutCheckFailed", "0.75 is above max 0.5").await?;
    has_event(&world, "RolloutFailed", "check errors").await?;
    eventually("the canary has gone back", async || {
        world.all_available("agent").await?;
        let all = world.images("agent").await?;
        ensure!(all == [(NEXT_IMAGE.to_owned(), 3)].into(), "{all:?}");
        Ok(())
    })
    .await?;
    let check = world.everynode(&["rollout", "check", "ds/agent", "--check", "errors"]).await?;
    ensure!(check.code == 3, "{check:?}");
    let check = world.everynode(&["rollout", "check", "ds/agent", "--check", "gate"]).await?;
    ensure!(check.code == 1 && check.stderr.contains("no check gate: it has errors"), "{check:?}");
    controller.check_running()
}

/// G24: without --check-hosts nothing is asked, the condition and an event say how to allow it, and
/// an order goes on without the check
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_allowed_is_not_asked() -> Result<()> {
    let world = bare(2).await?;
    let prometheus = Prometheus::start().await?;
    prometheus.set("0");
    let mut controller = run(&world, &["--leader-elect=false", "--check-hosts=other:9090,*.svc"])?;
    world.create_daemon_set(&guarded("agent", &policy(&prometheus))).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingChecks").await?;
    let hint = format!("everynode run --check-hosts {} would allow it", prometheus.address);
    states(&world, &hint).await?;
    has_event(&world, "RolloutCheckUnknown", &hint).await?;
    ensure!(prometheus.connections() == 0, "it was asked");
    world.everynode(&["rollout", "promote", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Complete").await?;
    ensure!(prometheus.connections() == 0, "it was asked");
    controller.check_running()
}

/// G24, G46: a check sends the token of its host, here of the API server, and the token is stated
/// nowhere
#[tokio::test(flavor = "multi_thread")]
async fn a_check_sends_the_token_of_its_host() -> Result<()> {
    let world = bare(2).await?;
    let put = |name: &str, content: &[u8]| {
        let path = world.directory.path().join(name);
        std::fs::write(&path, content).map(|()| path.to_string_lossy().into_owned())
    };
    let kubeconfig: Value = serde_saphyr::from_str(&std::fs::read_to_string(&world.kubeconfig)?)?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("not in the kubeconfig");
    let token = text(&kubeconfig["users"][0]["user"]["token"])?;
    let cluster = &kubeconfig["clusters"][0]["cluster"];
    let server = text(&cluster["server"])?;
    let ca = text(&cluster["certificate-authority-data"])?;
    put("ca.crt", &base64::engine::general_purpose::STANDARD.decode(ca)?)?;
    put("token", b"another")?;
    let host = server.strip_prefix("https://").context("it is no https")?;
    let entry = json!([{ "host": host, "bearerTokenFile": "token", "caFile": "ca.crt" }]);
    let file = put("credentials.yaml", entry.to_string().as_bytes())?;
    let (hosts, file) = (format!("--check-hosts={host}"), format!("--check-credentials={file}"));
    let options = ["--leader-elect=false", "--log-level=trace", &hosts, &file];
    let mut controller = run(&world, &options)?;
    let policy = json!({ "steps": [{ "name": "canary", "upTo": [1], "checks": ["nodes"] }],
        "finally": {}, "checks": [{ "name": "nodes", "interval": "1s",
            "http": { "url": format!("{server}/api/v1/nodes") } }] });
    world.create_daemon_set(&guarded("agent", &policy.to_string())).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingChecks").await?;
    states(&world, "401 Unauthorized").await?;

    let path = put("token", token.as_bytes())?;
    world.reaches("agent", "Complete").await?;
    has_event(&world, "RolloutCheckPassed", "200 OK").await?;
    let check = world.everynode(&["rollout", "check", "ds/agent"]).await?;
    ensure!(check.code == 4 && check.stdout.contains("TLS: "), "{check:?}");
    let check = world.everynode(&["rollout", "check", "ds/agent", &file]).await?.ok()?;
    std::fs::remove_file(&path)?;
    world.patch_daemon_set("agent", image_patch(THIRD_IMAGE)).await?;
    world.reaches("agent", "AwaitingChecks").await?;
    states(&world, &format!("bearerTokenFile {path}: No such file")).await?;
    let objects = ["get", "daemonsets,events,controllerrevisions", "-o", "yaml"];
    for said in [controller.output(), check, world.kubectl(&objects).await?] {
        ensure!(!said.contains(&token), "the token is stated");
    }
    controller.check_running()
}

/// The Jobs of the test's namespace.
async fn jobs(world: &World) -> Result<Vec<Value>> {
    let list: Value = serde_json::from_str(&world.kubectl(&["get", "jobs", "-o", "json"]).await?)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// G5, G20: without the rights of the component the missing one is named; with them one Job is
/// created, which a controller that starts finds, and its success lets the wave go on
#[tokio::test(flavor = "multi_thread")]
async fn a_job_must_succeed() -> Result<()> {
    let world = bare(2).await?;
    apply(&world, &rights_in(Path::new(MANIFEST))?).await?;
    let kubeconfig = world.kubeconfig_of(NAMESPACE, ACCOUNT).await?;
    let start = || {
        let options = ["run", "--leader-elect=false"];
        Process::everynode_with(world.directory.path(), "run", &options, Some(&kubeconfig))
    };
    let mut controller = start()?;
    let smoke = json!({ "steps": [{ "name": "canary", "upTo": [1], "checks": ["smoke"] }],
        "finally": {},
        "checks": [{ "name": "smoke", "interval": "1s", "cronJob": "smoke-test" }] });
    world.create_daemon_set(&guarded("agent", &smoke.to_string())).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingChecks").await?;
    states(&world, "which deploy/components/check-jobs (or check-jobs-beside) grants").await?;

    world.kubectl(&["apply", "--namespace=", "-f", CHECK_JOBS]).await?;
    states(&world, "/smoke-test does not exist").await?;
    let check = world.everynode(&["rollout", "check", "ds/agent"]).await?;
    ensure!(check.code == 4 && check.stdout.contains("does not exist"), "{check:?}");
    let create = ["create", "cronjob", "smoke-test", "--schedule=0 0 31 2 *"];
    world.kubectl(&[&create[..], &["--image=smoke:1", "--", "/smoke"]].concat()).await?;
    eventually("a job is created", async || {
        ensure!(jobs(&world).await?.len() == 1);
        Ok(())
    })
    .await
    .with_context(|| controller.output())?;
    let (status, _) = controller.terminate().await?;
    ensure!(status.success(), "{status}");
    let mut controller = start()?;
    states(&world, "active and 0 failed pods").await?;
    let [job] = <[Value; 1]>::try_from(jobs(&world).await?)
        .map_err(|all| anyhow::anyhow!("not one job, but {}", all.len()))?;
    let metadata = &job["metadata"];
    ensure!(metadata["ownerReferences"][0]["name"] == "smoke-test", "{job}");
    let identity = metadata["annotations"]["everynode.dev/check"].as_str().unwrap_or_default();
    ensure!(identity.starts_with("daemonset agent revision ") && identity.ends_with("check smoke"));
    ensure!(job["spec"]["template"]["spec"]["containers"][0]["image"] == "smoke:1", "{job}");

    let name = metadata["name"].as_str().context("no name")?;
    let done = json!({ "status": { "conditions": [{ "type": "Complete", "status": "True" }] } });
    let (done, status) = (done.to_string(), "--subresource=status");
    world.kubectl(&["patch", "job", name, status, "--type=merge", "-p", &done]).await?;
    world.reaches("agent", "Complete").await?;
    has_event(&world, "RolloutCheckPassed", "has succeeded").await?;
    ensure!(jobs(&world).await?.len() == 1, "there is another job");
    controller.check_running()
}
