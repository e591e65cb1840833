//! `explain` and `plan` as people use them, word for word.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use expect_test::expect;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use super::conversation::normalize::answer;
use crate::world::command::{Output, finish};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::process::EVERYNODE;
use crate::world::{Setup, World, eventually};

async fn everynode(world: &World, arguments: &[&str], input: &str) -> Result<Output> {
    let mut command = Command::new(EVERYNODE);
    command.args(arguments).args(["--namespace", &world.namespace]);
    world.finish(command, input).await
}

async fn told(world: &World, arguments: &[&str]) -> Result<String> {
    let text = everynode(world, arguments, "").await?.ok()?;
    Ok(answer(&text, &world.namespace))
}

/// C12, C13, C52: what keeps pods away and what holds the rollout up has a name, and what needs attention comes first.
#[tokio::test(flavor = "multi_thread")]
async fn explain_names_what_holds_a_rollout_up_and_why_nodes_have_no_pod() -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 6, ..Setup::default() }).await? else {
        return Ok(());
    };
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
        let text = told(&world, &["explain", "ds/agent"]).await?;
        ensure!(text.contains("ImagePullBackOff") && text.contains("held up"), "{text}");
        Ok(text)
    })
    .await?;
    expect![[r#"
        daemonset NAMESPACE/agent: 4 of 6 nodes should run it, 3 ready, 3 available, 1 up to date
        RollingUpdate, maxUnavailable 1; 1 of 4 nodes have the current revision; held up: 1 of maxUnavailable 1 used up by node-0001 (ImagePullBackOff of container main, current revision)

            1  failing  ImagePullBackOff of container main, current revision
                                  node-0001
                                  Back-off pulling image "registry.k8s.io/pause:3.9": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "registry.k8s.io/pause:3.9": failed to resolve reference "registry.k8s.io/pause:3.9": registry.k8s.io/pause:3.9: not found
                                  try: kubectl -n NAMESPACE describe pod agent-<name>
            3  outdated  ready, older revision: it waits for its turn
                                  node-0002..0004
            1  no pod here  nodeSelector wants kubernetes.io/os=linux, the node has another value
                                  node-0006
            1  no pod here  taint gpu=true:NoSchedule is not tolerated
                                  node-0005
    "#]].assert_eq(&text);
    let names = told(&world, &["explain", "ds/agent", "-o", "name"]).await?;
    expect![[r#"
        node/node-0001
    "#]]
    .assert_eq(&names);
    let story = told(&world, &["explain", "ds/agent", "--node", "node-0006"]).await?;
    expect![[r#"
        node node-0006 (zone zone-a) should not run a pod of daemonset NAMESPACE/agent

        because nodeSelector wants label kubernetes.io/os=linux, the node has plan9

        no pod
        rollout: 1 of 4 nodes have the current revision; held up: 1 of maxUnavailable 1 used up by node-0001 (ImagePullBackOff of container main, current revision)
    "#]].assert_eq(&story);
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

/// C50, C52, C55: a plan tells the waves, changes nothing, and its exit code says whether there is something to do.
#[tokio::test(flavor = "multi_thread")]
async fn plan_tells_what_applying_does_and_changes_nothing() -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 5, ..Setup::default() }).await? else {
        return Ok(());
    };
    let budget = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}});
    let manifest = with(daemon_set("agent"), budget);
    let created = plan(&world, &manifest, &[]).await?;
    expect![[r#"
        daemonset NAMESPACE/agent would be created (RollingUpdate, maxUnavailable 2)

        NODES  WHAT  WHICH
        5  get a pod  node-0001..0005

        duration unknown: no start of its pods was observed; see --start-up

        * no priorityClassName: on a full node its pods stay pending, and are among the first to be evicted
        exit code 2
    "#]].assert_eq(&shown(&world, &created));
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
    expect![[r#"
        daemonset NAMESPACE/agent would change (RollingUpdate, maxUnavailable 2)

        FIELD  FROM  TO
        spec.template.spec.containers[main].image  registry.k8s.io/pause:3.10  registry.k8s.io/pause:3.9

        NODES  WHAT  WHICH
        5  get a new pod  node-0001..0005

        WAVE  STARTS  NODES  WHICH
        1  +<age>  2  node-0001, node-0002
        2  +<age>  2  node-0003, node-0004
        3  +<age>  1  node-0005

        done after <age> if pods take <age> to become ready; <age> if each also takes its grace period of <age> to stop

        * without readinessProbe and minReadySeconds a pod counts as available as soon as it runs: a version that breaks later reaches all nodes
        * no priorityClassName: on a full node its pods stay pending, and are among the first to be evicted
        exit code 2
    "#]].assert_eq(&shown(&world, &next));
    let json = plan(&world, &changed, &["-o", "json"]).await?;
    let json: Value = serde_json::from_str(&json.stdout)?;
    ensure!(json[0]["nodes"]["replace"].as_array().is_some_and(|nodes| nodes.len() == 5), "{json}");
    ensure!(json[0]["waves"].as_array().is_some_and(|waves| waves.len() == 3), "{json}");
    let after = world.daemon_sets().get("agent").await?;
    ensure!(before.metadata.resource_version == after.metadata.resource_version, "it was changed");
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "agent", "x": "y"}},
                                   "template": {"metadata": {"labels": {"x": "y"}}}}});
    let refused = plan(&world, &with(manifest, selector), &[]).await?;
    expect![[r#"
        error: the server rejects it: DaemonSet.apps "agent" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"agent","x":"y"}}: field is immutable
        exit code 1
    "#]].assert_eq(&shown(&world, &refused));
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

/// What may not be read is named as the right that is missing, and the rest is answered.
#[tokio::test(flavor = "multi_thread")]
async fn without_some_rights_the_rest_is_answered() -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await? else {
        return Ok(());
    };
    world.roll_out(&daemon_set("agent")).await?;
    let kubeconfig = restricted(&world).await?;
    let run = async |arguments: &[&str], input: &str| {
        let mut command = Command::new(EVERYNODE);
        command
            .args(arguments)
            .args(["--namespace", &world.namespace])
            .env("KUBECONFIG", &kubeconfig);
        finish(command, world.directory.path(), input).await
    };
    let explained = run(&["explain", "ds/agent"], "").await?;
    expect![[r#"
        daemonset NAMESPACE/agent: 2 of 2 nodes should run it
        RollingUpdate, maxUnavailable 1; rollout progress is unknown: pods or revisions were not read
        ! unknown whether the namespace has a node selector: user "system:serviceaccount:NAMESPACE:reader" may not get namespaces in the whole cluster: ask for a ClusterRole with apiGroups [""], resources ["namespaces"], verbs ["get"]
        ! unknown which pods are up to date: user "system:serviceaccount:NAMESPACE:reader" may not list controllerrevisions in namespace NAMESPACE: ask for a Role with apiGroups ["apps"], resources ["controllerrevisions"], verbs ["list"]
        ! the states of pods are unknown: user "system:serviceaccount:NAMESPACE:reader" may not list pods in namespace NAMESPACE: ask for a Role with apiGroups [""], resources ["pods"], verbs ["list"]

            2  should run  should run a pod
                                  node-0001, node-0002
        exit code 0
    "#]].assert_eq(&shown(&world, &explained));
    let changed = with(daemon_set("agent"), image_patch(NEXT_IMAGE)).to_string();
    let planned = run(&["plan", "-f", "-"], &changed).await?;
    expect![[r#"
        error: user "system:serviceaccount:NAMESPACE:reader" may not list controllerrevisions in namespace NAMESPACE: ask for a Role with apiGroups ["apps"], resources ["controllerrevisions"], verbs ["list"]
        exit code 1
    "#]]
    .assert_eq(&shown(&world, &planned));
    Ok(())
}

/// The kubeconfig of somebody who may read DaemonSets and nodes, and nothing else.
async fn restricted(world: &World) -> Result<std::path::PathBuf> {
    let namespace = &world.namespace;
    let rules = json!([
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
    ]);
    let kind = "ClusterRole";
    let group = "rbac.authorization.k8s.io";
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": namespace}},
        {"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "reader"}, "rules": rules},
        {"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
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

/// C12, C13: both work on files, without a cluster.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_explained_and_planned_without_a_cluster() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let node = |name: &str, taints: Value| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints},
               "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}})
    };
    let gpu = json!([{"key": "gpu", "effect": "NoSchedule"}]);
    let nodes = json!({"apiVersion": "v1", "kind": "List", "items": [
        node("node-1", json!([])), node("node-2", json!([])), node("node-3", gpu)]});
    let request = json!({"spec": {"template": {"spec": {"containers":
        [{"name": "main", "image": NEXT_IMAGE, "resources": {"requests": {"cpu": "1500m"}}}]}}}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}});
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [with(daemon_set("agent"), request), service]});
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
    expect![[r#"
        daemonset default/agent would be created (RollingUpdate, maxUnavailable 1)

        NODES   WHAT                           WHICH
        2       get a pod                      node-1, node-2
        1       have no pod before and after

        duration unknown: no start of its pods was observed; see --start-up

        NODES   NOT FINISHED BECAUSE                         WHICH
        2       the new pod does not fit: Insufficient cpu   node-1, node-2

        * no priorityClassName: on a full node its pods stay pending, and are among the first to be evicted
        not planned because they are not DaemonSets: Service web
        exit code 2
    "#]]
    .assert_eq(&planned);
    Ok(())
}

async fn offline(home: &Path, verb: &str, manifest: &str, nodes: &str) -> Result<String> {
    let mut command = Command::new(EVERYNODE);
    command.args([verb, "-f", manifest, "--nodes-from", nodes]).env_remove("KUBECONFIG");
    let output = finish(command, home, "").await?;
    Ok(format!("{}{}exit code {}\n", output.stdout, output.stderr, output.code))
}
