//! Tables of the kinds that are kept (S13), as data: the columns, and where the cells come from.

mod several;
mod tables;

use everynode_core::api::Timestamp;

use super::daemon_set::{labels, selector};
use super::{Column, age, name, or_none};
use crate::json::{Value, json};
use crate::kind::Kind;
use crate::value::{array, boolean, integer, string};
use tables::TABLES;

/// The table of a kind.
pub(super) struct Table {
    group: &'static str,
    kind: &'static str,
    pub columns: &'static [Column],
    cells: &'static [Cell],
}

/// Where a cell comes from. Paths are JSON pointers.
enum Cell {
    Name,
    Age,
    /// A text, or another one if it is empty.
    Text(&'static str, &'static str),
    Integer(&'static str),
    Boolean(&'static str),
    /// The number of elements of a list.
    Count(&'static str),
    /// The keys and values of a map.
    Labels(&'static str),
    /// `spec.selector`, with expressions.
    Selector,
    /// A field of all containers of the template at `spec.template`.
    Containers(&'static str),
    /// A field of all containers of the template of a CronJob.
    JobContainers(&'static str),
    /// What depends on several fields.
    Special(fn(&Value) -> Value),
}

pub(super) fn table_of(kind: &Kind) -> Option<&'static Table> {
    TABLES.iter().find(|table| (table.group, table.kind) == (kind.group, kind.kind))
}

impl Table {
    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.cells.iter().map(|cell| cell.of(object, now)).collect()
    }
}

impl Cell {
    fn of(&self, object: &Value, now: Timestamp) -> Value {
        let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.into();
        let containers = |path: &str, field: &str| joined(object, path, field, "");
        match self {
            Self::Name => name(object).into(),
            Self::Age => age(object, now).into(),
            Self::Text("", other) => (*other).into(),
            Self::Text(path, other) => or(string(object, path), other),
            Self::Integer(path) => json!(integer(object, path)),
            Self::Boolean(path) => boolean(object, path).into(),
            Self::Count(path) => json!(array(object, path).len()),
            Self::Labels(path) => or_none(&labels(object, path)).into(),
            Self::Selector => or_none(&selector(object)).into(),
            Self::Containers(field) => containers("/spec/template/spec/containers", field),
            Self::JobContainers(field) => {
                containers("/spec/jobTemplate/spec/template/spec/containers", field)
            }
            Self::Special(cell) => cell(object),
        }
    }
}

/// A field of each element of a list, or the elements themselves.
fn joined(object: &Value, path: &str, field: &str, otherwise: &str) -> Value {
    let items = array(object, path).iter();
    let texts: Vec<&str> = items
        .map(
            |item| if field.is_empty() { item.as_str().unwrap_or("") } else { string(item, field) },
        )
        .collect();
    if texts.is_empty() { otherwise.into() } else { texts.join(",").into() }
}
