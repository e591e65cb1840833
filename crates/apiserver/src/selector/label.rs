//! Label selectors in their text form: `app=web,tier in (a,b),!legacy` (S6).

use everynode_k8s::convert;

use super::SelectorError;
use crate::format;
use crate::json::Value;

/// A label selector: a list of requirements, all of which must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The key of the label.
    pub key: String,
    /// The operator with its values.
    pub operator: Operator,
}

/// The operator of a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label has this value.
    Equals(String),
    /// The label is absent or has another value.
    NotEquals(String),
    /// The label has one of these values, which are sorted.
    In(Vec<String>),
    /// The label is absent or has none of these values, which are sorted.
    NotIn(Vec<String>),
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than this one.
    GreaterThan(i64),
    /// The label is an integer less than this one.
    LessThan(i64),
}

impl LabelSelector {
    /// Parses the value of the parameter `labelSelector`.
    ///
    /// # Errors
    ///
    /// The text is not a label selector; the message is upstream's.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Parser::new(text).requirements()?;
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Self { requirements })
    }

    /// Reads the selector in an object: `matchLabels` and `matchExpressions`. `None` if it is
    /// absent or malformed.
    pub fn of_object(selector: &Value) -> Option<Self> {
        let selector = selector.is_object().then(|| selector.into());
        let selector = convert::label_selector(selector.as_ref()).ok()?;
        Self::parse(&convert::label_selector_text(&selector)).ok()
    }

    /// The number of requirements.
    pub fn len(&self) -> usize {
        self.requirements.len()
    }

    /// True if the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// True if labels match; `label` returns the value of a key.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.operator.matches(label(&requirement.key)))
    }
}

impl Operator {
    fn matches(&self, value: Option<&str>) -> bool {
        match self {
            Self::Equals(wanted) => value == Some(wanted),
            Self::NotEquals(unwanted) => value != Some(unwanted),
            Self::In(values) => value.is_some_and(|value| has(values, value)),
            Self::NotIn(values) => value.is_none_or(|value| !has(values, value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan(limit) => number(value).is_some_and(|value| value > *limit),
            Self::LessThan(limit) => number(value).is_some_and(|value| value < *limit),
        }
    }
}

fn has(sorted: &[String], value: &str) -> bool {
    sorted.binary_search_by(|listed| listed.as_str().cmp(value)).is_ok()
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// The tokens that are no words, the longer ones first.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

struct Parser<'a> {
    tokens: Vec<&'a str>,
    position: usize,
}

fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(SPACES);
    while !rest.is_empty() {
        let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
        let ends_word = |character| "=!(),><".contains(character) || SPACES.contains(&character);
        let word = || rest.find(ends_word).unwrap_or(rest.len());
        let (token, after) = rest.split_at(symbol.map_or_else(word, str::len));
        tokens.push(token);
        rest = after.trim_start_matches(SPACES);
    }
    tokens
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !SYMBOLS.contains(&token)
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Parser { tokens: tokens(text), position: 0 }
    }

    /// The next token; empty at the end.
    fn peek(&self) -> &'a str {
        self.tokens.get(self.position).copied().unwrap_or_default()
    }

    fn word(&mut self) -> Result<&'a str, SelectorError> {
        let token = self.peek();
        if !is_word(token) {
            return Err(self.expected("identifier"));
        }
        self.position += 1;
        Ok(token)
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        while !self.peek().is_empty() {
            if !self.begins_requirement() {
                return Err(self.expected("!, identifier, or 'end of string'"));
            }
            let requirement = self.requirement().map_err(|SelectorError(problem)| {
                SelectorError(format!("unable to parse requirement: {problem}"))
            })?;
            requirements.push(requirement);
            match self.peek() {
                "" => break,
                "," => self.position += 1,
                _ => return Err(self.expected("',' or 'end of string'")),
            }
            if !self.begins_requirement() {
                return Err(self.expected("identifier after ','"));
            }
        }
        Ok(requirements)
    }

    fn begins_requirement(&self) -> bool {
        self.peek() == "!" || is_word(self.peek())
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let absent = self.peek() == "!";
        self.position += usize::from(absent);
        let key = self.word()?;
        check_key(key)?;
        let operator = match self.peek() {
            _ if absent => Operator::DoesNotExist,
            "" | "," => Operator::Exists,
            _ => self.operator(key)?,
        };
        Ok(Requirement { key: key.to_string(), operator })
    }

    fn operator(&mut self, key: &str) -> Result<Operator, SelectorError> {
        let operator = self.peek();
        if !["in", "notin", "=", "==", "!=", ">", "<"].contains(&operator) {
            return Err(self.expected("in, notin, =, ==, !=, gt, lt"));
        }
        self.position += 1;
        match operator {
            "in" => self.values(key).map(Operator::In),
            "notin" => self.values(key).map(Operator::NotIn),
            "!=" => self.value(key).map(Operator::NotEquals),
            ">" => self.limit(key).map(Operator::GreaterThan),
            "<" => self.limit(key).map(Operator::LessThan),
            _ => self.value(key).map(Operator::Equals),
        }
    }

    fn value(&mut self, key: &str) -> Result<String, SelectorError> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let value = self.word()?;
        check_value(key, 0, value)?;
        Ok(value.to_string())
    }

    fn limit(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            SelectorError(format!(
                "values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must \
                 be an integer"
            ))
        })
    }

    /// `(a, b)`; an empty entry is the empty value, and so is an empty list.
    fn values(&mut self, key: &str) -> Result<Vec<String>, SelectorError> {
        if self.peek() != "(" {
            return Err(SelectorError(format!("found '{}' expected: '('", self.peek())));
        }
        let mut values = Vec::new();
        while self.peek() != ")" {
            self.position += 1;
            let value = match self.peek() {
                "," | ")" => "",
                word if is_word(word) => self.word()?,
                _ if values.is_empty() => return Err(self.expected("',', ')' or identifier")),
                _ => return Err(self.expected("',', or identifier")),
            };
            check_value(key, values.len(), value)?;
            values.push(value.to_string());
            if !matches!(self.peek(), "," | ")") {
                return Err(self.expected("',' or ')'"));
            }
        }
        self.position += 1;
        values.sort();
        values.dedup();
        Ok(values)
    }

    fn expected(&self, what: &str) -> SelectorError {
        SelectorError(format!("found '{}', expected: {what}", self.peek()))
    }
}

/// Checks a qualified name: `name` or `dns.subdomain/name`.
fn check_key(key: &str) -> Result<(), SelectorError> {
    let invalid =
        |problem: String| SelectorError(format!("<nil>: Invalid value: \"{key}\": {problem}"));
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if prefix.len() > 253 || !format::is_dns_subdomain(prefix) {
                return Err(invalid(format!("prefix part {}", format::SUBDOMAIN_MESSAGE)));
            }
            name
        }
        None => key,
    };
    if name.is_empty() {
        return Err(invalid("name part must be non-empty".to_string()));
    }
    if name.len() > 63 {
        return Err(invalid("name part must be no more than 63 bytes".to_string()));
    }
    if !format::is_key_name(name) {
        return Err(invalid(format!("name part {}", format::KEY_NAME_MESSAGE)));
    }
    Ok(())
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), SelectorError> {
    let invalid = |problem: &str| {
        SelectorError(format!("values[{index}][{key}]: Invalid value: \"{value}\": {problem}"))
    };
    if value.len() > 63 {
        return Err(invalid("must be no more than 63 bytes"));
    }
    if !value.is_empty() && !format::is_key_name(value) {
        return Err(invalid(format::LABEL_VALUE_MESSAGE));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn check(selector: &str, cases: &[(&str, bool)]) {
        let parsed = LabelSelector::parse(selector).expect("it parses");
        for (labels, expected) in cases {
            let labels: BTreeMap<&str, &str> =
                labels.split(' ').filter_map(|label| label.split_once('=')).collect();
            let matches = parsed.matches(|key| labels.get(key).copied());
            assert_eq!(matches, *expected, "{selector} on {labels:?}");
        }
    }

    /// S6: equality and set operators; absent labels match the negative operators.
    #[test]
    fn selectors_match_as_upstream_does() {
        check("", &[("", true), ("a=b", true)]);
        check("a=b", &[("a=b", true), ("a=c", false), ("", false)]);
        check("a == b , c", &[("a=b c=", true), ("a=b", false)]);
        check("a!=b", &[("a=b", false), ("a=c", true), ("", true)]);
        check("a=", &[("a=", true), ("a=b", false)]);
        check("a", &[("a=", true), ("b=", false)]);
        check("!a", &[("a=", false), ("", true)]);
        check("a in (b, c)", &[("a=b", true), ("a=c", true), ("a=d", false), ("", false)]);
        check("a in (b,)", &[("a=b", true), ("a=", true), ("a=c", false)]);
        check("a in ()", &[("a=", true), ("a=b", false)]);
        check("a notin (b,c)", &[("a=b", false), ("a=d", true), ("", true)]);
        check("in in (notin)", &[("in=notin", true), ("in=in", false)]);
        check("a>5,a<10", &[("a=7", true), ("a=10", false), ("a=x", false), ("", false)]);
        check("example.com/a=b", &[("example.com/a=b", true)]);
    }

    /// S6, S12: malformed selectors are refused with upstream's messages.
    #[test]
    fn bad_selectors_are_refused_in_upstreams_words() {
        for (selector, problem) in [
            ("a=b,", "found '', expected: identifier after ','"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("!a in (b)", "found 'in', expected: ',' or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (b,(", "unable to parse requirement: found '(', expected: ',', or identifier"),
            ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("a==(b)", "unable to parse requirement: found '(', expected: identifier"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' \
                 operators, the value must be an integer",
            ),
        ] {
            let error = LabelSelector::parse(selector).expect_err(selector);
            assert_eq!(error.0, problem, "{selector}");
        }
        let long = "x".repeat(64);
        for selector in ["-a=b", "a=-b", "a/b/c", "A.b/c", "/a", "ä=b", "a=b\u{0}", &long] {
            let error = LabelSelector::parse(selector).expect_err(selector);
            assert!(error.0.contains("Invalid value: "), "{selector}: {error}");
        }
    }

    /// A regular expression of texts that resemble selectors, and of any text.
    const HOSTILE_SELECTOR: &str =
        concat!("[a-c=!<>(), /.\\-é\t]{0,24}|\\PC{0,40}|", "(a|in|notin|!| |,|\\(|\\)|=|b){0,12}");

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// S6, S12: no text makes the parser panic.
        #[test]
        fn any_text_is_parsed_or_refused(text in HOSTILE_SELECTOR) {
            let _ = LabelSelector::parse(&text);
        }
    }
}
