//! Reads values by a schema. That reports all errors rather than the first one, and leaves the
//! defaults of the schema in place of absent fields (G4, G5).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use everynode_core::api::schema::parse_duration;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::errors::Errors;
use super::rules::{Broken, rule_of};
use super::schema::schema_of;

/// A schema, ready to read values.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::convert) struct Schema {
    r#type: Type,
    properties: BTreeMap<String, Schema>,
    required: Vec<String>,
    property_names: Option<Box<Schema>>,
    additional_properties: Option<Box<Schema>>,
    max_properties: Option<usize>,
    items: Option<Box<Schema>>,
    min_items: usize,
    max_items: Option<usize>,
    #[serde(rename = "x-kubernetes-list-type")]
    list_type: Option<ListType>,
    r#enum: Vec<Value>,
    max_length: Option<usize>,
    min_length: usize,
    pattern: Option<Pattern>,
    minimum: u64,
    maximum: Option<u64>,
    default: Option<Value>,
    #[serde(rename = "x-kubernetes-validations")]
    rules: Vec<Rule>,
    #[serde(rename = "x-at-least")]
    at_least: Option<String>,
    #[serde(rename = "x-forms")]
    forms: Vec<(Pattern, String)>,
    #[serde(rename = "x-reason")]
    reason: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Type {
    Object,
    Array,
    String,
    Integer,
    Boolean,
    /// `x-kubernetes-int-or-string`.
    #[default]
    IntOrString,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ListType {
    Atomic,
    Set,
    /// By the name of its items.
    Map,
}

#[derive(Deserialize)]
#[serde(try_from = "WrittenRule")]
struct Rule {
    message: String,
    field: Option<String>,
    broken: fn(&Value) -> Broken<'_>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRule {
    message: String,
    field_path: Option<String>,
}

impl TryFrom<WrittenRule> for Rule {
    type Error = String;

    fn try_from(WrittenRule { message, field_path }: WrittenRule) -> Result<Self, Self::Error> {
        let broken = rule_of(&message).ok_or_else(|| format!("no such rule: {message}"))?;
        let field = field_path.map(|path| path.trim_start_matches('.').to_owned());
        Ok(Self { message, field, broken })
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        // A few patterns are those of most fields.
        static KNOWN: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = known.get(&pattern) {
            return Ok(Self(regex.clone()));
        }
        let regex = Regex::new(&pattern)?;
        known.insert(pattern, regex.clone());
        Ok(Self(regex))
    }
}

impl Schema {
    /// The schema of a type.
    pub(in crate::convert) fn of<T: JsonSchema>() -> Self {
        serde_json::from_value(schema_of::<T>()).expect("its patterns and rules are valid")
    }

    /// The schema of a field.
    pub(in crate::convert) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }

    /// The value with the defaults of absent fields; `None` if there are errors in it.
    pub(in crate::convert) fn read(
        &self,
        path: &str,
        value: &Value,
        errors: &mut Errors,
    ) -> Option<Value> {
        let before = errors.count();
        let read = match self.r#type {
            Type::Object => self.read_object(path, value, errors).map(Value::Object),
            Type::Array => self.read_list(path, value, errors).map(Value::Array),
            Type::String | Type::Integer | Type::Boolean | Type::IntOrString => {
                let wrong = self.why_wrong(value);
                wrong.into_iter().for_each(|why| errors.invalid(path, value, &why));
                Some(value.clone())
            }
        };
        let read = read?;
        if errors.count() == before {
            self.apply_rules(path, value, errors);
        }
        self.find_duplicates(path, value, errors);
        (errors.count() == before).then_some(read)
    }

    fn read_object(
        &self,
        path: &str,
        value: &Value,
        errors: &mut Errors,
    ) -> Option<Map<String, Value>> {
        let Some(fields) = value.as_object() else {
            errors.invalid(path, value, "must be an object");
            return None;
        };
        let is_set = |name: &String| fields.get(name).is_some_and(|value| !value.is_null());
        for name in self.required.iter().filter(|name| !is_set(name)) {
            errors.add(&below(path, name), "Required value".to_owned());
        }
        if let Some(max) = self.max_properties.filter(|max| fields.len() > *max) {
            errors.too_many(path, fields.len(), max);
            return None;
        }
        let mut read = Map::new();
        for (name, schema) in &self.properties {
            let value = match fields.get(name).filter(|value| !value.is_null()) {
                Some(value) => schema.read(&below(path, name), value, errors),
                None => schema.default.clone(),
            };
            read.extend(value.map(|value| (name.clone(), value)));
        }
        for (name, value) in fields.iter().filter(|(name, _)| !self.properties.contains_key(*name))
        {
            let Some(schema) = &self.additional_properties else {
                errors.add(&below(path, name), "unknown field".to_owned());
                continue;
            };
            if let Some(names) = &self.property_names {
                names.read(path, &Value::from(name.as_str()), errors);
            }
            let value = schema.read(&format!("{path}[{name}]"), value, errors);
            read.extend(value.map(|value| (name.clone(), value)));
        }
        Some(read)
    }

    fn read_list(&self, path: &str, value: &Value, errors: &mut Errors) -> Option<Vec<Value>> {
        let Some(list) = value.as_array() else {
            errors.invalid(path, value, "must be a list");
            return None;
        };
        if list.len() < self.min_items {
            errors.invalid(path, value, "must have at least 1 item");
        }
        if let Some(max) = self.max_items.filter(|max| list.len() > *max) {
            errors.too_many(path, list.len(), max);
            return None;
        }
        let schema = self.items.as_ref().expect("a list has items");
        let items = list.iter().enumerate();
        let items =
            items.map(|(index, item)| schema.read(&format!("{path}[{index}]"), item, errors));
        Some(items.collect::<Vec<_>>().into_iter().flatten().collect())
    }

    /// Reports the items that a list has already.
    fn find_duplicates(&self, path: &str, value: &Value, errors: &mut Errors) {
        let (key, suffix) = match self.list_type {
            Some(ListType::Set) => ("", ""),
            Some(ListType::Map) => ("/name", ".name"),
            Some(ListType::Atomic) | None => return,
        };
        let items = value.as_array().into_iter().flatten();
        let keys: Vec<Option<&Value>> = items.map(|item| item.pointer(key)).collect();
        for (index, item) in keys.iter().enumerate() {
            if let Some(item) = item
                && keys[..index].contains(&Some(item))
            {
                let why = format!("Duplicate value: {item}");
                errors.add(&format!("{path}[{index}]{suffix}"), why);
            }
        }
    }

    fn apply_rules(&self, path: &str, value: &Value, errors: &mut Errors) {
        for Rule { message, field, broken } in &self.rules {
            let field = field.as_deref().unwrap_or_default();
            for (suffix, wrong) in broken(value) {
                let is_field = suffix.is_empty() && !field.is_empty();
                let wrong = if is_field { &value[field] } else { wrong };
                errors.invalid(&(below(path, field) + &suffix), wrong, message);
            }
        }
    }

    /// Why a value that is neither an object nor a list is wrong; `None` if it is not.
    fn why_wrong(&self, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) if self.r#type == Type::IntOrString => Some(number.to_string()),
            _ => None,
        };
        let is_other = |(pattern, _): &&(Pattern, String)| {
            text.as_ref().is_some_and(|text| !pattern.0.is_match(text))
        };
        if let Some((_, why)) = self.forms.iter().find(is_other) {
            return Some(why.clone());
        }
        let is_text = || value.as_str().is_some_and(|text| self.is_text(text));
        let is_number = || value.as_u64().is_some_and(|number| self.is_in_range(number));
        let is_right = match self.r#type {
            Type::String => is_text(),
            Type::Integer => is_number(),
            Type::IntOrString => is_text() || is_number(),
            Type::Boolean => value.is_boolean(),
            Type::Object | Type::Array => true,
        };
        (!is_right).then(|| self.reason())
    }

    fn is_text(&self, text: &str) -> bool {
        let length = text.chars().count();
        (self.min_length..=self.max_length.unwrap_or(usize::MAX)).contains(&length)
            && self.pattern.as_ref().is_none_or(|pattern| pattern.0.is_match(text))
            && (self.r#enum.is_empty() || self.r#enum.contains(&text.into()))
            && self
                .at_least
                .as_ref()
                .is_none_or(|least| parse_duration(least) <= parse_duration(text))
    }

    fn is_in_range(&self, number: u64) -> bool {
        (self.minimum..=self.maximum.unwrap_or(u64::MAX)).contains(&number)
    }

    fn reason(&self) -> String {
        let names: Vec<&str> = self.r#enum.iter().filter_map(Value::as_str).collect();
        match (&self.reason, self.r#type, names.split_last()) {
            (Some(reason), ..) => reason.clone(),
            (None, Type::Boolean, _) => "must be true or false".to_owned(),
            (None, Type::Integer, _) => {
                let maximum = self.maximum.unwrap_or(u64::MAX);
                format!("must be a number from {} to {maximum}", self.minimum)
            }
            (None, _, Some((only, []))) => format!("must be {only}"),
            (None, _, Some((last, names))) => {
                format!("must be one of {} and {last}", names.join(", "))
            }
            (None, _, None) => "must be a text".to_owned(),
        }
    }
}

/// The path of a field; that of the whole is empty.
pub(super) fn below(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_owned(),
        (path, "") => path.to_owned(),
        (path, name) => format!("{path}.{name}"),
    }
}
