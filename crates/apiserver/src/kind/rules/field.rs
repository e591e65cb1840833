//! The fields of a validated object and their errors, with the paths (`spec.containers[0].name`)
//! and messages of apimachinery's `field.Error`.

use std::fmt::Write as _;

use crate::custom::Budget;
use crate::excerpt::{Excerpt, shortened};
use crate::json::Value;

use super::path::Path;

static NULL: Value = Value::Null;

/// A value with its path. The path is a chain of borrowed elements, and is formatted only for an
/// error.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    path: Path<'a>,
    value: &'a Value,
}

impl<'a> Field<'a> {
    /// The object itself, whose path is empty.
    pub fn root(object: &'a Value) -> Self {
        Field { path: Path::Start(""), value: object }
    }

    /// A field of a struct; null if it is absent.
    pub fn child<'b>(&'b self, name: &'b str) -> Field<'b> {
        let value = self.value.get(name).unwrap_or(&NULL);
        Field { path: Path::Field(&self.path, name), value }
    }

    /// An entry of a map.
    pub fn key<'b>(&'b self, key: &'b str) -> Field<'b> {
        let value = self.value.get(key).unwrap_or(&NULL);
        Field { path: Path::Key(&self.path, key), value }
    }

    /// An element of a list.
    pub fn index(&self, index: usize) -> Field<'_> {
        let value = self.value.get(index).unwrap_or(&NULL);
        Field { path: Path::Index(&self.path, index), value }
    }

    /// The same path with another value, because upstream reports some values under other paths.
    pub fn with_value<'b>(&self, value: &'b Value) -> Field<'b>
    where
        'a: 'b,
    {
        Field { value, ..*self }
    }

    /// The elements of a list.
    pub fn items(&self) -> impl Iterator<Item = Field<'_>> {
        (0..self.len()).map(|index| self.index(index))
    }

    /// The entries of a map, ordered by key.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Field<'_>)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(key, _)| (key.as_str(), self.key(key)))
    }

    /// The value; null if it is absent.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The string value; empty if it is not a string.
    pub fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or("")
    }

    /// The integer value; 0 if it is not an integer.
    pub fn int(&self) -> i64 {
        self.value.as_i64().unwrap_or(0)
    }

    /// True if the value is `true`.
    pub fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// True if the value is there and not null.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The number of elements of a list or entries of a map.
    pub fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    /// True if there are no elements or entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path in messages: `spec.containers[0].name`.
    pub fn path(&self) -> String {
        self.path.text()
    }
}

/// An error in a field of an object; it becomes a `StatusCause` (S8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The type of the error.
    pub reason: Reason,
    /// The path of the field, such as `spec.template.spec.containers[0].name`.
    pub field: String,
    /// The error, without the path.
    pub message: String,
}

/// The type of a [`Cause`], as in apimachinery's `field.ErrorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A required field is missing.
    Required,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not in the list of supported values.
    NotSupported,
    /// The field may not have this value in this situation.
    Forbidden,
    /// The value must be unique and is not.
    Duplicate,
    /// The value refers to something that does not exist.
    NotFound,
    /// The value is too long.
    TooLong,
    /// The value has the wrong type.
    TypeInvalid,
    /// There are too many items.
    TooMany,
}

impl Reason {
    /// The `reason` of the `StatusCause`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    /// The start of a message with this reason.
    pub fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// Maximum number of steps for a request.
const STEPS_MAX: u64 = 2_000_000;
/// Number of comparisons of small values that are about one step.
pub(crate) const SMALL_PER_STEP: usize = 16;
/// Number of bytes of a text that are read or written in about one step.
pub(crate) const BYTES_PER_STEP: usize = 64;

/// The work that is left to the validation of a request where the schema is the client's, too. A
/// step takes some tenths of a microsecond: a value that is visited, or some bytes of a text.
#[derive(Clone, Copy, Debug)]
pub struct Steps(u64);

impl Default for Steps {
    fn default() -> Self {
        Self(STEPS_MAX)
    }
}

impl Steps {
    /// Takes some steps; false once all are used up.
    pub fn spend(&mut self, steps: usize) -> bool {
        self.0 = self.0.saturating_sub(steps as u64);
        !self.is_used_up()
    }

    /// True if no step is left.
    pub(crate) fn is_used_up(self) -> bool {
        self.0 == 0
    }
}

/// The errors in an object, in upstream's order. Upstream validates some parts twice on an update;
/// duplicates are removed, as kubectl does. Upstream lists any number of errors; here further ones
/// cost nothing and are left out.
#[derive(Default)]
pub struct Causes {
    found: Excerpt<Cause>,
    /// The steps that validation may still take.
    pub steps: Steps,
    /// The cost that all rules of schemas may still have.
    pub(crate) rule_budget: Budget,
}

impl Causes {
    /// True if there is no error.
    pub fn is_empty(&self) -> bool {
        self.found.items.is_empty()
    }

    /// True if further errors are left out. Then their texts need not be made.
    pub fn is_full(&self) -> bool {
        self.found.is_full()
    }

    /// Errors of a part, which are appended later. They use the same steps.
    pub fn part(&self) -> Self {
        let (steps, rule_budget) = (self.steps, self.rule_budget.clone());
        Self { steps, rule_budget, ..Self::default() }
    }

    /// Notes that there are further errors, whose texts were not made.
    pub fn leave_out(&mut self) {
        self.found.left_out += 1;
    }

    /// Adds the errors of a part.
    pub fn append(&mut self, other: Self) {
        self.found.left_out += other.found.left_out;
        (self.steps, self.rule_budget) = (other.steps, other.rule_budget);
        other.found.items.into_iter().for_each(|cause| self.push(cause));
    }

    /// True if there is an error with such a reason.
    pub fn has_any(&self, is_such: impl Fn(Reason) -> bool) -> bool {
        self.found.items.iter().any(|cause| is_such(cause.reason))
    }

    /// The errors in the order of their texts.
    pub fn sorted(mut self) -> Self {
        let found = &mut self.found.items;
        found.sort_by(|one, other| (&one.field, &one.message).cmp(&(&other.field, &other.message)));
        self
    }

    /// An error at a path; `message` follows the title of the reason.
    pub(crate) fn found_at(&mut self, reason: Reason, path: &str, message: String) {
        if self.is_full() {
            return self.leave_out();
        }
        let title = reason.title();
        let message =
            if message.is_empty() { title.to_owned() } else { format!("{title}: {message}") };
        self.push(Cause { reason, field: shortened(path.to_owned()), message: shortened(message) });
    }

    /// The errors, with a note at the end if some are left out.
    pub fn into_vec(self) -> Vec<Cause> {
        let Excerpt { items: mut found, left_out, .. } = self.found;
        if self.steps.is_used_up() {
            let reason = Reason::Invalid;
            let message = format!(
                "{}: the schema takes more than {STEPS_MAX} steps to validate the object: use \
                 fewer or simpler schemas, or a smaller object",
                reason.title()
            );
            found.push(Cause { reason, field: String::new(), message });
        }
        if left_out > 0 {
            found.push(Cause {
                reason: Reason::TooMany,
                field: String::new(),
                message: format!("Too many: only the first {} errors are listed", found.len()),
            });
        }
        found
    }

    /// The field is missing.
    pub fn required(&mut self, field: &Field, detail: &str) {
        self.add(Reason::Required, field, None, detail);
    }

    /// The field may not be set.
    pub fn forbidden(&mut self, field: &Field, detail: &str) {
        self.add(Reason::Forbidden, field, None, detail);
    }

    /// The value of the field is invalid.
    pub fn invalid(&mut self, field: &Field, detail: &str) {
        self.add(Reason::Invalid, field, Some(&|| go_value(field.value)), detail);
    }

    /// One error for each of `details`.
    pub fn invalid_each(&mut self, field: &Field, details: Vec<String>) {
        for detail in details {
            self.invalid(field, &detail);
        }
    }

    /// The value is invalid; `value` is its text in the message.
    pub fn invalid_rendered(&mut self, field: &Field, value: String, detail: &str) {
        self.add(Reason::Invalid, field, Some(&|| value.clone()), detail);
    }

    /// The text, which is that of the field or in it, is invalid.
    pub fn invalid_text(&mut self, field: &Field, text: &str, detail: &str) {
        self.add(Reason::Invalid, field, Some(&|| go_quote(text)), detail);
    }

    /// The field is missing or the empty string.
    pub fn required_text(&mut self, field: &Field) {
        if field.text().is_empty() {
            self.required(field, "");
        }
    }

    /// The text, which is that of the field or in it, does not have the format.
    pub fn text_format(&mut self, field: &Field, text: &str, format: impl Fn(&str) -> Vec<String>) {
        for detail in format(text) {
            self.invalid_text(field, text, &detail);
        }
    }

    /// The field is missing or the empty string, or does not have the format.
    pub fn required_format(&mut self, field: &Field, format: impl Fn(&str) -> Vec<String>) {
        match field.text() {
            "" => self.required(field, ""),
            text => self.invalid_each(field, format(text)),
        }
    }

    /// The field is not empty and does not have the format.
    pub fn optional_format(&mut self, field: &Field, format: impl Fn(&str) -> Vec<String>) {
        if !field.text().is_empty() {
            self.invalid_each(field, format(field.text()));
        }
    }

    /// The field is missing, or its value is not in the closed list `supported`.
    pub fn required_choice(&mut self, field: &Field, supported: &[&str]) {
        match field.text() {
            "" => self.required(field, ""),
            text if supported.contains(&text) => {}
            _ => self.not_supported(field, supported),
        }
    }

    /// The field is set, and its value is not in the closed list `supported`.
    pub fn optional_choice(&mut self, field: &Field, supported: &[&str]) {
        if field.is_set() {
            self.choice(field, supported);
        }
    }

    /// The value is not in the closed list `supported`.
    pub fn choice(&mut self, field: &Field, supported: &[&str]) {
        if !supported.contains(&field.text()) {
            self.not_supported(field, supported);
        }
    }

    /// The value is not in the closed list `supported`.
    pub fn not_supported(&mut self, field: &Field, supported: &[&str]) {
        if !self.is_full() {
            self.not_supported_rendered(field, go_value(field.value), supported);
        }
    }

    /// The same; `value` is its text in the message.
    pub fn not_supported_rendered(&mut self, field: &Field, value: String, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|value| go_quote(value)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.add(Reason::NotSupported, field, Some(&|| value.clone()), &detail);
    }

    /// The value is there twice.
    pub fn duplicate(&mut self, field: &Field) {
        self.add(Reason::Duplicate, field, Some(&|| go_value(field.value)), "");
    }

    /// The same; `value` is its text in the message.
    pub fn duplicate_rendered(&mut self, field: &Field, value: String, detail: &str) {
        self.add(Reason::Duplicate, field, Some(&|| value.clone()), detail);
    }

    /// The value names nothing that exists.
    pub fn not_found(&mut self, field: &Field, detail: &str) {
        self.add(Reason::NotFound, field, Some(&|| go_value(field.value)), detail);
    }

    /// The value is too long.
    pub fn too_long(&mut self, field: &Field, bytes_max: usize) {
        self.add(Reason::TooLong, field, None, &format!("may not be more than {bytes_max} bytes"));
    }

    fn add(
        &mut self,
        reason: Reason,
        field: &Field,
        value: Option<&dyn Fn() -> String>,
        detail: &str,
    ) {
        if self.is_full() {
            return self.leave_out();
        }
        let mut message = reason.title().to_owned();
        if let Some(value) = value {
            message.push_str(": ");
            message.push_str(&shortened(value()));
        }
        if !detail.is_empty() {
            message.push_str(": ");
            message.push_str(detail);
        }
        self.push(Cause { reason, field: shortened(field.path()), message });
    }

    fn push(&mut self, cause: Cause) {
        let bytes = cause.field.len() + cause.message.len();
        self.found.add_new(cause, bytes);
    }
}

/// A value as `field.Error` prints it: strings quoted, numbers and booleans plain, anything else as
/// JSON.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        other => go_json(other),
    }
}

/// JSON as Go's encoder writes it. Unlike Go's `any`, numbers are not floats.
pub fn go_json(value: &Value) -> String {
    let mut text = value.to_string();
    for (character, escaped) in [
        ('&', "\\u0026"),
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if text.contains(character) {
            text = text.replace(character, escaped);
        }
    }
    text
}

/// A string in the format of Go's `%q`.
pub fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                write!(quoted, "\\x{:02x}", control as u32).expect("a String takes all writes");
            }
            invisible if is_invisible(invisible) => {
                write!(quoted, "\\u{:04x}", invisible as u32).expect("a String takes all writes");
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// True if Go escapes a non-ASCII character: control and format characters, and spaces other than
/// U+0020.
fn is_invisible(character: char) -> bool {
    let code = character as u32;
    let is_control = matches!(code, 0x80..=0xa0 | 0xad | 0xfeff);
    let is_format = matches!(code, 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f);
    is_control || is_format || (code > 0x7f && character.is_whitespace())
}
