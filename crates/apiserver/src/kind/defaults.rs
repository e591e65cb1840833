//! The defaults of a kind (S9): a path and the value of a field that is absent. What depends on
//! other fields is code.
//!
//! In a path `[]` stands for each element of a list. Absent structs on the way are created, unless
//! they are marked with `?`.

use crate::json::{Map, Value};

/// The fields of a struct.
pub type Fields = Map;

/// Sets the defaults of a struct.
pub type Completion = fn(&mut Fields);

/// The defaults of a kind.
#[derive(Clone, Copy)]
pub struct Defaults {
    /// Structs that a function completes, such as pod templates.
    pub each: &'static [(&'static str, Completion)],
    /// Fields, and their values.
    pub values: &'static [(&'static str, Literal)],
    /// The defaults that depend on other fields. The second argument is the object before the
    /// change, or null: what an object shares with it has its defaults.
    pub more: fn(&mut Fields, &Value),
    /// True if the schema knows the fields that Go's encoder always writes. Else they are listed
    /// here.
    pub completed_by_schema: bool,
}

/// A value that is part of the program.
#[derive(Clone, Copy)]
pub enum Literal {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A text.
    Text(&'static str),
    /// A list of texts.
    List(&'static [&'static str]),
    /// A struct without fields.
    Struct,
}

impl Literal {
    fn value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Int(number) => number.into(),
            Self::Text(text) => text.into(),
            Self::List(texts) => texts.iter().copied().map(Value::from).collect::<Vec<_>>().into(),
            Self::Struct => Map::new().into(),
        }
    }
}

impl Defaults {
    /// No defaults.
    pub const NONE: Self =
        Self { each: &[], values: &[], more: |_, _| {}, completed_by_schema: false };
    /// Those that the schema knows.
    pub const KEPT: Self = Self { completed_by_schema: true, ..Self::NONE };

    /// Sets the defaults of an object. `stored` is the object before the change, or null.
    pub fn apply(&self, fields: &mut Fields, stored: &Value) {
        for (path, complete) in self.each {
            at(fields, path, &mut |fields: &mut Fields| complete(fields));
        }
        for (path, value) in self.values {
            set(fields, path, *value);
        }
        (self.more)(fields, stored);
    }
}

/// Sets the field at the end of a path wherever it is absent.
fn set(fields: &mut Fields, path: &str, value: Literal) {
    let (parents, name) = path.rsplit_once('.').unwrap_or(("", path));
    at(fields, parents, &mut |parent: &mut Fields| {
        if parent.get(name).is_none_or(Value::is_null) {
            parent.insert(name, value.value());
        }
    });
}

/// Calls `change` with each struct at a path.
fn at(fields: &mut Fields, path: &str, change: &mut dyn FnMut(&mut Fields)) {
    if path.is_empty() {
        return change(fields);
    }
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    if let Some(list) = step.strip_suffix("[]") {
        structs_in(fields, list).for_each(|item| at(item, rest, change));
    } else if let Some(name) = step.strip_suffix('?') {
        if let Some(found) = optional_struct(fields, name) {
            at(found, rest, change);
        }
    } else {
        at(struct_at(fields, step), rest, change);
    }
}

/// The struct at `name`, created if it is absent; `None` if it is shared with `stored`, which has
/// its defaults.
pub fn changed_struct<'a>(
    fields: &'a mut Fields,
    stored: &Value,
    name: &str,
) -> Option<&'a mut Fields> {
    let is_known = fields.get(name).is_some_and(|value| value.is_shared_with(&stored[name]));
    (!is_known).then(|| struct_at(fields, name))
}

/// The struct at `name`, created if it is absent.
pub fn struct_at<'a>(fields: &'a mut Fields, name: &str) -> &'a mut Fields {
    let field = fields.entry(name).or_insert(Value::Null);
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut().expect("just made an object")
}

/// The struct at `name`; `None` if there is none.
pub fn optional_struct<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    fields.get_mut(name)?.as_object_mut()
}

/// Synchronises a list with the older field for its first item. If they differ, the older field
/// counts, because old clients know only that one.
pub fn first_of_many(
    fields: &mut Fields,
    one: &str,
    many: &str,
    item: impl Fn(Value) -> Value,
    text_of: impl Fn(&Value) -> &Value,
) {
    let first = fields.get(many).and_then(|many| many.get(0)).map(text_of).cloned();
    match (text(fields, one), first) {
        ("", Some(first)) => drop(fields.insert(one.to_owned(), first)),
        ("", None) => {}
        (text, Some(first)) if first == text => {}
        (text, _) => {
            let items = vec![item(text.into())];
            fields.insert(many.to_owned(), items.into());
        }
    }
}

/// The structs in the list at `name`.
pub fn structs_in<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The times of the conditions in a status, which Go writes even if they are unknown.
pub fn condition_times(status: &mut Fields, times: &[&str]) {
    for condition in structs_in(status, "conditions") {
        times.iter().for_each(|time| default(condition, time, Value::Null));
    }
}

/// Sets a field that is absent.
pub fn default(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// The text of a field; empty if it is none.
pub fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or("")
}
