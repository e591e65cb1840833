//! The list of kinds, and what each of them declares.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::kind::FieldLabels;
use crate::schema;

/// S2: every kind is found by its URL and by its apiVersion and kind, and no two kinds share
/// either.
#[test]
fn kinds_are_found_by_url_and_by_name() {
    let kinds = built_in();
    for row in kinds.iter() {
        assert_eq!(kinds.by_resource(row.group, row.version, row.plural), Some(row));
        assert_eq!(kinds.by_api_version(&row.api_version(), row.kind), Some(row));
    }
}

/// S9: every built-in kind has a type.
#[test]
fn every_kind_has_a_type() {
    for kind in BUILT_IN.iter() {
        assert!(schema::root_of(kind).is_some(), "roots.txt has no {}", kind.group_kind());
    }
}

/// S2, S13: `tests/kinds.txt` has what each kind declares, so that an omitted aspect is visible.
#[test]
fn each_kind_declares_what_the_list_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kinds.txt");
    let actual: String = BUILT_IN.iter().map(|kind| declared(kind)).collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, actual).expect("the list can be written");
    } else {
        let expected = fs::read_to_string(&path).expect("the list is there");
        let mut lines = actual.lines().zip(expected.lines());
        let changed = lines.find(|(actual, expected)| actual != expected);
        assert_eq!(changed, None, "UPDATE_EXPECT=1 writes tests/kinds.txt");
        assert_eq!(actual.lines().count(), expected.lines().count());
    }
}

/// A line with the names of a kind, and one for each aspect of which it has something.
fn declared(kind: &Kind) -> String {
    let mut text = format!("{} {} {}", kind.api_version(), kind.kind, kind.plural);
    for (name, is_set) in [
        ("cluster-scoped", !kind.namespaced),
        ("kept", kind.is_kept),
        ("generations", kind.counts_generations),
        ("deprecated", kind.deprecation.is_some()),
        ("created by update", kind.strategy.is_created_by_update),
        ("resourceVersion required", kind.strategy.needs_resource_version),
        ("returned when deleted", kind.strategy.returns_deleted_object),
    ] {
        if is_set {
            write!(text, ", {name}").expect("a String takes all writes");
        }
    }
    let (defaults, rules) = (&kind.defaults, &kind.rules);
    let mut aspect = |name: &str, words: Vec<&str>| {
        if !words.is_empty() {
            write!(text, "\n  {name}: {}", words.join(", ")).expect("a String takes all writes");
        }
    };
    aspect("short names", kind.short_names.to_vec());
    aspect("categories", kind.categories.to_vec());
    aspect("subresources", kind.subresources.iter().map(|it| it.name()).collect());
    if let FieldLabels::Listed(fields) = kind.field_labels {
        aspect("field labels", fields.to_vec());
    }
    aspect("columns", kind.columns.iter().map(|column| column.name).collect());
    let completed = defaults.each.iter().map(|(path, _)| *path);
    aspect("defaults", completed.chain(defaults.values.iter().map(|(path, _)| *path)).collect());
    aspect("required", rules.required.iter().map(|(path, _)| *path).collect());
    aspect("choices", rules.choices.iter().map(|(path, _)| *path).collect());
    aspect("not negative", rules.nonnegative.to_vec());
    aspect("checked", rules.each.iter().map(|(path, _)| *path).collect());
    aspect("immutable", rules.immutable.to_vec());
    text + "\n"
}
