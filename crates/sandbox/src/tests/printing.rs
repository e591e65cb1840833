//! Runs `tests/printing/*.txt`: objects as YAML, and the table that kubectl prints for their rows.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use everynode_core::api::Timestamp;

use crate::json::Value;
use crate::kind::Kind;
use crate::kinds::BUILT_IN;
use crate::printer::{cells, row_conditions};

/// The time at which the tables are printed: 2026-01-01T12:00:00Z.
const NOW: Timestamp = Timestamp::from_seconds(1_767_268_800);

/// S4, S13: rows of every kind print as with `kubectl get -o wide`.
#[test]
fn tables_match_the_output_of_kubectl() {
    for name in ["pods", "nodes", "daemonsets", "simple", "roles", "kept"] {
        check(name);
    }
}

/// S4: the row of a finished pod is marked.
#[test]
fn finished_pods_have_a_condition_in_their_row() {
    let conditions = |phase: &str| {
        row_conditions(&crate::kinds::POD, &crate::json::json!({"status": {"phase": phase}}))
    };
    assert_eq!(conditions("Running"), Vec::<Value>::new());
    assert_eq!(conditions("Succeeded")[0]["reason"], "Succeeded");
    assert_eq!(conditions("Failed")[0]["message"], "The pod failed.");
}

/// S4: every kind has as many cells as columns, for any object.
#[test]
fn every_row_has_a_cell_for_each_column() {
    for kind in BUILT_IN.iter() {
        for object in [
            Value::Null,
            crate::json::json!({"metadata": [], "status": 7, "spec": {"containers": 3}}),
        ] {
            assert_eq!(cells(kind, &object, NOW).len(), kind.columns.len(), "{}", kind.kind);
        }
    }
}

fn check(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/printing/{name}.txt"));
    let text = fs::read_to_string(&path).expect("the table is there");
    let (manifests, expected) = text.split_once("\n====\n").expect("manifests and a table");
    let objects: Vec<Value> = crate::yaml::documents(manifests).expect("the manifests are YAML");
    let actual = print(&objects);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, format!("{manifests}\n====\n{actual}")).expect("the table can be written");
    } else {
        assert_eq!(actual, expected, "{name}:\n{actual}");
    }
}

/// One table for each run of objects of the same kind.
fn print(objects: &[Value]) -> String {
    let mut text = String::new();
    let mut last = None;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for object in objects {
        let kind = kind_of(object);
        if last != Some(kind) {
            text.push_str(&layout(&rows));
            rows = vec![kind.columns.iter().map(|column| column.name.to_uppercase()).collect()];
            last = Some(kind);
        }
        let shown = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        rows.push(cells(kind, object, NOW).iter().map(shown).collect());
    }
    text.push_str(&layout(&rows));
    text
}

fn layout(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
            let last = index + 1 == row.len();
            if last { writeln!(text, "{cell}") } else { write!(text, "{cell:<width$}   ") }
                .expect("a String");
        }
    }
    text
}

fn kind_of(object: &Value) -> &'static Kind {
    let (api_version, name) = (object["apiVersion"].as_str(), object["kind"].as_str());
    BUILT_IN
        .iter()
        .find(|kind| Some(kind.api_version().as_str()) == api_version && Some(kind.kind) == name)
        .expect("the kind is served")
}
