//! Rollout policies (G4, G5).

mod errors;
mod overrides;
mod read;
mod rules;
mod schema;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use everynode_core::api::RolloutPolicy;
use everynode_core::api::schema::parse_duration;
use everynode_core::revisions::revision_hash;
use serde_json::Value;

pub(super) use errors::Errors;
pub(super) use overrides::stored_overrides;
pub(super) use read::Schema;
use read::below;
pub(super) use schema::schema_of;

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<RolloutPolicy>);

/// Decodes the policy in the annotation of a DaemonSet: the `spec` of a RolloutPolicy without
/// `daemonSets`, as YAML.
///
/// # Errors
/// What is wrong with it, at most five fields with their values and the reasons, separated by
/// semicolons.
pub fn rollout_policy(yaml: &str) -> Result<RolloutPolicy, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let value: Value = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    read(&SCHEMA, "", &value)
}

/// Reads the fields that all forms of a policy have.
pub(super) fn read(schema: &Schema, path: &str, value: &Value) -> Result<RolloutPolicy, String> {
    let mut errors = Errors::default();
    let read = schema.read(path, value, &mut errors);
    let read = read.ok_or_else(|| errors.to_string())?;
    let steps = read["steps"].as_array().cloned().unwrap_or_default();
    let stated = read.get("overrides").cloned().unwrap_or_default();
    let mut policy: RolloutPolicy = serde_json::from_value(read).map_err(|e| e.to_string())?;
    policy.steps_hash = steps_hash(steps);
    policy.overrides = overrides::complete(&policy.overrides, &stated)
        .map_err(|error| below(path, &error))?
        .into();
    Ok(policy)
}

/// Identifies the meaning of steps, which have the defaults of absent fields: keys are sorted, and
/// durations are numbers, so that only another content has another hash.
fn steps_hash(mut steps: Vec<Value>) -> Arc<str> {
    for step in &mut steps {
        let bake = step["bake"].as_str().and_then(parse_duration);
        step["bake"] = bake.map(|bake| bake.as_secs_f64()).into();
    }
    let text = serde_json::to_string(&steps).expect("all keys are strings");
    revision_hash(&text, None).as_str().into()
}
