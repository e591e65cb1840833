//! The rows of custom kinds, one for each version of a definition (S15).

use std::cmp::Reverse;

use crate::json::Value;

use crate::custom::{CustomKind, CustomType};
use crate::kind::{FieldLabels, Kind, Subresource, Verb, named};

/// Maximum number of different rows that are made while a sandbox runs, because each stays in
/// memory.
const ROWS_MAX: usize = 20_000;

/// There have been too many different custom kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sandbox has served {ROWS_MAX} different versions of custom kinds, and serves no more")]
pub struct TooManyKinds;

/// The verbs in the order of upstream's discovery.
const VERBS: &[Verb] = &[
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Create,
    Verb::Update,
    Verb::Watch,
];

/// The verbs while the definition is being deleted.
const TERMINATING: &[Verb] =
    &[Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Watch];

/// The order of custom kinds in discovery: by group; in a group the most stable version first.
pub(super) fn order(kind: &Kind) -> impl Ord + use<> {
    (kind.group, stability(kind.version), kind.plural)
}

/// The order of versions: `v2`, `v1`, `v2beta1`, `v1alpha1`, then all others (upstream's
/// `CompareKubeAwareVersionStrings`, the newest first).
fn stability(version: &str) -> impl Ord + use<> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with('0'));
    let parsed = version.strip_prefix('v').and_then(|rest| {
        if let Some(major) = number(rest) {
            return Some((0, major, 0));
        }
        for (level, word) in [(1, "beta"), (2, "alpha")] {
            if let Some((major, minor)) = rest.split_once(word) {
                return Some((level, number(major)?, number(minor)?));
            }
        }
        None
    });
    match parsed {
        Some((level, major, minor)) => (level, Reverse(major), Reverse(minor), String::new()),
        None => (3, Reverse(0), Reverse(0), version.to_owned()),
    }
}

/// The rows of the served versions of a definition. `made` has those that were made before.
pub(super) fn rows(
    definition: &Value,
    made: &mut Vec<&'static Kind>,
) -> Result<Vec<&'static Kind>, TooManyKinds> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions.iter().find(|version| version["storage"] == true);
    let Some(stored) = stored else { return Ok(Vec::new()) };
    let storage = row(definition, stored, None, made)?;
    let mut rows = Vec::new();
    for version in versions.iter().filter(|version| version["served"] == true) {
        let is_storage = version["storage"] == true;
        rows.push(if is_storage {
            storage
        } else {
            row(definition, version, Some(storage), made)?
        });
    }
    Ok(rows)
}

fn row(
    definition: &Value,
    version: &Value,
    stored_as: Option<&'static Kind>,
    made: &mut Vec<&'static Kind>,
) -> Result<&'static Kind, TooManyKinds> {
    let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
    let is_terminating = definition["metadata"]["deletionTimestamp"].is_string();
    let custom = CustomType::of_version(definition, version);
    let (group, name) = (text(&spec["group"]), text(&version["name"]));
    let [kind, plural, singular] = ["kind", "plural", "singular"].map(|field| text(&names[field]));
    let [short_names, categories] = ["shortNames", "categories"].map(|field| texts(&names[field]));
    let (fields, deprecation) = (selectable(version), deprecation(spec, version));
    let rest = Kind {
        namespaced: spec["scope"] == "Namespaced",
        verbs: if is_terminating { TERMINATING } else { VERBS },
        subresources: subresources(version),
        counts_generations: true,
        stored_as,
        ..named("", "", "", "")
    };
    let same = made.iter().find(|row| {
        (row.group, row.version, row.kind) == (group, name, kind)
            && (row.plural, row.singular) == (plural, singular)
            && row.short_names == short_names
            && row.categories == categories
            && matches!(row.field_labels, FieldLabels::Listed(known) if known == fields)
            && row.deprecation == deprecation.as_deref()
            && row.namespaced == rest.namespaced
            && row.verbs == rest.verbs
            && row.subresources == rest.subresources
            && row.stored_as == rest.stored_as
    });
    if let Some(known) = same {
        if let Some(slot) = known.custom {
            slot.set(custom);
        }
        return Ok(known);
    }
    if made.len() >= ROWS_MAX {
        return Err(TooManyKinds);
    }
    let row: &'static Kind = Box::leak(Box::new(Kind {
        group: leak(group),
        version: leak(name),
        kind: leak(kind),
        plural: leak(plural),
        singular: leak(singular),
        short_names: leak_all(&short_names),
        categories: leak_all(&categories),
        field_labels: FieldLabels::Listed(leak_all(&fields)),
        deprecation: deprecation.as_deref().map(leak),
        custom: Some(Box::leak(Box::new(CustomKind::new(custom)))),
        ..rest
    }));
    made.push(row);
    Ok(row)
}

fn subresources(version: &Value) -> &'static [Subresource] {
    let has = |name: &str| version["subresources"][name].is_object();
    match (has("status"), has("scale")) {
        (false, false) => &[],
        (true, false) => &[Subresource::Status],
        (false, true) => &[Subresource::Scale],
        (true, true) => &[Subresource::Status, Subresource::Scale],
    }
}

fn selectable(version: &Value) -> Vec<&str> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields.filter_map(|field| field["jsonPath"].as_str()?.strip_prefix('.')).collect()
}

/// The warning for requests in a deprecated version, with upstream's default.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return Some(warning.to_owned());
    }
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let name = text(&version["name"]);
    let others = spec["versions"].as_array().into_iter().flatten();
    let newer = others
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .map(|other| text(&other["name"]))
        .filter(|other| stability(other) < stability(name))
        .min_by_key(|other| stability(other));
    let instead = newer.map(|newer| format!("; use {group}/{newer} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{instead}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.into())
}

fn leak_all(texts: &[&str]) -> &'static [&'static str] {
    let leaked: Vec<&'static str> = texts.iter().map(|text| leak(text)).collect();
    Box::leak(leaked.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S15: versions are ordered as upstream orders them.
    #[test]
    fn stable_and_newer_versions_come_first() {
        let ordered = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
        ];
        assert!(ordered.is_sorted_by_key(|version| stability(version)));
    }
}
