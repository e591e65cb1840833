//! The tables of `kubectl get` (S4): the columns of each kind and the cells of each object, as in
//! upstream's `pkg/printers/internalversion/printers.go`. All columns are filled in; clients show
//! those with priority 1 only in wide tables. Pure: the age of an object depends on the argument
//! `now`.

mod custom;
mod daemon_set;
mod duration;
mod event;
mod kept;
mod node;
mod pod;
mod role;
mod simple;
#[cfg(test)]
mod tests;

use everynode_core::api::Timestamp;

use crate::json::{Value, json};
use crate::kind::Kind;
use crate::value::string;

pub use duration::human_duration;

/// A column of a `meta.k8s.io/v1` Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The title of the column.
    pub name: &'static str,
    /// An OpenAPI type: `string` or `integer`.
    pub type_name: &'static str,
    /// An OpenAPI format: `name` marks the column that names the object.
    pub format: &'static str,
    /// The description of the column.
    pub description: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

impl Column {
    const fn new(name: &'static str, description: &'static str) -> Self {
        Self { name, type_name: "string", format: "", description, priority: 0 }
    }

    const fn integer(self) -> Self {
        Self { type_name: "integer", ..self }
    }

    const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    /// The column as a `TableColumnDefinition`.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.type_name,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

const NAME: Column = Column {
    format: "name",
    ..Column::new("Name", "The name of the object, unique within its namespace")
};
const AGE: Column = Column::new("Age", "The time since the object was created");

/// The definitions of the columns of a kind's table, in order.
pub(crate) fn headers(kind: &Kind) -> Vec<Value> {
    match kind.custom() {
        Some(custom) => custom::headers(&custom),
        None => columns(kind).iter().map(Column::to_json).collect(),
    }
}

/// The columns of the table of a built-in kind, in order.
pub fn columns(kind: &Kind) -> &'static [Column] {
    kept::table_of(kind).map_or_else(|| printer_of(kind).columns, |table| table.columns)
}

/// The cells of an object's row, one for each column.
pub fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    if let Some(custom) = kind.custom() {
        return custom::cells(&custom, object, now);
    }
    match kept::table_of(kind) {
        Some(table) => table.cells(object, now),
        None => (printer_of(kind).cells)(object, now),
    }
}

/// The conditions of an object's row (`TableRowCondition`): the row of a finished pod is marked
/// `Completed`.
pub fn row_conditions(kind: &Kind, object: &Value) -> Vec<Value> {
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::row_conditions(object),
        _ => Vec::new(),
    }
}

/// The columns and cells of a kind.
struct Printer {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const GENERIC: Printer = Printer { columns: &[NAME, AGE], cells: simple::name_and_age };

fn printer_of(kind: &Kind) -> Printer {
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::PRINTER,
        ("", "Node") => node::PRINTER,
        ("apps", "DaemonSet") => daemon_set::PRINTER,
        ("apps", "ControllerRevision") => daemon_set::REVISION_PRINTER,
        ("" | "events.k8s.io", "Event") => event::PRINTER,
        ("", "Namespace") => simple::NAMESPACE_PRINTER,
        ("", "ConfigMap") => simple::CONFIG_MAP_PRINTER,
        ("", "Secret") => simple::SECRET_PRINTER,
        ("", "ServiceAccount") => simple::SERVICE_ACCOUNT_PRINTER,
        ("coordination.k8s.io", "Lease") => simple::LEASE_PRINTER,
        ("rbac.authorization.k8s.io", "ClusterRole" | "Role") => role::PRINTER,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => {
            role::BINDING_PRINTER
        }
        _ => GENERIC,
    }
}

fn name(object: &Value) -> &str {
    string(object, "/metadata/name")
}

/// The time since `metadata.creationTimestamp`.
fn age(object: &Value, now: Timestamp) -> String {
    duration::since(string(object, "/metadata/creationTimestamp"), now)
}

/// `text`, or `<none>` if it is empty.
fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}
