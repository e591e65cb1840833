//! Policies as objects: which one counts, what holds a rollout, what their status says, and which
//! values their definitions refuse.

use anyhow::{Context, Result, ensure};
use everynode_k8s::convert::rollout_policy;
use serde_json::{Value, json};

use crate::observe::uids;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::{World, eventually};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/policies");
const ANNOTATION: &str = "everynode.dev/rollout-policy";

/// A gate before everything.
fn gate(name: &str) -> Value {
    json!({ "steps": [{ "name": name, "upTo": [0], "approval": true }] })
}

/// G4, G7, G21: of a RolloutPolicy, a ClusterRolloutPolicy and an annotation the first counts, two
/// of one kind are a conflict, and a policy that is deleted in the middle holds the rollout
#[tokio::test(flavor = "multi_thread")]
async fn one_policy_counts_and_what_has_none_is_held() -> Result<()> {
    let world = World::cluster(4).await?;
    define(&world).await?;
    let annotation = gate("annotated").to_string();
    let manifest = json!({ "metadata": { "annotations": { ANNOTATION: annotation } } });
    world.roll_out(&with(daemon_set("agent"), manifest)).await?;
    eventually("the first template is complete", async || world.stated("agent", "Complete").await)
        .await?;
    let before = uids(&world, "agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    at_gate(&world, "annotated").await?;

    let cluster_policy = world.namespace.clone();
    let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": world.namespace } });
    let mut spec = gate("cluster");
    spec["daemonSets"] = json!({ "selector": {} });
    spec["namespaces"] = here;
    apply(&world, "ClusterRolloutPolicy", &cluster_policy, spec).await?;
    at_gate(&world, "cluster").await?;
    line(&world, "clusterrolloutpolicy", &cluster_policy, "agent AwaitingApproval cluster").await?;

    let mut spec = gate("own");
    spec["daemonSets"] = json!({ "name": "agent" });
    apply(&world, "RolloutPolicy", "own", spec.clone()).await?;
    at_gate(&world, "own").await?;
    line(&world, "rolloutpolicy", "own", "agent AwaitingApproval own").await?;
    line(&world, "clusterrolloutpolicy", &cluster_policy, "").await?;

    apply(&world, "RolloutPolicy", "other", spec).await?;
    let conflict = "RolloutPolicy";
    eventually("the conflict is stated", async || invalid(&world, "select it, so none").await)
        .await?;
    eventually("an event names the conflict", async || {
        let events = world.kubectl(&["get", "events"]).await?;
        let named = format!("{conflict} {}/other and {conflict} {0}/own", world.namespace);
        ensure!(events.contains(&named), "{events}");
        Ok(())
    })
    .await?;
    condition(&world, "rolloutpolicy", "own", "Ready", "False Conflict").await?;
    condition(&world, "rolloutpolicy", "other", "Stalled", "True Conflict").await?;
    world.kubectl(&["delete", "rolloutpolicy", "other"]).await?;
    at_gate(&world, "own").await?;
    condition(&world, "rolloutpolicy", "own", "Ready", "True Valid").await?;
    commands_know_the_policy(&world).await?;

    // In the middle of the rollout all policies go away.
    let none = json!({ "metadata": { "annotations": { ANNOTATION: null } } });
    world.patch_daemon_set("agent", none).await?;
    world.kubectl(&["delete", "clusterrolloutpolicy", &cluster_policy]).await?;
    world.kubectl(&["delete", "rolloutpolicy", "own"]).await?;
    eventually("its absence is stated", async || invalid(&world, "was removed").await).await?;
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("InvalidPolicy") && get.contains("policy: none\n"), "{get}");
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced or deleted");
    world.everynode(&["rollout", "promote", "ds/agent", "--full"]).await?.ok()?;
    world.settled("agent").await?;
    let all = world.pods_of("agent").await?.len();
    ensure!(world.images("agent").await? == [(NEXT_IMAGE.to_owned(), all)].into());
    Ok(())
}

/// G5, G7, G21: a policy that the controller cannot follow holds what it selects, and says why; one
/// that is mended goes on. Commands and forecasts see the same policy as the controller.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_policy_holds_what_it_selects() -> Result<()> {
    let world = World::cluster(4).await?;
    define(&world).await?;
    let label = json!({ "metadata": { "labels": { "tier": "agent" } } });
    world.roll_out(&with(daemon_set("agent"), label)).await?;
    world.roll_out(&daemon_set("other")).await?;
    let mut spec = gate("canary");
    spec["steps"][0]["upTo"] = json!([1]);
    spec["daemonSets"] = json!({ "selector": { "matchLabels": { "tier": "agent" } } });
    let valid = spec.clone();
    // The definition only knows what the name of a time zone looks like.
    spec["windows"] = json!([{ "timeZone": "Mars/Olympus_Mons" }]);
    apply(&world, "RolloutPolicy", "agents", spec).await?;
    eventually("the field is named", async || {
        invalid(&world, "spec.windows[0].timeZone: Invalid value: \"Mars/Olympus_Mons\"").await
    })
    .await?;
    condition(&world, "rolloutpolicy", "agents", "Ready", "False Invalid").await?;
    let before = uids(&world, "agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.patch_daemon_set("other", image_patch(NEXT_IMAGE)).await?;
    world.settled("other").await?;
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced");
    let explained = world.everynode(&["explain", "ds/agent"]).await?.ok()?;
    ensure!(explained.contains("Mars/Olympus_Mons"), "{explained}");

    apply(&world, "RolloutPolicy", "agents", valid).await?;
    at_gate(&world, "canary").await?;
    let all = before.len();
    ensure!(
        world.images("agent").await?
            == [(IMAGE.to_owned(), all - 1), (NEXT_IMAGE.to_owned(), 1)].into()
    );
    let get = world.everynode(&["rollout", "get", "ds/agent", "-o", "json"]).await?.ok()?;
    let get: Value = serde_json::from_str(&get)?;
    ensure!(get["wave"] == "canary", "{get}");
    ensure!(get["policy"] == format!("RolloutPolicy {}/agents", world.namespace), "{get}");
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.settled("agent").await?;
    line(&world, "rolloutpolicy", "agents", "agent Complete").await?;
    let table = world.kubectl(&["get", "rp"]).await?;
    let row = table.lines().find(|line| line.starts_with("agents")).unwrap_or_default();
    ensure!(
        row.split_whitespace().take(5).eq(["agents", "True", "False", "Valid", "1"]),
        "{table}"
    );
    Ok(())
}

/// G4, G5: the definitions refuse what the annotation's parser refuses, with the name of the field,
/// and take what it takes
#[tokio::test(flavor = "multi_thread")]
async fn definitions_and_annotation_refuse_the_same_values() -> Result<()> {
    let world = World::cluster(1).await?;
    define(&world).await?;
    let mut wrong = Vec::new();
    for (text, should) in values() {
        let parsed = rollout_policy(&text).map(drop);
        let created = dry_run(&world, &text).await?;
        if parsed.is_ok() != should || created.is_ok() != should || !name_a_field(&parsed, &created)
        {
            wrong.push(format!("{text}\n  annotation: {parsed:?}\n  definition: {created:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What only objects have.
    for (kind, spec) in [
        ("RolloutPolicy", json!({})),
        ("RolloutPolicy", json!({ "daemonSets": {} })),
        ("RolloutPolicy", json!({ "daemonSets": { "name": "a", "selector": {} } })),
        ("RolloutPolicy", json!({ "daemonSets": { "name": "A" } })),
        ("RolloutPolicy", json!({ "daemonSets": { "name": "a" }, "namespaces": {} })),
        ("ClusterRolloutPolicy", json!({ "daemonSets": { "name": "a" } })),
        ("ClusterRolloutPolicy", json!({ "daemonSets": { "name": "a", "selector": {} } })),
        ("ClusterRolloutPolicy", json!({ "daemonSets": {} })),
        ("ClusterRolloutPolicy", json!({ "daemonSets": { "selector": {} }, "namespaces": 3 })),
    ] {
        let created = create(&world, kind, &spec).await?;
        ensure!(created.is_err(), "{kind} {spec} was taken");
    }
    let spec = json!({ "daemonSets": { "selector": {} }, "namespaces": {} });
    ensure!(create(&world, "ClusterRolloutPolicy", &spec).await?.is_ok());
    Ok(())
}

/// True if both errors, if there are any, name the same field of the spec.
fn name_a_field(parsed: &Result<(), String>, created: &Result<(), String>) -> bool {
    let (Err(parsed), Err(created)) = (parsed, created) else { return true };
    let field = parsed.split(['.', '[', ':']).next().unwrap_or_default();
    !field.is_empty() && created.contains(&format!("spec.{field}"))
}

/// Specs without `daemonSets` as YAML, and whether they are valid.
fn values() -> Vec<(String, bool)> {
    let text = include_str!("policies.txt");
    let mut valid = true;
    let mut values = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line {
            "valid:" => valid = true,
            "invalid:" => valid = false,
            value => values.push((value.replace("LONG", &"x".repeat(64)), valid)),
        }
    }
    values
}

async fn dry_run(world: &World, text: &str) -> Result<Result<(), String>> {
    let mut spec: Value = serde_saphyr::from_str(text)?;
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("daemonSets".to_owned(), json!({ "name": "agent" }));
    }
    create(world, "RolloutPolicy", &spec).await
}

/// The server's answer to a creation that is not carried out, with unknown fields as errors.
async fn create(world: &World, kind: &str, spec: &Value) -> Result<Result<(), String>> {
    let collection = match kind {
        "RolloutPolicy" => format!("namespaces/{}/rolloutpolicies", world.namespace),
        _ => "clusterrolloutpolicies".to_owned(),
    };
    let path =
        format!("/apis/everynode.dev/v1alpha1/{collection}?dryRun=All&fieldValidation=Strict");
    let object = json!({ "apiVersion": "everynode.dev/v1alpha1", "kind": kind,
        "metadata": { "name": "test" }, "spec": spec });
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())?;
    match world.client.request_text(request).await {
        Ok(_) => Ok(Ok(())),
        Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => {
            Ok(Err(status.message.clone()))
        }
        Err(error) => Err(error.into()),
    }
}

/// The commands read policies that are objects: a pause, and an order that ends a record that can't
/// be read. In the end the rollout is at the gate again.
async fn commands_know_the_policy(world: &World) -> Result<()> {
    let mut spec = gate("own");
    spec["daemonSets"] = json!({ "name": "agent" });
    let mut paused = spec.clone();
    paused["paused"] = json!(true);
    apply(world, "RolloutPolicy", "own", paused).await?;
    eventually("the pause is stated", async || world.stated("agent", "Paused").await).await?;
    let status = world.everynode(&["status", "ds/agent", "--fail-fast"]).await?;
    ensure!(status.code == 5 && status.stdout.contains("paused: "), "{status:?}");
    let top = world.everynode(&["top", "-o", "json"]).await?.ok()?;
    ensure!(top.contains(r#""state": "paused""#), "{top}");
    let resumed = world.everynode(&["rollout", "resume", "ds/agent"]).await?;
    let why = "the rollout policy pauses the rollout";
    ensure!(resumed.code == 1 && resumed.stderr.contains(why), "{resumed:?}");
    apply(world, "RolloutPolicy", "own", spec).await?;
    at_gate(world, "own").await?;

    let history = world.everynode(&["history", "ds/agent", "-o", "json"]).await?.ok()?;
    let history: Value = serde_json::from_str(&history)?;
    let entries = history.as_array().or_else(|| history["items"].as_array());
    let mut entries = entries.context("a list")?.iter();
    let current = entries.find(|entry| entry["current"] == true).context("a current one")?;
    let name = current["name"].as_str().context("a name")?;
    let unreadable = r#"everynode.dev/rollout={"phase":"Wondering"}"#;
    world.kubectl(&["annotate", "controllerrevision", name, unreadable, "--overwrite"]).await?;
    eventually("it is stated", async || world.stated("agent", "InvalidRecord").await).await?;
    let approved = world.everynode(&["rollout", "approve", "ds/agent"]).await?;
    ensure!(approved.code == 1 && approved.stderr.contains("cannot be read"), "{approved:?}");
    world.everynode(&["rollout", "retry", "ds/agent"]).await?.ok()?;
    at_gate(world, "own").await
}

/// Installs the definitions, and waits until they are served.
async fn define(world: &World) -> Result<()> {
    for file in ["rollout-policies.yaml", "cluster-rollout-policies.yaml"] {
        world.kubectl(&["apply", "-f", &format!("{DEPLOY}/{file}")]).await?;
    }
    for plural in ["rolloutpolicies", "clusterrolloutpolicies"] {
        let definition = format!("crd/{plural}.everynode.dev");
        world.kubectl(&["wait", "--for=condition=Established", &definition]).await?;
    }
    Ok(())
}

async fn apply(world: &World, kind: &str, name: &str, spec: Value) -> Result<()> {
    let object = json!({ "apiVersion": "everynode.dev/v1alpha1", "kind": kind,
        "metadata": { "name": name }, "spec": spec });
    eventually("the definition is served", async || {
        world.kubectl_with_input(&["apply", "-f", "-"], &object.to_string()).await?.ok()
    })
    .await
    .map(drop)
}

/// Waits until the rollout of `agent` must be approved at this wave.
async fn at_gate(world: &World, wave: &str) -> Result<()> {
    eventually("a wave must be approved", async || {
        world.stated("agent", "AwaitingApproval").await?;
        message_has(world, &format!("wave {wave} must be approved")).await
    })
    .await
}

async fn invalid(world: &World, why: &str) -> Result<()> {
    ensure!(world.conditions("agent").await?["Progressing"] == "InvalidPolicy");
    message_has(world, why).await
}

async fn message_has(world: &World, part: &str) -> Result<()> {
    let status = world.daemon_sets().get("agent").await?.status.context("no status")?;
    let messages: Vec<_> = status.conditions.into_iter().flatten().map(|c| c.message).collect();
    ensure!(messages.iter().flatten().any(|message| message.contains(part)), "{messages:?}");
    Ok(())
}

/// Waits until the status of a policy has this condition.
async fn condition(
    world: &World,
    kind: &str,
    name: &str,
    condition: &str,
    expected: &str,
) -> Result<()> {
    let path = format!(
        "jsonpath={{range .status.conditions[?(@.type==\"{condition}\")]}}{{.status}} \
         {{.reason}}{{end}}"
    );
    status_is(world, kind, name, &path, expected).await
}

/// Waits until the status of a policy has this line alone: name, phase and wave.
async fn line(world: &World, kind: &str, name: &str, expected: &str) -> Result<()> {
    let path = "jsonpath={range .status.daemonSets[*]}{.name} {.phase} {.wave}{end}";
    status_is(world, kind, name, path, expected).await
}

async fn status_is(
    world: &World,
    kind: &str,
    name: &str,
    path: &str,
    expected: &str,
) -> Result<()> {
    eventually("the status of the policy says so", async || {
        let found = world.kubectl(&["get", kind, name, "-o", path]).await?;
        ensure!(found.trim() == expected, "{kind} {name}: {found:?}, not {expected:?}");
        Ok(())
    })
    .await
}
