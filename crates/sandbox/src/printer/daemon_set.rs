//! Tables of DaemonSets and ControllerRevisions.

use everynode_core::api::Timestamp;

use super::{AGE, Column, NAME, Printer, age, name, or_none};
use crate::json::{Value, json};
use crate::value::{array, boolean, integer, string, string_map};

pub(super) const PRINTER: Printer = Printer {
    columns: &[
        NAME,
        Column::new("Desired", "The number of nodes that should run the daemon pod").integer(),
        Column::new("Current", "The number of nodes that should run the daemon pod and have one")
            .integer(),
        Column::new("Ready", "The number of nodes with a ready daemon pod").integer(),
        Column::new("Up-to-date", "The number of nodes that run the current template").integer(),
        Column::new("Available", "The number of nodes with an available daemon pod").integer(),
        Column::new("Node Selector", "The labels that a node must have"),
        AGE,
        Column::new("Containers", "Names of each container in the template.").wide(),
        Column::new("Images", "Images referenced by each container in the template.").wide(),
        Column::new("Selector", "The labels of the pods that are managed").wide(),
    ],
    cells,
};

pub(super) const REVISION_PRINTER: Printer = Printer {
    columns: &[
        NAME,
        Column::new("Controller", "Controller of the object"),
        Column::new("Revision", "The number of the revision").integer(),
        AGE,
    ],
    cells: revision_cells,
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let count = |field: &str| json!(integer(object, &format!("/status/{field}")));
    let containers = array(object, "/spec/template/spec/containers");
    let join = |field| {
        containers.iter().map(|container| string(container, field)).collect::<Vec<_>>().join(",")
    };
    vec![
        name(object).into(),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        or_none(&labels(object, "/spec/template/spec/nodeSelector")).into(),
        age(object, now).into(),
        join("/name").into(),
        join("/image").into(),
        or_none(&selector(object)).into(),
    ]
}

fn revision_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = array(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| boolean(owner, "/controller"));
    let controller = owner.map(controller_name).unwrap_or_default();
    vec![
        name(object).into(),
        or_none(&controller).into(),
        json!(integer(object, "/revision")),
        age(object, now).into(),
    ]
}

/// An owner as `kind.group/name`.
fn controller_name(owner: &Value) -> String {
    let kind = string(owner, "/kind").to_lowercase();
    let name = string(owner, "/name");
    match string(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

pub(super) fn labels(object: &Value, path: &str) -> String {
    let labels = string_map(object, path);
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// The selector in one line, ordered by key as upstream does.
pub(super) fn selector(object: &Value) -> String {
    let mut requirements: Vec<(&str, String)> = string_map(object, "/spec/selector/matchLabels")
        .into_iter()
        .map(|(key, value)| (key, format!("{key}={value}")))
        .collect();
    for expression in array(object, "/spec/selector/matchExpressions") {
        requirements.push((string(expression, "/key"), requirement(expression)));
    }
    requirements.sort_by_key(|(key, _)| *key);
    requirements.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn requirement(expression: &Value) -> String {
    let key = string(expression, "/key");
    let mut values: Vec<&str> =
        array(expression, "/values").iter().filter_map(Value::as_str).collect();
    values.sort_unstable();
    match string(expression, "/operator") {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    }
}
