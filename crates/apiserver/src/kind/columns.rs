//! The columns of a kind's table (S4), and where their cells come from, as in upstream's
//! `pkg/printers/internalversion/printers.go`. Paths are JSON pointers.

pub mod duration;

use everynode_core::api::Timestamp;

use crate::json::{Value, json};
use crate::value::{array, boolean, integer, string, string_map};

/// A column of a `meta.k8s.io/v1` Table.
#[derive(Clone, Copy, Debug)]
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
    /// The cells.
    pub cell: Cell,
}

/// Where a cell comes from.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// The time since the object was created.
    Age,
    /// A text, or another one if it is empty.
    Text(&'static str, &'static str),
    /// A text that is the same for all objects.
    Constant(&'static str),
    /// An integer.
    Integer(&'static str),
    /// A boolean.
    Boolean(&'static str),
    /// The number of elements of a list.
    Count(&'static str),
    /// The keys and values of a map.
    Labels(&'static str),
    /// `spec.selector`, with expressions.
    Selector,
    /// A field of each element of a list, or the elements themselves; a text if there are none.
    Joined(&'static str, &'static str, &'static str),
    /// A value that depends on several fields.
    Of(fn(&Value) -> Value),
    /// A value that depends on the time as well.
    At(fn(&Value, Timestamp) -> Value),
}

/// The name of the object.
pub const NAME: Column = Column {
    format: "name",
    ..text("Name", "/metadata/name").about("The name of the object, unique within its namespace")
};
/// The time since the object was created.
pub const AGE: Column =
    Column::new("Age", Cell::Age).about("The time since the object was created");
/// A column with the text at a path.
pub const fn text(name: &'static str, path: &'static str) -> Column {
    text_or(name, path, "")
}

/// A column with the text at a path, or another one if it is empty.
pub const fn text_or(name: &'static str, path: &'static str, otherwise: &'static str) -> Column {
    Column::new(name, Cell::Text(path, otherwise))
}

/// A column with the number at a path.
pub const fn number(name: &'static str, path: &'static str) -> Column {
    Column::new(name, Cell::Integer(path)).integer()
}

/// A column that a function fills in.
pub const fn of(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column::new(name, Cell::Of(cell))
}

impl Column {
    /// A column of texts that is always shown.
    pub const fn new(name: &'static str, cell: Cell) -> Self {
        Self { name, type_name: "string", format: "", description: "", priority: 0, cell }
    }

    /// Describes the column.
    pub const fn about(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    /// Its cells are integers.
    pub const fn integer(self) -> Self {
        Self { type_name: "integer", ..self }
    }

    /// It is shown only with `-o wide`.
    pub const fn wide(self) -> Self {
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

impl Cell {
    /// The cell of an object.
    pub fn of(&self, object: &Value, now: Timestamp) -> Value {
        match self {
            Self::Age => duration::since(string(object, "/metadata/creationTimestamp"), now).into(),
            Self::Text(path, otherwise) => match string(object, path) {
                "" => (*otherwise).into(),
                text => text.into(),
            },
            Self::Constant(text) => (*text).into(),
            Self::Integer(path) => json!(integer(object, path)),
            Self::Boolean(path) => boolean(object, path).into(),
            Self::Count(path) => json!(array(object, path).len()),
            Self::Labels(path) => or_none(&labels(object, path)).into(),
            Self::Selector => or_none(&selector(&object["spec"]["selector"])).into(),
            Self::Joined(path, field, otherwise) => joined(object, path, field, otherwise).into(),
            Self::Of(cell) => cell(object),
            Self::At(cell) => cell(object, now),
        }
    }
}

/// `text`, or `<none>` if it is empty.
pub fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

/// A field of each element of a list, or the elements themselves.
pub fn joined(object: &Value, path: &str, field: &str, otherwise: &str) -> String {
    let items = array(object, path).iter();
    let text = |item| {
        if field.is_empty() { Value::as_str(item).unwrap_or("") } else { string(item, field) }
    };
    let texts: Vec<&str> = items.map(text).collect();
    if texts.is_empty() { otherwise.to_owned() } else { texts.join(",") }
}

/// The keys and values of a map in one line.
pub fn labels(object: &Value, path: &str) -> String {
    let labels = string_map(object, path);
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// A label selector in one line, ordered by key as upstream does.
pub fn selector(selector: &Value) -> String {
    let mut requirements: Vec<(&str, String)> = string_map(selector, "/matchLabels")
        .into_iter()
        .map(|(key, value)| (key, format!("{key}={value}")))
        .collect();
    for expression in array(selector, "/matchExpressions") {
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
