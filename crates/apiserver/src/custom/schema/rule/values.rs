//! The values that expressions read, and the bound of what an evaluation costs.

use std::collections::HashMap;

use base64::prelude::{BASE64_STANDARD, Engine};
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelOptional,
    CelString,
};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;

use super::functions::{Moment, Span};
use super::metering;
use crate::custom::schema::{Additional, Schema, TypeName};
use crate::json::Value;

/// The cost that all rules about an object may have together. A unit is a value that an expression
/// can reach by one use of a variable.
#[derive(Clone, Debug)]
pub(crate) struct Budget(u64);

/// Maximum cost of one evaluation.
const PER_CALL: u64 = 500_000;

impl Default for Budget {
    fn default() -> Self {
        Self(4 * PER_CALL)
    }
}

/// A value and the one that it replaces, for expressions.
pub(crate) struct Values {
    own: Variable,
    old: Option<Variable>,
    old_optional: Variable,
}

struct Variable {
    value: Box<dyn Val>,
    /// The number of values in it.
    size: u64,
}

impl Values {
    /// The value of `self`, and that of `oldSelf` if there was one.
    pub(crate) fn new(schema: &Schema, value: &Value, old: Option<&Value>) -> Self {
        let optional = match old {
            Some(old) => CelOptional::of(converted(Some(schema), old)),
            None => CelOptional::none(),
        };
        Self {
            own: Variable::new(schema, value),
            old: old.map(|old| Variable::new(schema, old)),
            old_optional: Variable { value: Box::new(optional), size: old.map_or(1, size) },
        }
    }

    /// The number of values in both.
    pub(crate) fn size(&self) -> usize {
        let size = self.own.size + self.old.as_ref().map_or(0, |old| old.size);
        usize::try_from(size).unwrap_or(usize::MAX)
    }

    /// True if there was a value before.
    pub(crate) fn has_old(&self) -> bool {
        self.old.is_some()
    }

    /// Evaluates an expression; `None` if it costs too much.
    pub(crate) fn evaluate<T>(
        &self,
        old_is_optional: bool,
        budget: &mut Budget,
        evaluate: impl FnOnce(&Variables<'_>) -> T,
    ) -> Option<T> {
        let limit = budget.0.min(PER_CALL);
        let old = if old_is_optional { Some(&self.old_optional) } else { self.old.as_ref() };
        let variables = Variables { own: &self.own, old };
        let (result, cost) = metering::within(limit, || evaluate(&variables));
        budget.0 -= cost;
        result
    }
}

impl Variable {
    fn new(schema: &Schema, value: &Value) -> Self {
        Self { value: converted(Some(schema), value), size: size(value) }
    }
}

/// The variables of one evaluation.
pub(crate) struct Variables<'a> {
    own: &'a Variable,
    old: Option<&'a Variable>,
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let found = match variable {
            "self" => self.own,
            "oldSelf" => self.old?,
            _ => return None,
        };
        metering::spend(found.size);
        Some(CowVal::Borrowed(&*found.value))
    }
}

fn size(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum::<u64>(),
        Value::Object(fields) => fields.values().map(size).sum::<u64>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// A value in the form that expressions read. Without a schema it is read by its own form.
fn converted(schema: Option<&Schema>, value: &Value) -> Box<dyn Val> {
    let is_number = schema.is_some_and(|schema| schema.type_name == Some(TypeName::Number));
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) if !is_number => Box::new(CelInt::from(integer)),
            _ => Box::new(CelDouble::from(number.as_f64().unwrap_or_default())),
        },
        Value::String(text) => of_text(schema, text),
        Value::Array(items) => {
            let of_items = schema.and_then(|schema| schema.items.as_deref());
            let items: Vec<Box<dyn Val>> =
                items.iter().map(|item| converted(of_items, item)).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(fields) => {
            let is_map =
                schema.is_some_and(|schema| matches!(schema.additional, Additional::Of(_)));
            let mut entries = HashMap::new();
            for (name, value) in fields {
                let of_field = schema.and_then(|schema| schema.field(name));
                let value = converted(of_field, value);
                if is_map || KEYWORDS.contains(&name.as_str()) {
                    entries.insert(CelMapKey::from(name.to_string()), value.clone());
                }
                if !is_map {
                    entries.insert(CelMapKey::from(escaped(name)), value);
                }
            }
            Box::new(CelMap::from(entries))
        }
    }
}

/// A text, or what it stands for in some formats. One that is malformed stays a text, which no
/// function for the format takes.
fn of_text(schema: Option<&Schema>, text: &str) -> Box<dyn Val> {
    let as_text = || Box::new(CelString::from(text.to_owned())) as Box<dyn Val>;
    let is_text = schema.filter(|schema| schema.type_name == Some(TypeName::String));
    match is_text.and_then(|schema| schema.checks.format.as_deref()) {
        Some("duration") => Span::parse(text).map_or_else(as_text, |span| Box::new(span)),
        Some("date" | "date-time") => {
            Moment::parse(text).map_or_else(as_text, |moment| Box::new(moment))
        }
        Some("byte") => match BASE64_STANDARD.decode(text) {
            Ok(bytes) => Box::new(CelBytes::from(bytes)),
            Err(_) => as_text(),
        },
        Some(_) | None => as_text(),
    }
}

/// Names that mean something in expressions.
const KEYWORDS: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a property in expressions (upstream's `Escape`).
fn escaped(name: &str) -> String {
    if KEYWORDS.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
