//! Checks values by their schemas, apart from rules, sets and lists with keys.
//!
//! A schema and a value are both what a client sent, so that the work is bounded: in steps, and in
//! the errors that are kept.

use super::lists::OldItems;
use super::types;
use crate::custom::{Checks, CompiledPattern, Schema};
use crate::excerpt::{Excerpt, beginning, shortened};
use crate::format;
use crate::json::Value;
use crate::kind::rules::{
    BYTES_PER_STEP, Cause, Causes, Path, Reason, SMALL_PER_STEP, Steps, go_json, go_quote, go_value,
};

/// The steps that making the texts of an error takes besides their length.
const FINDING_STEPS: usize = 8;

/// The errors in a value, whose messages have no titles yet, and the number of all.
#[derive(Clone, Default)]
pub(super) struct Findings {
    pub(super) kept: Excerpt<Cause>,
    pub(super) count: usize,
}

impl Findings {
    /// Reports all to whoever made the object.
    pub(super) fn report(self, causes: &mut Causes) {
        for Cause { reason, field, message } in self.kept.items {
            causes.found_at(reason, &field, message);
        }
        if self.kept.left_out > 0 {
            causes.leave_out();
        }
    }

    fn push(&mut self, cause: Cause) {
        let bytes = cause.field.len() + cause.message.len();
        self.kept.add_new(cause, bytes);
    }

    fn append(&mut self, other: Self) {
        self.count += other.count;
        self.kept.left_out += other.kept.left_out;
        other.kept.items.into_iter().for_each(|cause| self.push(cause));
    }
}

/// The schemas of a list that a value violates.
#[derive(Default)]
struct Violated {
    /// The number of those that it does not violate.
    valid: usize,
    /// The errors of all.
    all: Findings,
    /// Those of the one with the fewest.
    best: Option<Findings>,
}

pub(super) struct Walk<'a> {
    pub(super) found: &'a mut Findings,
    pub(super) steps: &'a mut Steps,
    /// The start of paths that the texts of messages leave out.
    pub(super) root: &'static str,
}

impl Walk<'_> {
    /// Checks a value, unless it is the same as the one that it replaces.
    pub(super) fn value(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: Path<'_>,
    ) {
        if old == Some(value) || !self.steps.spend(1) {
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
            for (name, value) in fields {
                let is_metadata = matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                if let Some(of_field) =
                    schema.field(name).filter(|_| !(schema.embedded && is_metadata))
                {
                    let old = old.and_then(|old| old.get(name));
                    // As upstream: only the path of a property of the root starts without a dot.
                    let path = match schema.properties.contains_key(name.as_str()) {
                        true => Path::Field(&path, name),
                        false => Path::Dotted(&path, name),
                    };
                    self.value(of_field, value, old, path);
                }
            }
        }
    }

    /// Checks the fields of an object, without their values.
    pub(super) fn object(&mut self, schema: &Schema, value: &Value, path: Path<'_>) {
        let Some(fields) = value.as_object() else { return };
        let checks = &schema.checks;
        let count = fields.len();
        if let Some(max) = checks.max_properties.filter(|max| count > *max) {
            self.add(Reason::TooMany, || path.text(), || too_many(count, max));
        }
        if let Some(min) = checks.min_properties.filter(|min| count < *min) {
            let detail = format!("should have at least {min} properties");
            self.invalid(path, || count.to_string(), &detail);
        }
        self.steps.spend(checks.required.len() / SMALL_PER_STEP);
        for name in &checks.required {
            if !fields.contains_key(name) {
                self.add(Reason::Required, || Path::Field(&path, name).text(), String::new);
            }
        }
    }

    fn items(&mut self, schema: &Schema, items: &[Value], old: Option<&Value>, path: Path<'_>) {
        let (checks, count) = (&schema.checks, items.len());
        if let Some(of_items) = &schema.items {
            let old = OldItems::new(schema, items, old, self.steps);
            for (index, item) in items.iter().enumerate() {
                let old = old.replaced_by(schema, item);
                self.value(of_items, item, old, Path::Index(&path, index));
            }
        }
        if let Some(min) = checks.min_items.filter(|min| count < *min) {
            let detail = format!("should have at least {min} items");
            self.invalid(path, || count.to_string(), &detail);
        }
        if let Some(max) = checks.max_items.filter(|max| count > *max) {
            self.add(Reason::TooMany, || path.text(), || too_many(count, max));
        }
    }

    /// As upstream, only the first of length and pattern is reported.
    fn text(&mut self, checks: &Checks, text: &str, path: Path<'_>) {
        if !self.steps.spend(text.len() / BYTES_PER_STEP) {
            return;
        }
        let length = text.chars().count();
        let quoted = || go_quote(beginning(text));
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            let message = || format!("may not be more than {max} bytes");
            self.add(Reason::TooLong, || path.text(), message);
        } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
            let detail = format!("should be at least {min} chars long");
            self.invalid(path, quoted, &detail);
        } else if let Some(pattern) = checks.pattern.as_ref().filter(|it| !self.matches(it, text)) {
            self.invalid(path, quoted, &format!("should match '{pattern}'"));
        }
        if let Some(of_format) = checks.format.as_deref().filter(|it| !format::is_of(it, text)) {
            let message = || {
                let (shown, path) = (quoted(), path.text());
                format!("{shown}: {path} in body must be of type {of_format}: {shown}")
            };
            self.add(Reason::TypeInvalid, || path.text(), message);
        }
    }

    /// True if a pattern matches a text. One that is none, or takes too many steps, does.
    fn matches(&mut self, pattern: &str, text: &str) -> bool {
        let compiled = CompiledPattern::of(pattern, |steps| _ = self.steps.spend(steps));
        compiled.map_or(true, |it| !self.steps.spend(it.steps_to_match(text)) || it.matches(text))
    }

    fn number(&mut self, schema: &Schema, value: &Value, path: Path<'_>) {
        let Some(number) = value.as_f64() else { return };
        let checks = &schema.checks;
        if let Some(of_type) = types::out_of_range(schema, value) {
            let name = name_in(self.root, path);
            self.junctor(|| format!("Checked value must be of type {of_type} in {}", name()));
        }
        let mut refuse = |detail: String| self.invalid(path, || go_json(value), &detail);
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

    fn choices(&mut self, checks: &Checks, value: &Value, path: Path<'_>) {
        let Some(choices) = checks.choices.as_ref() else { return };
        if !self.steps.spend(choices.len() / SMALL_PER_STEP) || choices.contains(value) {
            return;
        }
        let shown = |choice: &Value| match choice {
            Value::String(text) => go_quote(text),
            other => go_quote(&go_json(other)),
        };
        let message = || {
            let texts: Vec<String> = choices.iter().map(shown).collect();
            format!("{}: supported values: {}", go_value(value), texts.join(", "))
        };
        self.add(Reason::NotSupported, || path.text(), message);
    }

    fn junctors(&mut self, checks: &Checks, value: &Value, path: Path<'_>) {
        let name = name_in(self.root, path);
        if !checks.any_of.is_empty() {
            let Violated { valid, best, .. } = self.violated(&checks.any_of, value, path);
            if valid == 0 {
                let must = "must validate at least one schema (anyOf)";
                self.junctor(|| format!("{:?} {must}", name()));
                self.found.append(best.unwrap_or_default());
            }
        }
        if !checks.one_of.is_empty() {
            let Violated { valid, best, .. } = self.violated(&checks.one_of, value, path);
            let must = "must validate one and only one schema (oneOf). Found";
            if valid == 0 {
                self.junctor(|| format!("{:?} {must} none valid", name()));
                self.found.append(best.unwrap_or_default());
            } else if valid > 1 {
                self.junctor(|| format!("{:?} {must} {valid} valid alternatives", name()));
            }
        }
        if !checks.all_of.is_empty() {
            let Violated { valid, all, .. } = self.violated(&checks.all_of, value, path);
            if all.count > 0 {
                let more = if valid == 0 { ". None validated" } else { "" };
                self.found.append(all);
                let must = "must validate all the schemas (allOf)";
                self.junctor(|| format!("{:?} {must}{more}", name()));
            }
        }
        if let Some(not) = &checks.not
            && self.violated(std::slice::from_ref(&**not), value, path).valid == 1
        {
            self.junctor(|| format!("{:?} must not validate the schema (not)", name()));
        }
    }

    /// Which of the schemas a value violates. Each is evaluated once, since a second time at each
    /// level would double the cost with each level.
    fn violated(&mut self, schemas: &[Schema], value: &Value, path: Path<'_>) -> Violated {
        let mut violated = Violated::default();
        for schema in schemas {
            let mut found = Findings::default();
            let mut walk = Walk { found: &mut found, steps: &mut *self.steps, root: self.root };
            walk.value(schema, value, None, path);
            // Each is compared with those of the other schemas, at each level.
            self.steps.spend(FINDING_STEPS * found.kept.items.len());
            if found.count == 0 {
                violated.valid += 1;
                continue;
            }
            if violated.best.as_ref().is_none_or(|best| found.count < best.count) {
                violated.best = Some(found.clone());
            }
            violated.all.append(found);
        }
        violated
    }

    fn junctor(&mut self, message: impl FnOnce() -> String) {
        self.add(Reason::Invalid, || "<nil>".to_owned(), || format!("\"\": {}", message()));
    }

    fn wrong_type(&mut self, expected: &str, found: &str, path: Path<'_>) {
        let name = name_in(self.root, path);
        let message =
            || format!("{found:?}: {} in body must be of type {expected}: {found:?}", name());
        self.add(Reason::TypeInvalid, || path.text(), message);
    }

    fn invalid(&mut self, path: Path<'_>, value: impl FnOnce() -> String, detail: &str) {
        let name = name_in(self.root, path);
        let message = || format!("{}: {} in body {detail}", value(), name());
        self.add(Reason::Invalid, || path.text(), message);
    }

    /// Adds an error. Its texts are made only if it is kept.
    fn add(
        &mut self,
        reason: Reason,
        path: impl FnOnce() -> String,
        message: impl FnOnce() -> String,
    ) {
        self.found.count += 1;
        if self.found.kept.is_full() || self.steps.is_used_up() {
            self.found.kept.left_out += 1;
            return;
        }
        let (path, message) = (path(), message());
        self.steps.spend(FINDING_STEPS + (path.len() + message.len()) / BYTES_PER_STEP);
        self.found.push(Cause { reason, field: shortened(path), message: shortened(message) });
    }
}

/// A path in the text of a message, which leaves out the root.
fn name_in(root: &'static str, path: Path<'_>) -> impl Fn() -> String + Copy {
    move || {
        let text = path.text();
        text.strip_prefix(root).map(str::to_owned).unwrap_or(text)
    }
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
