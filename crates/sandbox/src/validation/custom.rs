//! Validates custom resources by their schemas (S15), with the messages of upstream's OpenAPI
//! validator.

mod rules;
mod types;

use crate::json::Value;

use super::cause::Reason;
use super::field::{Causes, Field, go_json};
use super::format;
use super::metadata;
use crate::custom::{Checks, CustomType, ListType, Schema};
use crate::kind::Kind;
use crate::patch::go_text;

pub(super) fn on_create(kind: &Kind, custom: &CustomType, object: &Field, causes: &mut Causes) {
    metadata::on_create(object, metadata::rules_of(kind), causes);
    check(custom, object, None, causes);
    rules::check(&custom.schema, object.value(), None, causes);
}

/// What an update does not change may stay invalid, as upstream (`CRDValidationRatcheting`).
pub(super) fn on_update(custom: &CustomType, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    check(custom, object, Some(old.value()), causes);
    rules::check(&custom.schema, object.value(), Some(old.value()), causes);
}

/// Upstream validates the status as an object of its own.
pub(super) fn on_status_update(
    custom: &CustomType,
    object: &Field,
    old: &Field,
    causes: &mut Causes,
) {
    metadata::on_update(object, old, causes);
    let mut found = Vec::new();
    if let (Some(schema), Some(status)) =
        (custom.schema.properties.get("status"), object.value().get("status"))
    {
        let old = old.value().get("status");
        Walk { found: &mut found, root: "status." }.value(schema, status, old, "status");
    }
    for finding in found {
        causes.found_at(finding.reason, &finding.path, finding.message);
    }
    if let Some(scale) = &custom.scale {
        replicas(&scale.status_replicas, object.value(), causes);
    }
    check_lists(&custom.schema, object.value(), Some(old.value()), causes);
    rules::check(&custom.schema, object.value(), Some(old.value()), causes);
}

/// Checks the default of a schema, whose path is `path`.
pub(super) fn check_default(schema: &Schema, default: &Value, path: &str, causes: &mut Causes) {
    let mut found = Vec::new();
    Walk { found: &mut found, root: "" }.value(schema, default, None, "");
    if found.is_empty() {
        rules::check_default(schema, default, path, causes);
    }
    for finding in found {
        let path = match &*finding.path {
            "" | "<nil>" => path.to_owned(),
            below => child(path, below.trim_start_matches('.')),
        };
        causes.found_at(finding.reason, &path, finding.message);
    }
}

fn check(custom: &CustomType, object: &Field, old: Option<&Value>, causes: &mut Causes) {
    let mut found = Vec::new();
    for (name, schema) in &custom.schema.properties {
        // The schema of the metadata can restrict names.
        if let Some(value) = object.value().get(&**name) {
            let is_visible = !matches!(&**name, "apiVersion" | "kind");
            let old = old.filter(|_| is_visible).and_then(|old| old.get(&**name));
            Walk { found: &mut found, root: "" }.value(schema, value, old, name);
        }
    }
    Walk { found: &mut found, root: "" }.object(&custom.schema, object.value(), "");
    for finding in found {
        causes.found_at(finding.reason, &finding.path, finding.message);
    }
    if let Some(scale) = &custom.scale {
        replicas(&scale.spec_replicas, object.value(), causes);
        replicas(&scale.status_replicas, object.value(), causes);
    }
    check_lists(&custom.schema, object.value(), old, causes);
}

/// Checks sets and lists with keys, unless the replaced object has wrong ones.
fn check_lists(schema: &Schema, object: &Value, old: Option<&Value>, causes: &mut Causes) {
    let mut before = Causes::default();
    old.into_iter().for_each(|old| lists(schema, old, "", &mut before));
    if before.is_empty() {
        lists(schema, object, "", causes);
    }
}

/// Checks a number of the scale.
fn replicas(path: &[String], object: &Value, causes: &mut Causes) {
    let mut value = object;
    let mut accessor = String::new();
    for field in path {
        accessor.push('.');
        accessor.push_str(field);
        match value {
            Value::Object(fields) => match fields.get(field) {
                Some(found) => value = found,
                None => return,
            },
            Value::Null => return,
            other => {
                let expected = "map[string]interface{}";
                return wrong_accessor(path, &accessor, other, expected, causes);
            }
        }
    }
    let (shown, detail) = match value.as_i64() {
        Some(0..=0x7fff_ffff) => return,
        Some(negative) if negative < 0 => (negative, "should be a non-negative integer".to_owned()),
        Some(large) => (large, format!("should be less than or equal to {}", i32::MAX)),
        None => return wrong_accessor(path, &accessor, value, "int64", causes),
    };
    causes.found_at(Reason::Invalid, &accessor, format!("{shown}: {detail}"));
}

/// A value on the way to a number of the scale has another type than expected.
fn wrong_accessor(
    path: &[String],
    accessor: &str,
    value: &Value,
    expected: &str,
    causes: &mut Causes,
) {
    let (found, name) = (go_text(value), go_type(value));
    let message =
        format!("0: {accessor} accessor error: {found} is of the type {name}, expected {expected}");
    causes.found_at(Reason::Invalid, &format!(".{}", path.join(".")), message);
}

/// Go's name of the type of a decoded JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// An error in a value.
struct Finding {
    reason: Reason,
    path: String,
    /// The message after the title of the reason.
    message: String,
}

struct Walk<'a> {
    found: &'a mut Vec<Finding>,
    /// The start of paths that the texts of messages leave out.
    root: &'static str,
}

impl Walk<'_> {
    /// Checks a value, unless it is the same as the one that it replaces.
    fn value(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &str) {
        if old == Some(value) {
            return;
        }
        if value.is_null() {
            if !schema.nullable
                && let Some(expected) = types::expected(schema)
            {
                self.wrong_type(expected, "null", path);
            }
            self.choices(&schema.checks, value, path);
            return;
        }
        if let Some((expected, found)) = types::mismatch(schema, value) {
            self.wrong_type(expected, found, path);
        }
        self.junctors(&schema.checks, value, path);
        match value {
            Value::String(text) => self.text(&schema.checks, text, path),
            Value::Number(_) => self.number(schema, value, path),
            Value::Array(items) => self.items(schema, items, old, path),
            Value::Object(_) | Value::Bool(_) | Value::Null => {}
        }
        self.choices(&schema.checks, value, path);
        if let Value::Object(fields) = value {
            self.object(schema, value, path);
            // As upstream: only the path of a property of the root starts without a dot.
            let path_of = |name: &str| match schema.properties.contains_key(name) {
                true => child(path, name),
                false => format!("{path}.{name}"),
            };
            for (name, value) in fields {
                let is_metadata = matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                if let Some(of_field) =
                    schema.field(name).filter(|_| !(schema.embedded && is_metadata))
                {
                    let old = old.and_then(|old| old.get(name));
                    self.value(of_field, value, old, &path_of(name));
                }
            }
        }
    }

    /// What the fields of an object must be, without their values.
    fn object(&mut self, schema: &Schema, value: &Value, path: &str) {
        let Some(fields) = value.as_object() else { return };
        let checks = &schema.checks;
        let count = fields.len();
        if let Some(max) = checks.max_properties.filter(|max| count > *max) {
            self.add(Reason::TooMany, path, too_many(count, max));
        }
        if let Some(min) = checks.min_properties.filter(|min| count < *min) {
            let detail = format!("should have at least {min} properties");
            self.invalid(path, count.to_string(), &detail);
        }
        for name in &checks.required {
            if !fields.contains_key(name) {
                self.add(Reason::Required, &child(path, name), String::new());
            }
        }
    }

    fn items(&mut self, schema: &Schema, items: &[Value], old: Option<&Value>, path: &str) {
        let (checks, count) = (&schema.checks, items.len());
        if let Some(of_items) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                let old = old_item(schema, item, old);
                self.value(of_items, item, old, &format!("{path}[{index}]"));
            }
        }
        if let Some(min) = checks.min_items.filter(|min| count < *min) {
            let detail = format!("should have at least {min} items");
            self.invalid(path, count.to_string(), &detail);
        }
        if let Some(max) = checks.max_items.filter(|max| count > *max) {
            self.add(Reason::TooMany, path, too_many(count, max));
        }
    }

    /// As upstream, only the first of length and pattern is reported.
    fn text(&mut self, checks: &Checks, text: &str, path: &str) {
        let length = text.chars().count();
        let quoted = || super::go_quote(text);
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            self.add(Reason::TooLong, path, format!("may not be more than {max} bytes"));
        } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
            let detail = format!("should be at least {min} chars long");
            self.invalid(path, quoted(), &detail);
        } else if let Some(pattern) =
            checks.pattern.as_ref().filter(|pattern| !pattern.matches(text))
        {
            self.invalid(path, quoted(), &format!("should match '{}'", pattern.text));
        }
        if let Some(of_format) = checks.format.as_deref().filter(|it| !format::is_of(it, text)) {
            let message =
                format!("{}: {path} in body must be of type {of_format}: {}", quoted(), quoted());
            self.add(Reason::TypeInvalid, path, message);
        }
    }

    fn number(&mut self, schema: &Schema, value: &Value, path: &str) {
        let Some(number) = value.as_f64() else { return };
        let checks = &schema.checks;
        if let Some(of_type) = types::out_of_range(schema, value) {
            let name = self.name(path);
            self.junctor(&format!("Checked value must be of type {of_type} in {name}"));
        }
        let mut refuse = |detail: String| self.invalid(path, go_json(value), &detail);
        if let Some(factor) = checks.multiple_of.filter(|factor| (number / factor).fract() != 0.0) {
            refuse(format!("should be a multiple of {}", go_float(factor)));
        }
        if let Some(max) = checks.maximum {
            if checks.exclusive_maximum && number >= max {
                refuse(format!("should be less than {}", go_float(max)));
            } else if number > max {
                refuse(format!("should be less than or equal to {}", go_float(max)));
            }
        }
        if let Some(min) = checks.minimum {
            if checks.exclusive_minimum && number <= min {
                refuse(format!("should be greater than {}", go_float(min)));
            } else if number < min {
                refuse(format!("should be greater than or equal to {}", go_float(min)));
            }
        }
    }

    fn choices(&mut self, checks: &Checks, value: &Value, path: &str) {
        let Some(choices) = checks.choices.as_ref() else { return };
        if choices.contains(value) {
            return;
        }
        let texts: Vec<String> = choices
            .iter()
            .map(|choice| match choice {
                Value::String(text) => super::go_quote(text),
                other => super::go_quote(&go_json(other)),
            })
            .collect();
        let message =
            format!("{}: supported values: {}", super::field::go_value(value), texts.join(", "));
        self.add(Reason::NotSupported, path, message);
    }

    fn junctors(&mut self, checks: &Checks, value: &Value, path: &str) {
        let root = self.root;
        let name = self.name(path).to_owned();
        let findings = |schema: &Schema| {
            let mut found = Vec::new();
            Walk { found: &mut found, root }.value(schema, value, None, path);
            found
        };
        let mut best: Option<Vec<Finding>> = None;
        let mut count = |schemas: &[Schema]| {
            best = None;
            let mut valid = 0;
            for schema in schemas {
                let found = findings(schema);
                if found.is_empty() {
                    valid += 1;
                } else if best.as_ref().is_none_or(|best| found.len() < best.len()) {
                    best = Some(found);
                }
            }
            (valid, best.take())
        };
        if !checks.any_of.is_empty()
            && let (0, best) = count(&checks.any_of)
        {
            self.junctor(&format!("{name:?} must validate at least one schema (anyOf)"));
            self.found.extend(best.unwrap_or_default());
        }
        if !checks.one_of.is_empty() {
            let message = format!("{name:?} must validate one and only one schema (oneOf). ");
            match count(&checks.one_of) {
                (1, _) => {}
                (0, best) => {
                    self.junctor(&format!("{message}Found none valid"));
                    self.found.extend(best.unwrap_or_default());
                }
                (valid, _) => self.junctor(&format!("{message}Found {valid} valid alternatives")),
            }
        }
        if !checks.all_of.is_empty() {
            let found: Vec<Finding> = checks.all_of.iter().flat_map(findings).collect();
            if !found.is_empty() {
                let all_fail = count(&checks.all_of).0 == 0;
                let more = if all_fail { ". None validated" } else { "" };
                self.found.extend(found);
                self.junctor(&format!("{name:?} must validate all the schemas (allOf){more}"));
            }
        }
        if let Some(not) = &checks.not
            && findings(not).is_empty()
        {
            self.junctor(&format!("{name:?} must not validate the schema (not)"));
        }
    }

    fn junctor(&mut self, message: &str) {
        self.add(Reason::Invalid, "<nil>", format!("\"\": {message}"));
    }

    fn wrong_type(&mut self, expected: &str, found: &str, path: &str) {
        let name = self.name(path);
        let message = format!("{found:?}: {name} in body must be of type {expected}: {found:?}");
        self.add(Reason::TypeInvalid, path, message);
    }

    fn invalid(&mut self, path: &str, value: String, detail: &str) {
        let name = self.name(path);
        self.add(Reason::Invalid, path, format!("{value}: {name} in body {detail}"));
    }

    /// A path in the text of a message.
    fn name<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(self.root).unwrap_or(path)
    }

    fn add(&mut self, reason: Reason, path: &str, message: String) {
        self.found.push(Finding { reason, path: path.to_owned(), message });
    }
}

/// The path of a field of the value at `path`.
fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn too_many(count: usize, max: usize) -> String {
    let items = if max == 1 { "item" } else { "items" };
    format!("{count}: must have at most {max} {items}")
}

/// A number as Go's `%v` prints a float64.
fn go_float(number: f64) -> String {
    let exponent = if number == 0.0 { 0.0 } else { number.abs().log10().floor() };
    if (-4.0..21.0).contains(&exponent) && (number.fract() != 0.0 || exponent < 6.0) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Checks that the elements of sets and of lists with keys differ.
fn lists(schema: &Schema, value: &Value, path: &str, causes: &mut Causes) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let Some(of_field) = schema.field(name) else { continue };
                let is_property = schema.properties.contains_key(name.as_str());
                let path = match (path.is_empty(), is_property) {
                    (true, _) => name.to_string(),
                    (false, true) => format!("{path}.{name}"),
                    (false, false) => format!("{path}[{name}]"),
                };
                lists(of_field, value, &path, causes);
            }
        }
        Value::Array(items) => {
            let is_entry = |item: &Value| item.is_object() || item.is_null();
            let keys: Option<Vec<Value>> = match schema.list_type {
                ListType::Atomic => None,
                ListType::Set => Some(items.to_vec()),
                ListType::Map => match items.iter().position(|item| !is_entry(item)) {
                    None => Some(items.iter().map(|item| key_of(schema, item)).collect()),
                    Some(index) => {
                        let shown = super::field::go_value(&items[index]);
                        let detail = "must be an object for an array of list-type map";
                        let (path, message) =
                            (format!("{path}[{index}]"), format!("{shown}: {detail}"));
                        causes.found_at(Reason::Invalid, &path, message);
                        None
                    }
                },
            };
            for index in duplicates(&keys.unwrap_or_default()) {
                let shown = match schema.list_type {
                    ListType::Map => key_of(schema, &items[index]),
                    ListType::Atomic | ListType::Set => items[index].clone(),
                };
                let shown = super::field::go_value(&shown);
                causes.found_at(Reason::Duplicate, &format!("{path}[{index}]"), shown);
            }
            if let Some(of_items) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    lists(of_items, item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The element that an element of a list replaces. Only those of lists with keys can be found.
fn old_item<'o>(schema: &Schema, item: &Value, old: Option<&'o Value>) -> Option<&'o Value> {
    if schema.list_type != ListType::Map {
        return None;
    }
    let key = key_of(schema, item);
    old.and_then(Value::as_array)?.iter().find(|old| key_of(schema, old) == key)
}

fn key_of(schema: &Schema, item: &Value) -> Value {
    let keys = schema.map_keys.iter();
    let fields = keys.filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
    Value::Object(fields.collect())
}

/// The second appearance of each element.
fn duplicates(elements: &[Value]) -> Vec<usize> {
    let mut seen = std::collections::HashMap::new();
    let mut found = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let count = seen.entry(element.to_string()).or_insert(0);
        *count += 1;
        if *count == 2 {
            found.push(index);
        }
    }
    found
}
