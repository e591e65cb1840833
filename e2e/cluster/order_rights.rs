//! Rights apart: the admission policy of deploy/components/order-rights. A sandbox keeps admission
//! policies and does not evaluate them: there only the manifests are tried.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set};
use crate::world::{World, eventually};

const COMPONENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/components/order-rights");
const ORDER: &str = "everynode.dev/order=";

fn documents(file: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(Path::new(COMPONENT).join(file))?;
    text.split("\n---\n").map(|text| Ok(serde_saphyr::from_str(text)?)).collect()
}

/// The component, for the test's namespace alone: its roles as Roles, each bound to a user of its
/// name, and a policy of another name.
fn objects(world: &World) -> Result<Vec<Value>> {
    let namespace = &world.namespace;
    let mut objects = Vec::new();
    for mut role in documents("roles.yaml")? {
        let name = role["metadata"]["name"].clone();
        role["kind"] = json!("Role");
        role["metadata"] = json!({ "name": name, "namespace": namespace });
        objects.push(role);
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": name, "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name }],
        }));
    }
    for mut document in documents("admission.yaml")? {
        document["metadata"]["name"] = json!(namespace);
        match document["kind"].as_str().unwrap_or_default() {
            "ValidatingAdmissionPolicy" => {
                let labels = json!({ "kubernetes.io/metadata.name": namespace });
                document["spec"]["matchConstraints"]["namespaceSelector"] =
                    json!({ "matchLabels": labels });
            }
            _ => document["spec"]["policyName"] = json!(namespace),
        }
        objects.push(document);
    }
    Ok(objects)
}

/// G23: who gives orders sets no image, who sets images gives no orders but those that stop a
/// rollout, and neither sets a policy
#[tokio::test(flavor = "multi_thread")]
async fn rights_are_apart() -> Result<()> {
    let world = World::cluster(1).await?;
    world.create_daemon_set(&daemon_set("agent")).await?;
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects(&world)? }).to_string();
    world.kubectl_with_input(&["--namespace=", "apply", "-f", "-"], &list).await?.ok()?;
    if !World::is_external() {
        return Ok(());
    }
    let tried = try_rights(&world).await;
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        world.kubectl(&["delete", kind, &world.namespace]).await?;
    }
    tried
}

async fn try_rights(world: &World) -> Result<()> {
    let approver = "everynode-approver";
    let policy = r#"everynode.dev/rollout-policy={"paused": false}"#;
    eventually("the policy counts", async || {
        let image = format!("main={NEXT_IMAGE}");
        let set = ["set", "image", "ds/agent", &image, "--dry-run=server", "--as", approver];
        let output = world.kubectl_with_input(&set, "").await?;
        let why = "needs the verb edit on daemonsets.everynode.dev";
        ensure!(output.code != 0 && output.stderr.contains(why), "{output:?}");
        Ok(())
    })
    .await?;
    let approve = format!("{ORDER}approve 5d4f canary now");
    let promote = format!("{ORDER}promote-full 5d4f now");
    let abort = format!("{ORDER}abort 5d4f now");
    let paused = "everynode.dev/paused=true";
    let order_reason = r#"everynode.dev/order-reason={"order":"approve 5d4f canary now"}"#;
    let pause_reason = r#"everynode.dev/pause-reason={"order":"pause now"}"#;
    // In this order: what one has paused, the other resumes.
    for (user, change, is_allowed) in [
        (approver, &*approve, true),
        (approver, order_reason, true),
        ("everynode-deployer", "everynode.dev/order-reason-", false),
        (approver, &*promote, true),
        (approver, policy, false),
        (approver, "other=annotation", false),
        (approver, "everynode.dev/rolled-back=5d4f 1", false),
        ("everynode-deployer", &*approve, false),
        ("everynode-deployer", &*abort, true),
        ("everynode-deployer", &*promote, false),
        ("everynode-deployer", policy, false),
        ("everynode-deployer", "other=annotation", true),
        ("everynode-deployer", paused, true),
        ("everynode-deployer", pause_reason, true),
        ("everynode-policy-editor", "everynode.dev/pause-reason-", false),
        ("everynode-deployer", "everynode.dev/paused-", false),
        ("everynode-deployer", "everynode.dev/paused=false", false),
        (approver, "everynode.dev/paused-", true),
        ("everynode-deployer", "everynode.dev/paused=", true),
        ("everynode-deployer", "everynode.dev/paused-", false),
        (approver, "everynode.dev/paused-", true),
        ("everynode-deployer", "everynode.dev/order-", true),
        ("everynode-policy-editor", policy, true),
        ("everynode-policy-editor", paused, false),
        ("everynode-policy-editor", &*approve, false),
        (approver, "everynode.dev/order=anything", false),
    ] {
        let annotate = ["annotate", "ds/agent", "--overwrite", change, "--as", user];
        let output = world.kubectl_with_input(&annotate, "").await?;
        ensure!((output.code == 0) == is_allowed, "{user}: {change}: {output:?}");
        ensure!(is_allowed || output.stderr.contains("ValidatingAdmissionPolicy"), "{output:?}");
    }
    for (user, is_allowed) in [(approver, false), ("everynode-deployer", true)] {
        let image = format!("main={NEXT_IMAGE}");
        let output = world
            .kubectl_with_input(&["set", "image", "ds/agent", &image, "--as", user], "")
            .await?;
        ensure!((output.code == 0) == is_allowed, "{user}: {output:?}");
        let ds = world.daemon_sets().get("agent").await?;
        let containers = ds.spec.and_then(|spec| spec.template.spec).context("no pods")?.containers;
        let expected = if is_allowed { NEXT_IMAGE } else { IMAGE };
        ensure!(containers[0].image.as_deref() == Some(expected), "{containers:?}");
    }
    Ok(())
}
