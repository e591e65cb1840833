//! The tables of `kubectl get` (S4): the columns of each kind and the cells of each object. All
//! columns are filled in; clients show those with priority 1 only in wide tables. Pure: the age of
//! an object depends on the argument `now`.

use std::io;

use everynode_core::api::Timestamp;

use crate::custom::{self, CustomType};
use crate::json::Value;
use crate::kind::Kind;
use crate::kind::columns::{NAME, duration};
use crate::value::string;

pub use crate::kind::columns::Column;

/// The definitions of the columns of a kind's table, in order.
pub fn headers(kind: &Kind) -> Vec<Value> {
    match kind.custom() {
        Some(custom) => custom_headers(&custom),
        None => kind.columns.iter().map(Column::to_json).collect(),
    }
}

/// The cells of an object's row, one for each column.
pub fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    match kind.custom() {
        Some(custom) => custom_cells(&custom, object, now),
        None => kind.columns.iter().map(|column| column.cell.of(object, now)).collect(),
    }
}

/// The conditions of an object's row (`TableRowCondition`).
pub fn row_conditions(kind: &Kind, object: &Value) -> Vec<Value> {
    (kind.row_conditions)(object)
}

fn custom_headers(custom: &CustomType) -> Vec<Value> {
    let more = custom.columns.iter().map(|column| column.header.clone());
    std::iter::once(NAME.to_json()).chain(more).collect()
}

fn custom_cells(custom: &CustomType, object: &Value, now: Timestamp) -> Vec<Value> {
    let more = custom.columns.iter().map(|column| cell(column, object, now));
    std::iter::once(string(object, "/metadata/name").into()).chain(more).collect()
}

/// A cell; null where the object has no value of the column's type.
fn cell(column: &custom::Column, object: &Value, now: Timestamp) -> Value {
    let Some(value) = column.path.first(object) else { return Value::Null };
    match (column.type_name(), value) {
        ("string", Value::Null) => Value::Null,
        ("string", Value::String(text)) => cut(text).into(),
        ("string", other) => cut_json(other).into(),
        ("integer", Value::Number(number)) => match number.as_f64() {
            // As Go converts it: without the fraction.
            Some(fraction) if number.is_f64() => (fraction.trunc() as i64).into(),
            _ => value.clone(),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<jiff::Timestamp>() {
            Ok(_) => duration::since(text, now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// Maximum size of the text of a cell in bytes. Upstream has none; here a table may have many cells
/// of the same large value.
const CELL_BYTES_MAX: usize = 4 * 1024;

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(CELL_BYTES_MAX)]
}

/// A text that takes no more than a cell has.
#[derive(Default)]
struct Cut(Vec<u8>);

impl io::Write for Cut {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let room = part.len().min(CELL_BYTES_MAX - self.0.len());
        self.0.extend_from_slice(&part[..room]);
        // With no room left, whoever writes gives up.
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value as JSON, cut to the size of a cell.
fn cut_json(value: &Value) -> String {
    let mut text = Cut::default();
    // An error means that the rest was left out.
    let _ = serde_json::to_writer(&mut text, value);
    String::from_utf8_lossy(&text.0).into_owned()
}
