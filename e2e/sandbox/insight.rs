//! The output of `explain` and `plan`, word for word.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use expect_test::{expect, expect_file};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use super::conversation::normalize::answer;
use crate::world::command::{Output, finish};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::process::everynode_program;
use crate::world::{Setup, World, eventually};

async fn everynode(world: &World, arguments: &[&str], input: &str) -> Result<Output> {
    let mut command = Command::new(everynode_program());
    command.args(arguments).args(["--namespace", &world.namespace]);
    world.finish(command, input).await
}

async fn output_of(world: &World, arguments: &[&str]) -> Result<String> {
    let text = everynode(world, arguments, "").await?.ok()?;
    Ok(answer(&text, &world.namespace))
}

/// C12, C13, C52: explain names the reasons against pods and what holds up the rollout; nodes that
/// need attention come first.
#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_reasons_for_delays_and_for_nodes_without_a_pod() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 6, ..Setup::default() }).await?;
    world.kubectl(&["taint", "nodes", "node-0005", "gpu=true:NoSchedule"]).await?;
    world
        .kubectl(&["label", "nodes", "node-0006", "kubernetes.io/os=plan9", "--overwrite"])
        .await?;
    let selector =
        json!({"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}}});
    world.roll_out(&with(daemon_set("agent"), selector)).await?;
    world.pods_have_aged("agent").await?;
    let lifecycle = json!({"sandbox.everynode.dev/lifecycle": "pull-failure"});
    let unpullable = json!({"spec": {"template": {"metadata": {"annotations": lifecycle}}}});
    world.patch_daemon_set("agent", with(image_patch(NEXT_IMAGE), unpullable)).await?;
    let text = eventually("the new pod's image can't be pulled", async || {
        let text = output_of(&world, &["explain", "ds/agent"]).await?;
        ensure!(text.contains("failing  ImagePullBackOff"), "{text}");
        Ok(text)
    })
    .await?;
    expect_file!["insight/explain.txt"].assert_eq(&text);
    let names = output_of(&world, &["explain", "ds/agent", "-o", "name"]).await?;
    expect![[r#"
        node/node-0001
    "#]]
    .assert_eq(&names);
    let node = output_of(&world, &["explain", "ds/agent", "--node", "node-0006"]).await?;
    expect_file!["insight/explain_node.txt"].assert_eq(&node);
    let json: Value = serde_json::from_str(
        &everynode(&world, &["explain", "agent", "-o", "json"], "").await?.ok()?,
    )?;
    ensure!(json["desired"] == 4 && json["groups"][0]["situation"] == "failing", "{json}");
    ensure!(json["groups"][0]["nodes"] == json!(["node-0001"]), "{json}");
    let missing = everynode(&world, &["explain", "ds/agent", "--node", "node-9"], "").await?;
    ensure!(
        missing.code == 1 && missing.stderr.contains("none of the 6 nodes has the name node-9"),
        "{missing:?}"
    );
    Ok(())
}

/// C50, C52, C55: a plan lists the waves and changes nothing, and its exit code shows whether there
/// is something to do.
#[tokio::test(flavor = "multi_thread")]
async fn plan_shows_what_applying_does_and_changes_nothing() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 5, ..Setup::default() }).await?;
    let budget = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}});
    let manifest = with(daemon_set("agent"), budget);
    let created = plan(&world, &manifest, &[]).await?;
    expect_file!["insight/plan_create.txt"].assert_eq(&shown(&world, &created));
    world.kubectl_with_input(&["apply", "-f", "-"], &manifest.to_string()).await?.ok()?;
    world.settled("agent").await?;
    let same = plan(&world, &manifest, &[]).await?;
    expect![[r#"
        daemonset NAMESPACE/agent would not change: nothing to do (RollingUpdate, maxUnavailable 2)
        exit code 0
    "#]]
    .assert_eq(&shown(&world, &same));
    let before = world.daemon_sets().get("agent").await?;
    let changed = with(manifest.clone(), image_patch(NEXT_IMAGE));
    let next = plan(&world, &changed, &["--start-up", "20s"]).await?;
    expect_file!["insight/plan_change.txt"].assert_eq(&shown(&world, &next));
    let json = plan(&world, &changed, &["-o", "json"]).await?;
    let json: Value = serde_json::from_str(&json.stdout)?;
    ensure!(
        json["items"][0]["nodes"]["replace"].as_array().is_some_and(|nodes| nodes.len() == 5),
        "{json}"
    );
    ensure!(json["items"][0]["waves"].as_array().is_some_and(|waves| waves.len() == 3), "{json}");
    let after = world.daemon_sets().get("agent").await?;
    ensure!(before.metadata.resource_version == after.metadata.resource_version, "it was changed");
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "agent", "x": "y"}},
                                   "template": {"metadata": {"labels": {"x": "y"}}}}});
    let rejected = plan(&world, &with(manifest.clone(), selector.clone()), &[]).await?;
    expect_file!["insight/plan_rejected.txt"].assert_eq(&shown(&world, &rejected));
    let mut elsewhere = daemon_set("elsewhere");
    elsewhere["metadata"]["namespace"] = "nobody-has-it".into();
    let some = json!({"apiVersion": "v1", "kind": "List",
        "items": [with(manifest.clone(), selector), elsewhere, manifest]});
    let some = plan(&world, &some, &[]).await?;
    expect_file!["insight/plan_some_rejected.txt"].assert_eq(&shown(&world, &some));
    Ok(())
}

async fn plan(world: &World, manifest: &Value, arguments: &[&str]) -> Result<Output> {
    let arguments = [&["plan", "-f", "-"], arguments].concat();
    everynode(world, &arguments, &manifest.to_string()).await
}

fn shown(world: &World, output: &Output) -> String {
    let text = format!("{}{}exit code {}\n", output.stdout, output.stderr, output.code);
    answer(&text, &world.namespace)
}

/// Missing permissions are named, and the rest is answered.
#[tokio::test(flavor = "multi_thread")]
async fn without_some_permissions_the_rest_is_answered() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let kubeconfig = restricted(
        &world,
        "ClusterRole",
        "ClusterRoleBinding",
        &json!([
            {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
        ]),
    )
    .await?;
    let run = async |arguments: &[&str], input: &str| {
        let mut command = Command::new(everynode_program());
        command
            .args(arguments)
            .args(["--namespace", &world.namespace])
            .env("KUBECONFIG", &kubeconfig);
        finish(command, world.directory.path(), input).await
    };
    let explained = run(&["explain", "ds/agent"], "").await?;
    expect_file!["insight/explain_restricted.txt"].assert_eq(&shown(&world, &explained));
    let changed = with(daemon_set("agent"), image_patch(NEXT_IMAGE)).to_string();
    let planned = run(&["plan", "-f", "-"], &changed).await?;
    expect_file!["insight/plan_restricted.txt"].assert_eq(&shown(&world, &planned));
    Ok(())
}

/// Whoever may view only a namespace is answered from its pods, and what that can't tell is named.
#[tokio::test(flavor = "multi_thread")]
async fn without_nodes_the_pods_are_explained() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let broken = image_patch("example.com/does-not-exist:1.0");
    world.patch_daemon_set("agent", broken.clone()).await?;
    let kubeconfig = restricted(
        &world,
        "Role",
        "RoleBinding",
        &json!([
            {"apiGroups": ["apps"], "resources": ["daemonsets", "controllerrevisions"],
                "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "watch"]},
        ]),
    )
    .await?;
    let run = async |arguments: &[&str], input: &str| {
        let mut command = Command::new(everynode_program());
        command
            .args(arguments)
            .args(["--namespace", &world.namespace])
            .env("KUBECONFIG", &kubeconfig);
        finish(command, world.directory.path(), input).await
    };
    let explained = eventually("the new pod's image can't be pulled", async || {
        let explained = run(&["explain", "ds/agent"], "").await?;
        ensure!(explained.stdout.contains("1  failing "), "{explained:?}");
        Ok(explained)
    })
    .await?;
    expect_file!["insight/explain_without_nodes.txt"].assert_eq(&shown(&world, &explained));
    let names = run(&["explain", "ds/agent", "-o", "name"], "").await?.ok()?;
    ensure!(names == "node/node-0001\n", "{names}");
    let json = run(&["explain", "ds/agent", "-o", "json"], "").await?.ok()?;
    let json: Value = serde_json::from_str(&json)?;
    ensure!(json.get("nodes").is_none() && json["desired"] == 3, "{json}");
    let node = run(&["explain", "ds/agent", "--node", "node-0001"], "").await?;
    ensure!(node.code == 1 && node.stderr.contains("may not list nodes"), "{node:?}");
    let changed = with(daemon_set("agent"), image_patch(NEXT_IMAGE)).to_string();
    let planned = run(&["plan", "-f", "-"], &changed).await?;
    expect_file!["insight/plan_without_nodes.txt"].assert_eq(&shown(&world, &planned));
    let json = run(&["plan", "-f", "-", "-o", "json"], &changed).await?;
    let json: Value = serde_json::from_str(&json.stdout)?;
    ensure!(json["items"][0]["nodes"].is_null(), "{json}");
    Ok(())
}

/// The kubeconfig of a user with these rules, in the namespace or in the cluster.
async fn restricted(
    world: &World,
    kind: &str,
    binding: &str,
    rules: &Value,
) -> Result<std::path::PathBuf> {
    let namespace = &world.namespace;
    let metadata = match kind {
        "Role" => json!({"name": "reader", "namespace": namespace}),
        _ => json!({"name": "reader"}),
    };
    let group = "rbac.authorization.k8s.io";
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "reader", "namespace": namespace}},
        {"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "rules": rules},
        {"apiVersion": format!("{group}/v1"), "kind": binding, "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": kind, "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}]},
    ]});
    world.kubectl_with_input(&["apply", "-f", "-"], &objects.to_string()).await?.ok()?;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), namespace);
    let request =
        TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let granted = accounts.create_token_request("reader", &PostParams::default(), &request).await?;
    let token = granted.status.context("a token is granted")?.token;
    let admin: Value = serde_saphyr::from_str(&std::fs::read_to_string(&world.kubeconfig)?)?;
    let mut kubeconfig = admin;
    kubeconfig["users"][0]["user"] = json!({"token": token});
    let path = world.directory.path().join("reader.conf");
    std::fs::write(&path, kubeconfig.to_string())?;
    Ok(path)
}

/// C12, C13: both commands work on files, without a cluster.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_explained_and_planned_without_a_cluster() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let node = |name: &str, taints: Value| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
               "spec": {"taints": taints},
               "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}})
    };
    let gpu = json!([{"key": "gpu", "effect": "NoSchedule"}]);
    let nodes = json!({"apiVersion": "v1", "kind": "List", "items": [
        node("node-1", json!([])), node("node-2", json!([])), node("node-3", gpu)]});
    let request = json!({"spec": {"template": {"spec": {"containers":
        [{"name": "main", "image": NEXT_IMAGE, "resources": {"requests": {"cpu": "1500m"}}}]}}}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}});
    let agent = with(daemon_set("agent"), request);
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [agent, service]});
    let write = |name: &str, value: &Value| -> Result<String> {
        let path = directory.path().join(name);
        std::fs::write(&path, value.to_string())?;
        Ok(path.to_string_lossy().into_owned())
    };
    let (nodes, manifest) = (write("nodes.json", &nodes)?, write("agent.json", &manifest)?);
    let explained = offline(directory.path(), "explain", &manifest, &nodes).await?;
    expect![[r#"
        daemonset default/agent: 2 of 3 nodes should run it
        RollingUpdate, maxUnavailable 1; not applied yet

            2  should run         should run a pod
                                  node-1, node-2
            1  no pod here        taint gpu:NoSchedule is not tolerated
                                  node-3
        exit code 0
    "#]]
    .assert_eq(&explained);
    let planned = offline(directory.path(), "plan", &manifest, &nodes).await?;
    expect_file!["insight/plan_files.txt"].assert_eq(&planned);
    Ok(())
}

/// S13, S15: a DaemonSet finds the objects of its file that it names, before anything is applied
/// and after, with a cluster and without.
#[tokio::test(flavor = "multi_thread")]
async fn daemon_sets_find_what_their_file_defines() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await?;
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/sandbox/insight/whole.yaml");
    let text = std::fs::read_to_string(manifest)?;
    let mut transcript = String::new();
    let run = async |arguments: &[&str]| -> Result<String> {
        let output = everynode(&world, arguments, &text).await?;
        Ok(format!("$ everynode {}\n{}", arguments.join(" "), shown(&world, &output)))
    };
    transcript += &run(&["plan", "-f", "-"]).await?;
    let alone = text.split("---").next().unwrap_or_default();
    let rejected = everynode(&world, &["plan", "-f", "-"], alone).await?;
    transcript += &format!("# without its namespace\n{}", shown(&world, &rejected));
    let cluster = world.kubectl(&["get", "nodes", "-o", "json"]).await?;
    let nodes = world.directory.path().join("nodes.json");
    std::fs::write(&nodes, cluster)?;
    let nodes = nodes.to_string_lossy().into_owned();
    for verb in ["plan", "explain"] {
        let found = offline(world.directory.path(), verb, manifest, &nodes).await?;
        transcript += &format!("$ everynode {verb} -f whole.yaml --nodes-from nodes.json\n{found}");
    }
    // A custom resource can't be applied in the same second as its definition.
    let apply = ["apply", "-f", "-", "--namespace", "whole"];
    world.kubectl_with_input(&apply, &text).await?;
    world.kubectl_with_input(&apply, &text).await?.ok()?;
    transcript += &run(&["plan", "-f", "-"]).await?;
    expect_file!["insight/whole.txt"].assert_eq(&transcript);
    Ok(())
}

async fn offline(home: &Path, verb: &str, manifest: &str, nodes: &str) -> Result<String> {
    let mut command = Command::new(everynode_program());
    command.args([verb, "-f", manifest, "--nodes-from", nodes]).env_remove("KUBECONFIG");
    let output = finish(command, home, "").await?;
    Ok(format!("{}{}exit code {}\n", output.stdout, output.stderr, output.code))
}
