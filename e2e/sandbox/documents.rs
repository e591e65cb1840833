//! The documents of `-o json` and `-o yaml` match the schema of docs/schema/v1.json.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::world::guard::guarded;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, never_ready_patch, with};
use crate::world::{Setup, World, eventually};

/// Every command prints documents of the promised kinds, in which no field lacks in the schema.
#[tokio::test(flavor = "multi_thread")]
async fn the_documents_of_every_command_match_the_schema() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 4, ..Setup::default() }).await?;
    let schema = Schema::read()?;
    world.roll_out(&daemon_set("agent")).await?;
    world.patch_daemon_set("agent", never_ready_patch()).await?;
    let steps =
        "steps: [{name: first, by: zone, approval: true}, {name: rest, upTo: [2], bake: 1s}]";
    world.roll_out(&guarded("guarded", steps)).await?;
    world.patch_daemon_set("guarded", image_patch(NEXT_IMAGE)).await?;
    world.reaches("guarded", "AwaitingApproval").await?;
    let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}},
        "metadata": {"finalizers": ["example.com/cleanup"]}});
    world.roll_out(&with(daemon_set("old"), on_delete)).await?;
    world.kubectl(&["delete", "ds/old", "--wait=false"]).await?;
    eventually("a new pod holds up the rollout", async || {
        let top = world.everynode(&["top", "-o", "json"]).await?.ok()?;
        let top: Value = serde_json::from_str(&top)?;
        let mut items = top["items"].as_array().into_iter().flatten();
        let agent = items.find(|item| item["name"] == "agent").context("it is listed")?;
        ensure!(agent["heldUp"][0]["pod"].is_string(), "{top}");
        Ok(())
    })
    .await?;
    let change = with(daemon_set("agent"), image_patch(NEXT_IMAGE));
    let guarded_change = with(guarded("guarded", steps), image_patch("example.com/agent:3.0"));
    let manifest = json!({"apiVersion": "v1", "kind": "List",
        "items": [change, guarded_change, daemon_set("new")]});
    for (arguments, kind) in [
        (&["top"][..], "RolloutList"),
        (&["status", "ds/agent", "--no-wait"], "Rollout"),
        (&["status", "ds/guarded", "--no-wait"], "Rollout"),
        (&["status", "ds/old", "--no-wait"], "Rollout"),
        (&["explain", "ds/agent"], "Explanation"),
        (&["explain", "ds/guarded", "--node", "node-0001"], "NodeExplanation"),
        (&["plan", "-f", "-"], "PlanList"),
        (&["history", "ds/guarded"], "RevisionList"),
        (&["history", "ds/agent", "--revision", "2"], "Revision"),
        (&["diff", "ds/agent"], "RevisionDiff"),
        (&["rollout", "get", "ds/guarded"], "GuardedRollout"),
    ] {
        let document = schema.documents(&world, arguments, &manifest).await?;
        ensure!(document["apiVersion"] == "everynode.dev/v1", "{document}");
        ensure!(document["kind"] == kind, "{arguments:?}: {document}");
    }
    Ok(())
}

/// The words of the text are those of the documents.
#[tokio::test(flavor = "multi_thread")]
async fn text_and_documents_use_the_same_words() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await?;
    let on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    world.roll_out(&with(daemon_set("agent"), on_delete)).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    eventually("the old pods are left", async || {
        let text = world.everynode(&["top"]).await?.ok()?;
        ensure!(text.contains("on delete"), "{text}");
        Ok(())
    })
    .await?;
    let json: Value = serde_json::from_str(&world.everynode(&["top", "-o", "json"]).await?.ok()?)?;
    ensure!(json["items"][0]["state"] == "on delete", "{json}");
    ensure!(json["items"][0]["updateStrategy"] == json!({"type": "OnDelete"}), "{json}");
    let text = world.everynode(&["explain", "ds/agent"]).await?.ok()?;
    let json = world.everynode(&["explain", "ds/agent", "-o", "json"]).await?.ok()?;
    let json: Value = serde_json::from_str(&json)?;
    for group in json["groups"].as_array().context("there are groups")? {
        let words = group["situation"].as_str().context("it is a string")?;
        ensure!(text.contains(&format!("  {words}  ")), "{words}: {text}");
    }
    Ok(())
}

struct Schema(jsonschema::Validator);

impl Schema {
    /// The schema of the docs, in which no field may be added: a field that the docs lack fails.
    fn read() -> Result<Self> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schema/v1.json");
        let mut schema: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
        let definitions = schema["$defs"].as_object_mut().context("it has definitions")?;
        for definition in definitions.values_mut().filter(|it| it.get("properties").is_some()) {
            definition["additionalProperties"] = false.into();
        }
        Ok(Self(jsonschema::validator_for(&schema)?))
    }

    /// The JSON that the command prints, after it and the YAML have been validated.
    async fn documents(&self, world: &World, arguments: &[&str], input: &Value) -> Result<Value> {
        let input = input.to_string();
        let json = [arguments, &["-o", "json"]].concat();
        let json = world.everynode_with_input(&json, &input).await?.stdout;
        let json: Value = serde_json::from_str(&json).with_context(|| format!("{arguments:?}"))?;
        let yaml = [arguments, &["-o", "yaml"]].concat();
        let yaml = world.everynode_with_input(&yaml, &input).await?.stdout;
        let yaml: Value = serde_saphyr::from_str(&yaml)?;
        for document in [&json, &yaml] {
            let errors: Vec<String> = self
                .0
                .iter_errors(document)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            ensure!(errors.is_empty(), "{arguments:?}: {errors:?}: {document}");
        }
        Ok(json)
    }
}
