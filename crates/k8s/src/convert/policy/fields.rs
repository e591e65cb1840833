//! The fields of a policy, and the errors in them.

use std::collections::BTreeSet;

use everynode_core::api::{LabelOperator, LabelRequirement, LabelSelector, RolloutPolicy};
use serde_json::{Map, Value};

use crate::convert::label_selector;

/// Maximum numbers of the parts of a label selector, which the definitions of policies have, too.
const LABELS_MAX: usize = 16;
const VALUES_MAX: usize = 64;
/// Maximum number of errors that are reported, and of characters of a value in one.
const ERRORS_MAX: usize = 5;
const VALUE_LENGTH_MAX: usize = 60;

/// What is wrong with a policy.
#[derive(Default)]
pub(in crate::convert) struct Errors(Vec<String>);

impl Errors {
    /// The policy, if nothing is wrong with it.
    pub(in crate::convert) fn result(
        mut self,
        policy: Option<RolloutPolicy>,
    ) -> Result<RolloutPolicy, String> {
        self.0.truncate(ERRORS_MAX);
        policy.filter(|_| self.0.is_empty()).ok_or_else(|| self.0.join("; "))
    }

    /// A list with more items than it may have.
    pub(in crate::convert) fn too_many(&mut self, path: &str, items: usize, max: usize) {
        self.0.push(format!("{path}: Too many: {items}: must have at most {max}"));
    }

    /// A value that the list has already.
    pub(in crate::convert) fn duplicate(&mut self, path: &str, value: &str) {
        self.0.push(format!("{path}: Duplicate value: {value:?}"));
    }

    /// A value that is missing.
    pub(in crate::convert) fn required(&mut self, path: &str) {
        self.0.push(format!("{path}: Required value"));
    }

    /// A value that is not allowed, as Kubernetes words it.
    pub(in crate::convert) fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        let mut text = value.to_string();
        if let Some((at, _)) = text.char_indices().nth(VALUE_LENGTH_MAX) {
            text.truncate(at);
            text.push('…');
        }
        self.0.push(format!("{path}: Invalid value: {text}: {why}"));
    }

    /// The value, or an error at this path.
    pub(in crate::convert) fn checked<T>(
        &mut self,
        path: &str,
        value: &Value,
        result: Result<T, &str>,
    ) -> Option<T> {
        result.map_err(|why| self.invalid(path, value, why)).ok()
    }
}

/// The fields of an object, of which each is read once.
pub(in crate::convert) struct Fields<'a> {
    path: String,
    fields: &'a Map<String, Value>,
    known: BTreeSet<&'static str>,
}

impl<'a> Fields<'a> {
    pub(in crate::convert) fn of(
        path: &str,
        value: &'a Value,
        errors: &mut Errors,
    ) -> Option<Self> {
        let fields = errors.checked(path, value, value.as_object().ok_or("must be an object"))?;
        Some(Self { path: path.to_owned(), fields, known: BTreeSet::new() })
    }

    pub(in crate::convert) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(in crate::convert) fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.insert(key);
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// Whether the field is set.
    pub(in crate::convert) fn has(&mut self, key: &'static str) -> bool {
        self.take(key).is_some()
    }

    /// The items of a list, of which there may be so many, each with its path.
    pub(in crate::convert) fn list(
        &mut self,
        key: &'static str,
        items_max: usize,
        errors: &mut Errors,
    ) -> Vec<(String, &'a Value)> {
        let path = self.path(key);
        let Some(value) = self.take(key) else { return Vec::new() };
        let list = value.as_array().ok_or("must be a list");
        let Some(list) = errors.checked(&path, value, list) else { return Vec::new() };
        if list.len() > items_max {
            errors.too_many(&path, list.len(), items_max);
        }
        let items = list.iter().enumerate();
        items.map(|(index, value)| (format!("{path}[{index}]"), value)).collect()
    }

    /// The field, decoded, or the default.
    pub(in crate::convert) fn read<T>(
        &mut self,
        key: &'static str,
        default: T,
        errors: &mut Errors,
        decode: impl FnOnce(&Value) -> Result<T, &'static str>,
    ) -> T {
        let Some(value) = self.take(key) else { return default };
        errors.checked(&self.path(key), value, decode(value)).unwrap_or(default)
    }

    pub(in crate::convert) fn bool(&mut self, key: &'static str, errors: &mut Errors) -> bool {
        self.read(key, false, errors, |value| value.as_bool().ok_or("must be true or false"))
    }

    pub(in crate::convert) fn selector(
        &mut self,
        key: &'static str,
        default: LabelSelector,
        errors: &mut Errors,
    ) -> LabelSelector {
        self.optional_selector(key, errors).unwrap_or(default)
    }

    /// The label selector, if there is a valid one.
    pub(in crate::convert) fn optional_selector(
        &mut self,
        key: &'static str,
        errors: &mut Errors,
    ) -> Option<LabelSelector> {
        let value = self.take(key)?;
        let path = self.path(key);
        selector_fields(&path, value, errors)?;
        let selector =
            label_selector(Some(value)).and_then(|found| is_small(value, &found).map(|()| found));
        selector.map_err(|why| errors.invalid(&path, value, &why)).ok()
    }

    /// Reports the fields that nothing has read.
    pub(in crate::convert) fn finish(self, errors: &mut Errors) {
        for key in self.fields.keys().filter(|key| !self.known.contains(key.as_str())) {
            errors.0.push(format!("{}: unknown field", self.path(key)));
        }
    }
}

/// Reports what is no field of a label selector. A list in place of an object would be decoded by
/// the order of its items.
fn selector_fields(path: &str, value: &Value, errors: &mut Errors) -> Option<()> {
    let mut fields = Fields::of(path, value, errors)?;
    fields.has("matchLabels");
    let expressions = fields.take("matchExpressions").and_then(Value::as_array);
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let mut fields = Fields::of(&path, expression, errors)?;
        for key in ["key", "operator", "values"] {
            fields.has(key);
        }
        fields.finish(errors);
    }
    fields.finish(errors);
    Some(())
}

/// Checks that a selector has no more parts than the definitions of policies allow.
fn is_small(value: &Value, selector: &LabelSelector) -> Result<(), String> {
    let labels = value["matchLabels"].as_object().map_or(0, Map::len);
    let expressions = value["matchExpressions"].as_array().map_or(0, Vec::len);
    let values = |requirement: &LabelRequirement| match &requirement.operator {
        LabelOperator::In(values) | LabelOperator::NotIn(values) => values.len(),
        LabelOperator::Exists | LabelOperator::DoesNotExist => 0,
    };
    if labels.max(expressions) > LABELS_MAX {
        return Err(format!("must have at most {LABELS_MAX} labels and {LABELS_MAX} expressions"));
    }
    if selector.requirements.iter().any(|requirement| values(requirement) > VALUES_MAX) {
        return Err(format!("must have at most {VALUES_MAX} values for a label"));
    }
    Ok(())
}
