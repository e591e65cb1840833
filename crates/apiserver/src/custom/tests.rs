//! Random paths, patterns and rules: none of them panics.

use proptest::prelude::*;

use super::json_path::JsonPath;
use super::{Budget, CompiledPattern, Schema, Values};
use crate::json::json;

/// Parts of rules, so that random ones pass the parser.
const TERMS: &[&str] = &[
    "self",
    "oldSelf",
    "self.n",
    "self.text",
    "self.list",
    "self.map",
    "x",
    "1",
    "-9223372036854775808",
    "9223372036854775807u",
    "1e308",
    "''",
    "'é'",
    "b'\\xff'",
    "[]",
    "{}",
    "null",
    "true",
    "duration('1h')",
    "timestamp('9999-12-31T23:59:59Z')",
];

const CALLS: &[&str] = &[
    ".size()",
    ".all(x, x == x)",
    ".map(x, [x])",
    ".exists_one(x, x)",
    ".filter(x, true)",
    ".substring(1)",
    ".charAt(-1)",
    ".matches('(')",
    ".find('x*')",
    ".split('')",
    ".replace('', 'y')",
    ".join()",
    ".sort()",
    ".sum()",
    ".distinct()",
    ".slice(0, 9)",
    "[0]",
    "['k']",
    "[-1]",
    ".getHours()",
    " + self.n",
    " / 0",
    " % self.n",
    " * self.n",
    " - self.n",
    " < 2",
    " in self.list",
    " == self.text",
    " ? 1 : 2",
    " && true",
];

fn rule() -> impl Strategy<Value = String> {
    let term = prop::sample::select(TERMS);
    let calls = prop::collection::vec(prop::sample::select(CALLS), 0..5);
    prop_oneof![
        4 => (term, calls).prop_map(|(term, calls)| format!("{term}{}", calls.concat())),
        1 => r"[a-z0-9.()\[\]{}'!?:<>=+*/%&| -]{0,30}",
        1 => r"\PC{0,30}",
    ]
}

proptest! {
    #[test]
    fn any_path_is_parsed_or_refused(text in r"[.@?=!()\[\]'*a-c0-9-]{0,30}|\PC{0,30}") {
        let object = json!({"a": [{"a": "b", "c": [1, 2]}, {"b": null}], "b": "c"});
        if let Some(path) = JsonPath::parse(&text) {
            let _ = path.first(&object);
        }
    }

    #[test]
    fn any_pattern_is_compiled_or_refused(
        pattern in r"[a-c0-9^$.*+?|()\[\]{},\\:=!<>PpLd-]{0,30}|\PC{0,30}",
        text in r"[a-c0-9é]{0,20}",
    ) {
        if let Ok(pattern) = CompiledPattern::of(&pattern, drop) {
            let found = pattern.find(&text, 3);
            prop_assert!(pattern.matches(&text) || found.is_empty());
        }
    }

    #[test]
    fn any_rule_has_a_verdict_or_an_error(rule in rule(), message in rule(), n in any::<i64>()) {
        let schema = Schema::parse(&json!({
            "type": "object",
            "x-kubernetes-validations": [{"rule": rule, "messageExpression": message}],
            "properties": {
                "n": {"type": "integer"},
                "text": {"type": "string"},
                "list": {"type": "array", "items": {"type": "integer"}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }));
        let value = json!({"n": n, "text": "aé", "list": [1, n], "map": {"k": "v"}});
        let values = Values::new(&schema, &value, Some(&value));
        for rule in &schema.rules {
            let _ = rule.check(&values, &mut Budget::default());
        }
    }
}
