//! The table of types that the sandbox reads, one struct a line.

use std::fmt::Write as _;

use serde_json::Value;

use super::types::{Field, Omitted, Shape, Struct, StructForm, Topology, Types, table_name};

/// The lines below the first, which has the version.
const HEADER: &str = "\
# Written by `cargo xtask kubernetes` and not by hand, from the types of the Go modules
# k8s.io/api, apimachinery, apiextensions-apiserver and kube-aggregator, as is
# definitions.json.gz, which has the descriptions of their comments (copyright: The Kubernetes
# Authors; licence: Apache-2.0).
#
# The types of the API: a struct, then the protobuf number, the JSON name and the type of each
# field. Number 0 is a field that protobuf has elsewhere, `-` is a struct whose fields are its
# parent's in JSON. After a name, `?` means that Go's encoder leaves out an empty value, `!` that
# it always writes the field (`!^`: as null if it is absent), and neither that it leaves out an
# absent one. A type may be `string:GO TYPE`; `*` is a list, `%` a map from strings, and `|` a
# struct or any other JSON. Then come, where they are not the default: the strategy of strategic
# merge patches, as STRATEGY:KEY for the lists that they merge; `set`, `keys:KEY+KEY`, `atomic` or
# `granular` for what server-side apply takes for one field; and `=DEFAULT` in OpenAPI documents.
# For apply, a list that patches merge is keyed by the same key or a set, other lists are atomic,
# and maps and structs granular, but for structs with `atomic` after their names.
";

/// The table: what it is, and all structs, ordered by name.
pub(super) fn table(types: &Types, version: &str) -> String {
    let mut rows = format!("# Kubernetes {version}\n{HEADER}");
    for (name, of) in &types.structs {
        rows.push_str(name);
        rows.push_str(if of.is_atomic { " atomic:" } else { ":" });
        for (index, field) in fields(of).iter().enumerate() {
            rows.push_str(if index == 0 { " " } else { ", " });
            rows.push_str(field);
        }
        rows.push('\n');
    }
    rows
}

fn fields(of: &Struct) -> Vec<String> {
    match &of.form {
        StructForm::Fields(fields) => fields.iter().map(row).collect(),
        StructForm::Items(item) => vec![format!("1 items *{}", type_of(item))],
    }
}

/// `6 ports? *core.v1.ContainerPort merge:containerPort`
fn row(field: &Field) -> String {
    let Field { number, name, shape, .. } = field;
    let Some(name) = name else { return format!("{number} - {}", type_of(shape)) };
    let encoded = match (field.omitted, field.is_pointer) {
        (Omitted::Never, false) => "!",
        (Omitted::Never, true) => "!^",
        (Omitted::IfEmpty, false) => "?",
        (Omitted::IfEmpty, true) => "",
    };
    let mut row = format!("{number} {name}{encoded} {}", type_of(shape));
    for word in [strategy(field), topology(field)].into_iter().flatten() {
        let _ = write!(row, " {word}");
    }
    match &field.default {
        Some(Value::String(text)) => row + " =" + text,
        Some(other) => format!("{row} ={other}"),
        None => row,
    }
}

fn type_of(shape: &Shape) -> String {
    match shape {
        Shape::Struct(go_name) => table_name(go_name),
        Shape::Map(item) => format!("%{}", type_of(item)),
        Shape::List(item) => format!("*{}", type_of(item)),
        Shape::Text(None) => "string".to_owned(),
        Shape::Text(Some(go_type)) => format!("string:{go_type}"),
        Shape::Scalar(name) => (*name).to_owned(),
        Shape::Bytes => "bytes".to_owned(),
        Shape::Special(special) => special.row.to_owned(),
    }
}

fn strategy(field: &Field) -> Option<String> {
    let strategy = field.patch_strategy.as_ref()?.replace(',', "+");
    Some(match &field.patch_merge_key {
        Some(key) => format!("{strategy}:{key}"),
        None => strategy,
    })
}

/// The marker for server-side apply, unless it follows from the strategy of patches.
fn topology(field: &Field) -> Option<String> {
    let merges = field.patch_strategy.as_ref().is_some_and(|strategy| strategy.contains("merge"));
    let key = field.patch_merge_key.as_ref();
    match field.topology.as_ref()? {
        Topology::Atomic if matches!(field.shape, Shape::List(_)) && !merges => None,
        Topology::Atomic if matches!(field.shape, Shape::Bytes) => None,
        Topology::Atomic => Some("atomic".to_owned()),
        Topology::Granular => Some("granular".to_owned()),
        Topology::Set if merges && key.is_none() => None,
        Topology::Set => Some("set".to_owned()),
        Topology::Keyed(keys) if keys.len() == 1 && keys.first() == key => None,
        Topology::Keyed(keys) => Some(format!("keys:{}", keys.join("+"))),
    }
}
