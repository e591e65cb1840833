//! What a DaemonSet would be after `kubectl apply`: as the server says, or worked out here.

use everynode_insight::forecast::{apply_patch, settable};
use everynode_sandbox::kind::DAEMON_SET;
use everynode_sandbox::patch::{self, PatchType};
use everynode_sandbox::{defaults, validation};
use serde_json::{Value, json};

use crate::cluster::{Cluster, DryRun, Error, Resource, parsed};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// As the server would have it. Nothing is written.
///
/// # Errors
/// As the server refuses it, or does not answer.
pub async fn by_the_server(
    cluster: &Cluster,
    live: Option<&Value>,
    manifest: &Value,
) -> Result<Value, Error> {
    let text = |field: &str| manifest["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let object = match live {
        None => cluster.try_create(Resource::DaemonSets, namespace, &settable(manifest)).await?,
        Some(live) => {
            let patch = apply_patch(live, manifest);
            cluster
                .patch(Resource::DaemonSets, Some(namespace), name, &patch, DryRun::Server)
                .await?
        }
    };
    parsed(Resource::DaemonSets, object.get())
}

/// As far as it can be told here: with the defaults and by the rules of apps/v1, but not what the cluster's own admission adds.
///
/// # Errors
/// What a server would refuse it for.
pub fn by_ourselves(live: Option<&Value>, manifest: &Value) -> anyhow::Result<Value> {
    let name = super::key(manifest);
    let refused = |what: String| anyhow::anyhow!("daemonset {name} is not valid: {what}");
    validation::decode(&DAEMON_SET, manifest).map_err(|error| refused(error.to_string()))?;
    let unknown = validation::unknown_fields(&DAEMON_SET, manifest);
    anyhow::ensure!(unknown.is_empty(), refused(unknown.join(", ")));
    let mut object = match live {
        None => settable(manifest),
        Some(live) => {
            let patch = apply_patch(live, manifest);
            patch::apply(&DAEMON_SET, PatchType::StrategicMerge, live, &patch)
                .map_err(|status| refused(status.message.clone()))?
        }
    };
    defaults::apply(&DAEMON_SET, &mut object);
    let causes = match live {
        None => validation::on_create(&DAEMON_SET, &object),
        Some(live) => validation::on_update(&DAEMON_SET, &object, live),
    };
    if !causes.is_empty() {
        let told: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        return Err(refused(told.join("; ")));
    }
    number(live, &mut object);
    Ok(object)
}

/// Generations as the server counts them, and a UID for what has none yet.
fn number(live: Option<&Value>, object: &mut Value) {
    let Some(live) = live else {
        object["metadata"]["uid"] = "not-created-yet".into();
        object["metadata"]["generation"] = 1.into();
        return;
    };
    if object["spec"] != live["spec"] {
        let generation = live["metadata"]["generation"].as_i64().unwrap_or(0);
        object["metadata"]["generation"] = (generation + 1).into();
    }
    let counted = live["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    let counted = counted.and_then(|text| text.parse::<i64>().ok());
    if let (Some(counted), true) = (counted, object["spec"]["template"] != live["spec"]["template"])
    {
        object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!((counted + 1).to_string());
    }
}
