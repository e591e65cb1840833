//! The permissions in deploy/ are exactly those that the controller uses: it runs as its
//! ServiceAccount against a sandbox that enforces them, performs every kind of action, and the
//! sandbox's log contains its requests.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use http::Method;
use http::request::Parts;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::world::account::LOG_REQUESTS;
use crate::world::http_proxy::{HttpProxy, RequestOutcome};
use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::process::Process;
use crate::world::{Setup, World, client, eventually};

pub(crate) const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/everynode.yaml");
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const ACCOUNT: &str = "everynode";

/// Granted, but used by no request: the admission plugin OwnerReferencesPermissionEnforcement
/// checks it.
const ASKED_BY_ADMISSION: [&str; 1] = ["update daemonsets/finalizers.apps"];

/// C4, C21, C40, C43, C60, C63, C71, S4: every permission that the controller uses is granted, and
/// every granted permission is used
#[tokio::test]
async fn the_controller_uses_exactly_the_permissions_that_it_is_granted() -> Result<()> {
    let setup = Setup { nodes: 3, controller: false, arguments: &LOG_REQUESTS };
    let world = World::sandbox(setup).await?;
    let documents = rights_in(Path::new(MANIFEST))?;
    apply(&world, &documents).await?;
    let account = client(&world.kubeconfig_of(NAMESPACE, ACCOUNT).await?).await?;
    let proxy = HttpProxy::start(account, hindrances()).await?;
    let kubeconfig = proxy.kubeconfig(world.directory.path())?;
    let directory = world.directory.path();
    let mut controller = Process::everynode_with(directory, "run", &["run"], Some(&kubeconfig))?;

    everything(&world).await.with_context(|| controller.output())?;
    controller.check_running()?;
    let (status, _) = controller.terminate().await?;
    ensure!(status.success(), "{status}: {}", controller.output());

    let requests = world.requests_of(NAMESPACE, ACCOUNT)?;
    let refused: Vec<_> = requests.iter().filter(|request| !request.allowed).collect();
    ensure!(refused.is_empty(), "refused: {refused:?}");
    let used: BTreeSet<String> =
        requests.iter().map(|request| format!("{} {}", request.verb, request.resource)).collect();
    let mut granted = granted(&documents)?;
    for right in ASKED_BY_ADMISSION {
        ensure!(granted.remove(right), "{right} is not granted");
    }
    let spare: Vec<_> = granted.difference(&used).collect();
    ensure!(spare.is_empty(), "granted, but not used: {spare:?}");
    ensure!(used == granted, "used, but by another grant: {:?}", used.difference(&granted));
    Ok(())
}

/// C1, C15: with --namespace-node-selectors, the controller acts only after it may read namespaces,
/// and logs the missing permission
#[tokio::test]
async fn a_controller_that_may_not_read_namespaces_logs_that_and_waits() -> Result<()> {
    let setup = Setup { nodes: 2, controller: false, arguments: &LOG_REQUESTS };
    let world = World::sandbox(setup).await?;
    let rights = rights_in(Path::new(MANIFEST))?;
    apply(&world, &without(&rights, "namespaces")).await?;
    let kubeconfig = world.kubeconfig_of(NAMESPACE, ACCOUNT).await?;
    let options = ["run", "--namespace-node-selectors", "--log-format=json"];
    let mut controller =
        Process::everynode_with(world.directory.path(), "run", &options, Some(&kubeconfig))?;
    world.create_daemon_set(&daemon_set("a")).await?;
    eventually("the log names the missing permission", async || {
        let log = controller.output();
        let reason = "nothing is done before namespaces are listed";
        ensure!(log.contains(reason) && log.contains("namespaces is forbidden"), "{log}");
        Ok(())
    })
    .await?;
    ensure!(world.pods_of("a").await?.is_empty(), "it has created pods");
    apply(&world, &rights).await?;
    world.settled("a").await.with_context(|| controller.output())?;
    controller.check_running()?;
    Ok(())
}

/// G4: without the right to read policies all else works, and the log names the missing right; once
/// it is granted, policies count
#[tokio::test]
async fn a_controller_that_may_not_read_policies_logs_that_and_goes_on() -> Result<()> {
    let setup = Setup { nodes: 2, controller: false, arguments: &LOG_REQUESTS };
    let world = World::sandbox(setup).await?;
    let rights = rights_in(Path::new(MANIFEST))?;
    let fewer = without(&without(&rights, "namespaces"), "rolloutpolicies");
    apply(&world, &fewer).await?;
    let kubeconfig = world.kubeconfig_of(NAMESPACE, ACCOUNT).await?;
    let options = ["run", "--log-format=json"];
    let mut controller =
        Process::everynode_with(world.directory.path(), "run", &options, Some(&kubeconfig))?;
    world.roll_out(&daemon_set("a")).await.with_context(|| controller.output())?;
    let log = controller.output();
    let missing = ["\"rolloutpolicies do not count", "\"clusterrolloutpolicies do not count"];
    ensure!(missing.iter().all(|missing| log.contains(missing)), "{log}");
    let policy = json!({"apiVersion": "everynode.dev/v1alpha1", "kind": "ClusterRolloutPolicy",
        "metadata": {"name": "p"}, "spec": {"daemonSets": {"selector": {}},
            "namespaces": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
            "paused": true}});
    world.kubectl_with_input(&["apply", "-f", "-"], &policy.to_string()).await?.ok()?;
    apply(&world, &without(&rights, "namespaces")).await?;
    eventually("the policy counts, and labels of namespaces are not known", async || {
        let stated = world.kubectl(&["get", "crp", "p", "-o", "jsonpath={.status}"]).await?;
        ensure!(stated.contains("NamespacesUnknown"), "{stated}");
        Ok(())
    })
    .await
    .with_context(|| controller.output())?;
    apply(&world, &rights).await?;
    eventually("the policy is followed", async || {
        let stated = world.kubectl(&["get", "crp", "p", "-o", "jsonpath={.status}"]).await?;
        ensure!(stated.contains("\"phase\":\"Paused\""), "{stated}");
        Ok(())
    })
    .await
    .with_context(|| controller.output())?;
    controller.check_running()?;
    Ok(())
}

/// The documents without the rules about this resource.
fn without(documents: &[Value], resource: &str) -> Vec<Value> {
    let mut documents = documents.to_vec();
    for rules in documents.iter_mut().filter_map(|document| document["rules"].as_array_mut()) {
        rules.retain(|rule| !rule["resources"].to_string().contains(resource));
    }
    documents
}

/// Faults of an older or failing server: it does not support streaming lists, one deletion of a pod
/// gets no answer, and the name of one new pod is taken.
fn hindrances() -> impl Fn(&Parts) -> RequestOutcome + Send + Sync {
    let (has_withheld, was_taken) = (AtomicBool::new(false), AtomicBool::new(false));
    move |request| {
        let query = request.uri.query().unwrap_or_default();
        if query.contains("sendInitialEvents") {
            return RequestOutcome::Refused(422);
        }
        let is_deletion = request.method == Method::DELETE && request.uri.path().contains("/pods/");
        if is_deletion && !has_withheld.swap(true, Ordering::Relaxed) {
            return RequestOutcome::Unanswered;
        }
        let is_creation = request.method == Method::POST && request.uri.path().ends_with("/pods");
        if is_creation && !was_taken.swap(true, Ordering::Relaxed) {
            return RequestOutcome::Refused(409);
        }
        RequestOutcome::Answered
    }
}

/// Every kind of action of the controller.
async fn everything(world: &World) -> Result<()> {
    world.roll_out(&daemon_set("a")).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await?;
    world.kubectl(&["rollout", "undo", "daemonset/a"]).await?;
    world.settled("a").await?;
    let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let surge = json!({"spec": {"updateStrategy": surge, "revisionHistoryLimit": 0}});
    world.patch_daemon_set("a", with(surge, image_patch(NEXT_IMAGE))).await?;
    world.settled("a").await?;
    follow_policies(world).await?;
    adopt(world).await?;
    collide(world).await?;
    fail_again_and_again(world).await
}

/// A policy of each kind states what it governs; one selects namespaces by their labels.
async fn follow_policies(world: &World) -> Result<()> {
    let policy = |kind: &str, spec: Value| {
        json!({"apiVersion": "everynode.dev/v1alpha1", "kind": kind, "metadata": {"name": "p"},
            "spec": spec})
    };
    let of_cluster = json!({"daemonSets": {"selector": {}}, "namespaces": {
        "matchLabels": {"kubernetes.io/metadata.name": "default"}}});
    let of_namespace = json!({"daemonSets": {"name": "none"}});
    let policies =
        [policy("ClusterRolloutPolicy", of_cluster), policy("RolloutPolicy", of_namespace)];
    for policy in policies {
        world.kubectl_with_input(&["apply", "-f", "-"], &policy.to_string()).await?.ok()?;
    }
    eventually("both have a status", async || {
        for kind in ["rp", "crp"] {
            let status = world.kubectl(&["get", kind, "p", "-o", "jsonpath={.status}"]).await?;
            ensure!(status.contains("\"Valid\""), "{kind}: {status}");
        }
        Ok(())
    })
    .await?;
    world.kubectl(&["delete", "crp/p", "rp/p"]).await.map(drop)
}

/// The next DaemonSet adopts the objects of a deleted one, and its history is limited.
async fn adopt(world: &World) -> Result<()> {
    let before = crate::observe::uids(world, "a").await?;
    let orphan = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    world.daemon_sets().delete("a", &orphan).await?;
    eventually("the DaemonSet is gone", async || {
        ensure!(world.daemon_sets().get_opt("a").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    let next = with(daemon_set("a"), image_patch(NEXT_IMAGE));
    world.roll_out(&next).await?;
    crate::observe::same_pods(world, "a", &before).await?;
    eventually("the pods and revisions are adopted", async || {
        for owners in world.pods_of("a").await?.into_iter().map(|pod| pod.metadata.owner_references)
        {
            ensure!(owners.is_some_and(|owners| owners.len() == 1), "an orphan is left");
        }
        Ok(())
    })
    .await
}

/// The name of a revision is taken by another object.
async fn collide(world: &World) -> Result<()> {
    world.roll_out(&daemon_set("b")).await?;
    let of_b = ListParams::default().labels("app=b");
    let mut revision =
        world.revisions().list(&of_b).await?.items.pop().context("b has a revision")?;
    world.daemon_sets().delete("b", &DeleteParams::background()).await?;
    let name = revision.metadata.name.clone().context("it has a name")?;
    revision.metadata = serde_json::from_value(json!({"name": name}))?;
    revision.data = serde_json::from_value(json!({"another": "template"}))?;
    // A controller that has not observed the deletion of b creates the revision once more, and that
    // one is collected, too.
    eventually("the name is free again, and used", async || {
        world.revisions().create(&PostParams::default(), &revision).await?;
        Ok(())
    })
    .await?;
    let ds = world.roll_out(&daemon_set("b")).await?;
    let collisions = ds.status.and_then(|status| status.collision_count);
    ensure!(collisions == Some(1), "collisionCount is {collisions:?}");
    Ok(())
}

/// The same error repeatedly is one event with a growing count.
async fn fail_again_and_again(world: &World) -> Result<()> {
    let spec =
        json!({"serviceAccountName": "missing", "containers": [{"name": "main", "image": IMAGE}]});
    let manifest = with(daemon_set("c"), json!({"spec": {"template": {"spec": spec}}}));
    world.create_daemon_set(&manifest).await?;
    eventually("an event is counted", async || {
        let events = world.events().list(&ListParams::default()).await?.items;
        let series = events.iter().filter(|event| event.reason.as_deref() == Some("FailedCreate"));
        let longest = series.filter_map(|event| event.deprecated_count).max();
        ensure!(longest.is_some_and(|count| count > 1), "none is counted");
        Ok(())
    })
    .await
}

/// The account and its role, of all objects of the manifest. Roles with labels are for people.
pub(crate) fn rights_in(manifest: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(manifest)?;
    let documents = text.split("\n---\n").map(serde_saphyr::from_str);
    let mut documents: Vec<Value> = documents.collect::<Result<_, _>>()?;
    let kinds = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    let is_of_account = |document: &Value| document["metadata"]["labels"].is_null();
    documents.retain(|document| {
        kinds.iter().any(|kind| document["kind"] == *kind) && is_of_account(document)
    });
    ensure!(documents.len() == kinds.len(), "{} documents of rights", documents.len());
    Ok(documents)
}

pub(crate) async fn apply(world: &World, documents: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
    let arguments = ["apply", "--namespace=kube-system", "-f", "-"];
    world.kubectl_with_input(&arguments, &list.to_string()).await?.ok()?;
    Ok(())
}

/// The permissions that the rules grant, as `VERB RESOURCE[/SUBRESOURCE][.GROUP]`.
fn granted(documents: &[Value]) -> Result<BTreeSet<String>> {
    let mut rights = BTreeSet::new();
    for document in documents {
        let rules: Option<Vec<PolicyRule>> = match document["kind"].as_str() {
            Some("ClusterRole") => serde_json::from_value::<ClusterRole>(document.clone())?.rules,
            Some("Role") => serde_json::from_value::<Role>(document.clone())?.rules,
            _ => None,
        };
        for rule in rules.into_iter().flatten() {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    rights.extend(rule.verbs.iter().map(|verb| right(verb, resource, group)));
                }
            }
        }
    }
    Ok(rights)
}

fn right(verb: &str, resource: &str, group: &str) -> String {
    match group {
        "" => format!("{verb} {resource}"),
        group => format!("{verb} {resource}.{group}"),
    }
}
