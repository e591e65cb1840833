//! The JSON paths of columns: fields, indexes, `[*]`, and filters such as
//! `.status.conditions[?(@.type=="Ready")].status`.

use crate::json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// The elements for which the path has the value, or not.
    Where {
        path: Vec<Step>,
        is_equal: bool,
        value: Value,
    },
    /// The elements that have the path.
    Has(Vec<Step>),
}

impl JsonPath {
    /// Parses a path that starts with a dot; `None` for what is not supported, also for filters in
    /// filters below [`FILTERS_MAX`] levels.
    pub fn parse(text: &str) -> Option<Self> {
        steps(text, FILTERS_MAX).map(Self)
    }

    /// The first value at the path. None is found after [`VISITED_MAX`] elements.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut visits_left = VISITED_MAX;
        find(&self.0, object, &mut visits_left)
    }
}

/// Maximum number of filters inside of each other: each level takes some of the stack.
const FILTERS_MAX: usize = 8;
/// Maximum number of elements of lists and maps that are visited for one cell: a table has many.
const VISITED_MAX: usize = 10_000;

fn find<'a>(steps: &[Step], value: &'a Value, visits_left: &mut usize) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => find(rest, value.get(name)?, visits_left),
        Step::Index(index) => {
            let items = value.as_array()?;
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let index = if *index < 0 { length + index } else { *index };
            find(rest, items.get(usize::try_from(index).ok()?)?, visits_left)
        }
        Step::All | Step::Where { .. } | Step::Has(_) => {
            let mut elements: Box<dyn Iterator<Item = &'a Value>> = match value {
                Value::Array(items) => Box::new(items.iter()),
                Value::Object(fields) => Box::new(fields.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            };
            elements.find_map(|element| {
                *visits_left = visits_left.checked_sub(1)?;
                selects(step, element, visits_left).then(|| find(rest, element, visits_left))?
            })
        }
    }
}

/// True if a step from a list or a map leads to an element of it.
fn selects(step: &Step, element: &Value, visits_left: &mut usize) -> bool {
    match step {
        Step::Field(_) | Step::Index(_) | Step::All => true,
        Step::Where { path, is_equal, value } => {
            (find(path, element, visits_left) == Some(value)) == *is_equal
        }
        Step::Has(path) => find(path, element, visits_left).is_some(),
    }
}

fn steps(text: &str, filters: usize) -> Option<Vec<Step>> {
    let mut rest = text;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            // A dot before a bracket, or alone.
            if after.is_empty() || after.starts_with('[') {
                rest = after;
                continue;
            }
            let (name, after) = field(after)?;
            steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            rest = after;
        } else {
            let inner = rest.strip_prefix('[')?;
            let (inner, after) = bracket(inner)?;
            steps.push(in_brackets(inner, filters)?);
            rest = after;
        }
    }
    Some(steps)
}

/// A name up to a dot or bracket; a backslash escapes them.
fn field(text: &str) -> Option<(String, &str)> {
    let (mut name, mut escaped) = (String::new(), false);
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => {
                name.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => return (index > 0).then(|| (name, &text[index..])),
            _ => name.push(character),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

/// The text before the bracket that closes, and the text after it.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quote) = (0, None);
    for (index, character) in text.char_indices() {
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(character),
            ('[', None) => depth += 1,
            (']', None) if depth == 0 => return Some((&text[..index], &text[index + 1..])),
            (']', None) => depth -= 1,
            _ => {}
        }
    }
    None
}

fn in_brackets(text: &str, filters: usize) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return in_filter(filter.trim(), filters.checked_sub(1)?);
    }
    if let Some(name) = unquoted(text) {
        return Some(Step::Field(name.to_owned()));
    }
    text.parse().ok().map(Step::Index)
}

fn in_filter(text: &str, filters: usize) -> Option<Step> {
    for (operator, is_equal) in [("==", true), ("!=", false)] {
        if let Some((path, value)) = text.split_once(operator) {
            let value = value.trim();
            let value = match unquoted(value) {
                Some(text) => Value::from(text),
                None => serde_json::from_str(value).ok()?,
            };
            let path = steps(path.trim().strip_prefix('@')?, filters)?;
            return Some(Step::Where { path, is_equal, value });
        }
    }
    steps(text.strip_prefix('@')?, filters).map(Step::Has)
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    /// S15: paths of columns find what upstream finds; others are not supported.
    #[test]
    fn paths_find_the_first_value() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "d"}},
            "status": {
                "conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True"}],
                "sizes": [1, 2],
            },
        });
        for (path, expected) in [
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type=='Ready')].status", json!("True")),
            (r#".status.conditions[?(@.type!="Ready")].type"#, json!("A")),
            (".status.conditions[?(@.status)].type", json!("A")),
            (".status.conditions[*].type", json!("A")),
            (".status.sizes[-1]", json!(2)),
            (r".metadata.annotations.a\.b/c", json!("d")),
            (".metadata.annotations['a.b/c']", json!("d")),
        ] {
            let parsed = JsonPath::parse(path).expect(path);
            assert_eq!(parsed.first(&object), Some(&expected), "{path}");
        }
        assert_eq!(JsonPath::parse(".status.none").expect("a path").first(&object), None);
        for unsupported in ["status", ".a[", ".a[?(b)]", ".a[1:2]", "..a"] {
            assert_eq!(JsonPath::parse(unsupported), None, "{unsupported}");
        }
    }

    /// S12: a search ends after a number of elements.
    #[test]
    fn a_search_visits_a_limited_number_of_elements() {
        let path = JsonPath::parse(".a[*].b").expect("it is supported");
        let list = |before: usize| {
            let mut items = vec![json!({}); before];
            items.push(json!({"b": 1}));
            json!({"a": items})
        };
        assert_eq!(path.first(&list(VISITED_MAX - 1)), Some(&json!(1)));
        assert_eq!(path.first(&list(VISITED_MAX)), None);
    }

    /// S12: filters in filters end nothing.
    #[test]
    fn filters_in_filters_have_a_limit() {
        let nested = |levels: usize| {
            format!("{}@.b{}", ".a[?(".repeat(levels).replace("(.a", "(@.a"), ")]".repeat(levels))
        };
        let parsed = |levels| JsonPath::parse(&nested(levels)).is_some();
        assert!(parsed(FILTERS_MAX) && !parsed(FILTERS_MAX + 1) && !parsed(100_000));
    }
}
