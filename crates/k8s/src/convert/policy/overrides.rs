//! The overrides of a policy, and the same as a revision stores them (G57).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use everynode_core::api::{Amount, ContainerOverride, NodeOverride, Overrides};
use everynode_core::revisions::revision_hash;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Errors, Schema};
use crate::quantity::Quantity;

/// Maximum length of the text that a revision stores, of whose annotations an API server takes
/// 256 KiB.
const TEXT_LENGTH_MAX: usize = 64 * 1024;

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<Vec<NodeOverride>>);

/// The overrides in the annotation of a revision.
///
/// # Errors
/// Why the text states none.
pub(in crate::convert) fn stored_overrides(text: &str) -> Result<Overrides, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut errors = Errors::default();
    let read = SCHEMA.read("", &value, &mut errors).ok_or_else(|| errors.to_string())?;
    let overrides = serde_json::from_value(read.clone()).map_err(|error| error.to_string())?;
    complete(&overrides, &read)
}

/// Adds what the schema does not read: amounts, tags and the text. `stated` is the same as JSON.
///
/// # Errors
/// The field with an amount that is no quantity, or that the text is too long.
pub(super) fn complete(overrides: &Overrides, stated: &Value) -> Result<Overrides, String> {
    if overrides.list.is_empty() {
        return Ok(Overrides::default());
    }
    let written = overrides.list.iter().enumerate().map(|(index, it)| {
        let containers: Vec<Value> = it.containers.iter().map(container).collect();
        json!({ "name": &*it.name, "nodes": stated[index]["nodes"], "containers": containers })
    });
    let written: Vec<Value> = written.collect();
    let text = text_of(&written);
    if text.len() > TEXT_LENGTH_MAX {
        let length = text.len();
        return Err(format!("overrides: Too long: {length} bytes: at most {TEXT_LENGTH_MAX}"));
    }
    let list = overrides.list.iter().zip(&written).enumerate().map(|(index, (it, written))| {
        let mut completed = NodeOverride::clone(it);
        let hash = revision_hash(&text_of(&written["containers"]), None);
        completed.tag = format!("{}-{hash}", it.name).into();
        for (number, container) in completed.containers.iter_mut().enumerate() {
            read_amounts(container)
                .map_err(|error| format!("overrides[{index}].containers[{number}].{error}"))?;
        }
        Ok::<_, String>(Arc::new(completed))
    });
    Ok(Overrides { list: list.collect::<Result<_, _>>()?, text: text.into(), copies: None })
}

/// The difference of a container, without fields that state none: a later version that knows more
/// fields writes the same.
fn container(container: &ContainerOverride) -> Value {
    let ContainerOverride { name, resources, env, args, image } = container;
    let mut written = json!({ "name": &**name });
    let lists = [("requests", &resources.requests), ("limits", &resources.limits)];
    for (list, amounts) in lists.into_iter().filter(|(_, amounts)| !amounts.is_empty()) {
        let amounts = amounts.iter().map(|(resource, it)| (resource.to_string(), &*it.text));
        written["resources"][list] = json!(amounts.collect::<BTreeMap<_, _>>());
    }
    if !env.is_empty() {
        let variables = env.iter().map(|it| json!({ "name": &*it.name, "value": &*it.value }));
        written["env"] = variables.collect();
    }
    if let Some(args) = args {
        written["args"] = json!(args);
    }
    if let Some(image) = image {
        written["image"] = json!(&**image);
    }
    written
}

/// The value as JSON with sorted keys.
fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("all keys are strings")
}

fn read_amounts(container: &mut ContainerOverride) -> Result<(), String> {
    let resources = &mut container.resources;
    let lists = [("requests", &mut resources.requests), ("limits", &mut resources.limits)];
    for (list, amounts) in lists {
        for (resource, Amount { text, millis }) in amounts {
            let quantity: Quantity = text.parse().map_err(|error| {
                format!("resources.{list}[{resource}]: Invalid value: \"{text}\": {error}")
            })?;
            *millis = quantity.milli_value();
        }
    }
    Ok(())
}
