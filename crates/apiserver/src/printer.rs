//! The tables of `kubectl get` (S4): the columns of each kind and the cells of each object. All
//! columns are filled in; clients show those with priority 1 only in wide tables. Pure: the age of
//! an object depends on the argument `now`.

mod custom;

use everynode_core::api::Timestamp;

use crate::json::Value;
use crate::kind::Kind;

pub use crate::kind::columns::Column;

/// The definitions of the columns of a kind's table, in order.
pub fn headers(kind: &Kind) -> Vec<Value> {
    match kind.custom() {
        Some(custom) => custom::headers(&custom),
        None => kind.columns.iter().map(Column::to_json).collect(),
    }
}

/// The cells of an object's row, one for each column.
pub fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    match kind.custom() {
        Some(custom) => custom::cells(&custom, object, now),
        None => kind.columns.iter().map(|column| column.cell.of(object, now)).collect(),
    }
}

/// The conditions of an object's row (`TableRowCondition`).
pub fn row_conditions(kind: &Kind, object: &Value) -> Vec<Value> {
    (kind.row_conditions)(object)
}
