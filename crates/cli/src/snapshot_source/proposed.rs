//! A DaemonSet as `kubectl apply` would leave it: validated by the server, or computed here.

use everynode_core::api::TEMPLATE_GENERATION_ANNOTATION;
use everynode_sandbox::kinds::DAEMON_SET;
use everynode_sandbox::patch::{self, LAST_APPLIED, PatchType};
use everynode_sandbox::status::Status;
use everynode_sandbox::{defaults, json as sandbox, validation};
use serde_json::{Value, json};

use crate::cluster::{Cluster, DryRun, Error, Resource, parsed};

/// The DaemonSet after `manifest` is applied to `live`, from the server's dry run, and what the
/// server warns of. Nothing is written.
///
/// # Errors
/// If the server rejects the object or does not answer.
pub(crate) async fn dry_run_on_server(
    cluster: &Cluster,
    live: Option<&Value>,
    manifest: &Value,
) -> Result<(Value, Vec<String>), Error> {
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let written = match live {
        None => {
            cluster.dry_run_create(Resource::DaemonSets, namespace, &settable(manifest)).await?
        }
        Some(live) => {
            let (_, patch) = apply_patch(live, manifest)
                .map_err(|status| Error::Rejected { message: status.message.clone() })?;
            let patch = Value::from(patch);
            cluster
                .patch(Resource::DaemonSets, Some(namespace), name, &patch, DryRun::Server)
                .await?
        }
    };
    Ok((parsed(Resource::DaemonSets, written.object.get())?, written.warnings))
}

/// The DaemonSet after `manifest` is applied to `live`, with the defaults and the validation of
/// apps/v1. It lacks what the cluster's admission plugins would change.
///
/// # Errors
/// If the API server would reject the object.
pub(crate) fn apply_locally(live: Option<&Value>, manifest: &Value) -> anyhow::Result<Value> {
    let name = super::key(manifest);
    let invalid = |what: String| anyhow::anyhow!("daemonset {name} is not valid: {what}");
    let of_sandbox = sandbox::Value::from;
    let given = of_sandbox(manifest.clone());
    validation::decode(&DAEMON_SET, &given).map_err(|error| invalid(error.to_string()))?;
    let unknown = validation::unknown_fields(&DAEMON_SET, &given);
    anyhow::ensure!(unknown.is_empty(), invalid(unknown.join(", ")));
    let stored = live.cloned().map(of_sandbox);
    let mut object = match live.zip(stored.as_ref()) {
        None => of_sandbox(settable(manifest)),
        Some((live, stored)) => apply_patch(live, manifest)
            .and_then(|(form, patch)| patch::apply(&DAEMON_SET, form, stored, &patch))
            .map_err(|status| invalid(status.message.clone()))?,
    };
    defaults::apply(&DAEMON_SET, &mut object);
    let causes = match &stored {
        None => validation::on_create(&DAEMON_SET, &object),
        Some(stored) => validation::on_update(&DAEMON_SET, &object, stored),
    };
    if !causes.is_empty() {
        let messages: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        return Err(invalid(messages.join("; ")));
    }
    let mut object = object.into();
    set_generations(live, &mut object);
    Ok(object)
}

/// The DaemonSet after a strategic merge patch.
///
/// # Errors
/// If the patch can't be applied.
pub(crate) fn patch_locally(live: &Value, patch: &Value) -> anyhow::Result<Value> {
    let [stored, patch] = [live, patch].map(|value| sandbox::Value::from(value.clone()));
    let patched = patch::apply(&DAEMON_SET, PatchType::StrategicMerge, &stored, &patch);
    let mut object = patched.map_err(|status| anyhow::anyhow!("{}", status.message))?.into();
    set_generations(Some(live), &mut object);
    Ok(object)
}

/// The patch that `kubectl apply` would send.
fn apply_patch(live: &Value, manifest: &Value) -> Result<(PatchType, sandbox::Value), Status> {
    let of_sandbox = sandbox::Value::from;
    let manifest = patch::with_last_applied(of_sandbox(settable(manifest)));
    patch::of_apply(&DAEMON_SET, &of_sandbox(live.clone()), &manifest)
}

/// The object without the fields that the API server or `kubectl apply` sets.
pub(crate) fn settable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"]
        {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}

/// Sets the generations as the server would, and a placeholder UID for a new object.
fn set_generations(live: Option<&Value>, object: &mut Value) {
    let Some(live) = live else {
        object["metadata"]["uid"] = "not-created-yet".into();
        object["metadata"]["generation"] = 1.into();
        return;
    };
    if object["spec"] != live["spec"] {
        let generation = live["metadata"]["generation"].as_i64().unwrap_or(0);
        object["metadata"]["generation"] = (generation + 1).into();
    }
    let counted = live["metadata"]["annotations"][TEMPLATE_GENERATION_ANNOTATION].as_str();
    let counted = counted.and_then(|text| text.parse::<i64>().ok());
    if let (Some(counted), true) = (counted, object["spec"]["template"] != live["spec"]["template"])
    {
        object["metadata"]["annotations"][TEMPLATE_GENERATION_ANNOTATION] =
            json!((counted + 1).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S5: as after `kubectl apply`, annotations that others have set stay, also if the manifest
    /// states none.
    #[test]
    fn annotations_of_others_stay() {
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "agent", "namespace": "infra" },
            "spec": {
                "selector": { "matchLabels": { "app": "agent" } },
                "template": { "metadata": { "labels": { "app": "agent" } },
                    "spec": { "containers": [{ "name": "agent", "image": "agent:1" }] } },
            },
        });
        let mut live = apply_locally(None, &manifest).unwrap();
        live["metadata"]["resourceVersion"] = "1".into();
        let applied = patch::with_last_applied(manifest.clone().into());
        live["metadata"]["annotations"] = Value::from(applied)["metadata"]["annotations"].clone();
        live["metadata"]["annotations"]["everynode.dev/paused"] = "true".into();
        let proposed = apply_locally(Some(&live), &manifest).unwrap();
        assert_eq!(proposed["metadata"]["annotations"], live["metadata"]["annotations"]);
    }
}
