//! The rules of schemas (`x-kubernetes-validations`): expressions in CEL about a value and the one
//! that it replaces.

mod check;
mod cost;
mod functions;
mod metering;
mod overload;
mod types;
mod values;

use std::cell::Cell;
use std::sync::{Arc, LazyLock, OnceLock};

use cel::common::ast::IdedExpr;
use cel::{Context, Env, Program};

use super::Schema;
use crate::json::Value;
pub(crate) use types::{REQUEST_BYTES_MAX, min_bytes};
pub(crate) use values::{Budget, Values};

/// A rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The expression.
    pub text: Box<str>,
    /// The message; empty for the default.
    pub message: Box<str>,
    /// The expression of the message; empty if it has none.
    pub message_expression: Box<str>,
    /// `FieldValueForbidden`; empty for the default.
    pub reason: Box<str>,
    /// The field below the value that is wrong; empty for the value itself.
    pub field_path: Box<str>,
    /// True if `oldSelf` is an optional, so that the rule is checked for new values as well.
    optional_old_self: bool,
    compiled: OnceLock<Option<Compiled>>,
}

/// A rule that can be checked.
#[derive(Debug)]
pub(crate) struct Compiled {
    program: IdedExpr,
    message: Option<IdedExpr>,
    /// True if the rule compares with the value before.
    pub uses_old_self: bool,
    /// Maximum cost of an evaluation, by the limits of the schema.
    pub cost: u64,
    /// The same for the expression of the message.
    pub message_cost: Option<u64>,
}

/// Why a rule can't be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CompileError {
    /// A real server refuses the rule with this message.
    Refused(String),
    /// A real server checks the rule, and the sandbox can't.
    NotSupported,
}

/// The verdict of a rule on a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The value obeys it.
    Holds,
    /// The message of the rule.
    Violated(String),
    /// It can't be evaluated for this value.
    Failed(String),
    /// It takes too long; no other rule is checked.
    TooExpensive(String),
}

/// The functions that expressions can use.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [
        cel::extensions::strings,
        cel::extensions::lists,
        functions::extension,
        metering::extension,
    ] {
        env.add_extension(extension).expect("no extension defines what another one does");
    }
    Arc::new(env)
});

/// Maximum nesting of the text of an expression. The parser uses much of the stack for each level.
const NESTING_MAX: u16 = 40;
/// Maximum depth of an expression, which a long sum has as well.
const DEPTH_MAX: usize = 500;
/// The size of the stack on which expressions are parsed and evaluated.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Maximum size of an expression in bytes.
const BYTES_MAX: usize = 16 * 1024;

impl Rule {
    /// The rules of a schema's document.
    pub(super) fn of_schema(document: &Value) -> Vec<Self> {
        let rules = document.get("x-kubernetes-validations").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::parse).collect()
    }

    fn parse(rule: &Value) -> Self {
        let raw = |field: &str| rule[field].as_str().unwrap_or_default();
        let text = |field: &str| raw(field).trim().into();
        Self {
            text: text("rule"),
            message: text("message"),
            message_expression: raw("messageExpression").into(),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old_self: rule["optionalOldSelf"] == true,
            compiled: OnceLock::new(),
        }
    }

    /// Compiles the rule and the expression of its message for values of a schema. Adds the steps
    /// that its constant patterns take.
    pub(crate) fn compile(
        &self,
        schema: &Schema,
        is_root: bool,
        pattern_steps: &Cell<usize>,
    ) -> (Result<Compiled, CompileError>, Option<String>) {
        let old_is_optional = self.optional_old_self;
        let scope = check::Scope { schema, is_root, old_is_optional, pattern_steps };
        let program = match program(&self.text) {
            Ok(program) => program,
            Err(error) => {
                let error = format!("compilation failed: {error}");
                return (Err(CompileError::Refused(error)), None);
            }
        };
        let uses_old_self = program.references().has_variable("oldSelf");
        let cost = match scope.check_rule(&program, &self.text) {
            Ok(checked) => cost::estimate(&scope, &checked, program.expression()),
            Err(error) => return (Err(error), None),
        };
        let (message, refused) = match self.compile_message(&scope) {
            Ok(message) => (message, None),
            Err(error) => (None, Some(error)),
        };
        let (message, message_cost) = message.unzip();
        let program = metering::metered(program.expression());
        (Ok(Compiled { program, message, uses_old_self, cost, message_cost }), refused)
    }

    /// The expression of the message, and its cost. One that the sandbox can't evaluate is left
    /// out, so that the message counts.
    fn compile_message(&self, scope: &check::Scope<'_>) -> Result<Option<(IdedExpr, u64)>, String> {
        let text = &self.message_expression;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let program = program(text)
            .map_err(|error| format!("messageExpression compilation failed: {error}"))?;
        match scope.check_message(&program, text) {
            Ok(checked) => {
                let cost = cost::estimate(scope, &checked, program.expression());
                Ok(Some((metering::metered(program.expression()), cost)))
            }
            Err(CompileError::NotSupported) => Ok(None),
            Err(CompileError::Refused(error)) => Err(error),
        }
    }

    /// True if the rule is about a change. Only known once a value was checked.
    pub(crate) fn uses_old_self(&self) -> bool {
        let compiled = self.compiled.get().and_then(Option::as_ref);
        compiled.is_some_and(|compiled| compiled.uses_old_self)
    }

    /// Checks a value. `None` if the sandbox can't check the rule, or the rule is about a change
    /// and the value is new.
    pub(crate) fn check(
        &self,
        schema: &Schema,
        is_root: bool,
        values: &Values,
        budget: &mut Budget,
    ) -> Option<Verdict> {
        let compiled =
            self.compiled.get_or_init(|| self.compile(schema, is_root, &Cell::default()).0.ok());
        let compiled = compiled.as_ref()?;
        if compiled.uses_old_self && !values.has_old() && !self.optional_old_self {
            return None;
        }
        let named = if self.message.is_empty() { &self.text } else { &self.message };
        let result = values.evaluate(self.optional_old_self, budget, |variables| {
            let mut context = Context::with_env(Arc::clone(&ENV));
            context.set_variable_resolver(variables);
            stacker::grow(STACK_BYTES, || context.resolve(&compiled.program))
        });
        Some(match result {
            None => Verdict::TooExpensive(format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules \
                 will be run due to call cost exceeds limit for rule: {named}"
            )),
            Some(Ok(cel::Value::Bool(true))) => Verdict::Holds,
            Some(Ok(_)) => Verdict::Violated(self.violation(compiled, values, budget)),
            Some(Err(error)) => {
                let error = match error {
                    cel::ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
                    cel::ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
                    cel::ExecutionError::Overflow(..) => "integer overflow".to_owned(),
                    cel::ExecutionError::FunctionError { message, .. } => message,
                    other => other.to_string(),
                };
                Verdict::Failed(format!("{error} evaluating rule: {named}"))
            }
        })
    }

    fn violation(&self, compiled: &Compiled, values: &Values, budget: &mut Budget) -> String {
        let evaluated = compiled.message.as_ref().and_then(|message| {
            let result = values.evaluate(self.optional_old_self, budget, |variables| {
                let mut context = Context::with_env(Arc::clone(&ENV));
                context.set_variable_resolver(variables);
                stacker::grow(STACK_BYTES, || context.resolve(message))
            });
            match result {
                Some(Ok(cel::Value::String(text))) => Some(text.trim().to_owned()),
                _ => None,
            }
        });
        let usable = evaluated.filter(|text| {
            /// Maximum size of an evaluated message, as upstream.
            const MESSAGE_BYTES_MAX: usize = 5 * 1024;
            !text.is_empty() && !text.contains('\n') && text.len() <= MESSAGE_BYTES_MAX
        });
        usable.unwrap_or_else(|| {
            if self.message.is_empty() {
                format!("failed rule: {}", self.text)
            } else {
                self.message.to_string()
            }
        })
    }
}

/// Parses an expression.
///
/// # Errors
/// The syntax errors, as upstream prints them.
fn program(text: &str) -> Result<Program, String> {
    if text.len() > BYTES_MAX {
        return Err(format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: \
                            {}, limit {BYTES_MAX}",
            text.chars().count()
        ));
    }
    stacker::grow(STACK_BYTES, || parsed(text))
}

fn parsed(text: &str) -> Result<Program, String> {
    // Checked first, because the second parser has a higher limit.
    let checked = ENV.parser().max_recursion_depth(NESTING_MAX).parse(text);
    let errors = match checked.and_then(|_| ENV.compile(text)) {
        Ok(program) if check::is_deeper(program.expression(), DEPTH_MAX) => {
            return Err("ERROR: <input>:-1:0: max expression depth exceeded".to_owned());
        }
        Ok(program) => return Ok(program),
        Err(errors) => errors,
    };
    let texts = errors.errors.iter().map(|error| {
        let (line, column) = error.pos;
        let position = |number: isize| usize::try_from(number).unwrap_or(1).max(1);
        located(text, position(line), position(column), &error.msg)
    });
    Err(texts.collect::<Vec<_>>().join("\n"))
}

/// An error at a position, as upstream prints it. Lines and columns start at 1.
fn located(text: &str, line: usize, column: usize, message: &str) -> String {
    let source = text.lines().nth(line - 1).unwrap_or_default();
    let dots = ".".repeat(column - 1);
    format!("ERROR: <input>:{line}:{column}: {message}\n | {source}\n | {dots}^")
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn schema(rule: Value) -> Schema {
        Schema::parse(&json!({
            "type": "object",
            "x-kubernetes-validations": [rule],
            "properties": {
                "a": {"type": "integer"},
                "ratio": {"type": "number"},
                "text": {"type": "string"},
                "x-y": {"type": "string"},
                "namespace": {"type": "string"},
                "list": {"type": "array", "items": {"type": "integer"}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }))
    }

    fn verdict(rule: Value, value: Value, old: Option<Value>) -> Option<Verdict> {
        let schema = schema(rule);
        let values = Values::new(&schema, &value, old.as_ref());
        schema.rules[0].check(&schema, false, &values, &mut Budget::default())
    }

    /// S15: rules are evaluated for a value and the one before it.
    #[test]
    fn rules_are_evaluated() {
        let value = json!({"a": 3, "ratio": 1, "text": "abc", "x-y": "q", "namespace": "n",
            "list": [1, 2],
            "map": {"k-1": "v"}});
        for (rule, expected) in [
            ("self.a == 3 && self.ratio == 1.0", true),
            ("self.text.matches('^a.c$') && self.text.size() == 3", true),
            ("self.x__dash__y == 'q'", true),
            ("self.namespace == 'n' && self.__namespace__ == 'n' && has(self.namespace)", true),
            ("self.map['k-1'] == 'v' && 'k-1' in self.map", true),
            ("self.list.exists(x, x == self.a)", false),
            ("self.list.map(x, x * 2) == [2, 4]", true),
            ("!has(self.a) || self.a in [1, 3]", true),
            ("self.text.lowerAscii().split('b') == ['a', 'c']", true),
        ] {
            let violated = Verdict::Violated(format!("failed rule: {rule}"));
            let expected = if expected { Verdict::Holds } else { violated };
            let found = verdict(json!({"rule": rule}), value.clone(), None);
            assert_eq!(found, Some(expected), "{rule}");
        }
        let rule = json!({"rule": "self.a >= oldSelf.a", "message": "a grows",
            "messageExpression": "'not below ' + string(oldSelf.a)"});
        assert_eq!(verdict(rule.clone(), json!({"a": 1}), None), None);
        let shrunk = verdict(rule, json!({"a": 1}), Some(json!({"a": 2})));
        assert_eq!(shrunk, Some(Verdict::Violated("not below 2".to_owned())));
        let optional = json!({"optionalOldSelf": true,
            "rule": "oldSelf.hasValue() ? self.a >= oldSelf.value().a : self.a > 0"});
        assert_eq!(verdict(optional.clone(), json!({"a": 1}), None), Some(Verdict::Holds));
        let shrunk = verdict(optional, json!({"a": 1}), Some(json!({"a": 2})));
        assert!(matches!(shrunk, Some(Verdict::Violated(_))), "{shrunk:?}");
    }

    /// S15: the functions of Kubernetes' libraries.
    #[test]
    fn functions_of_kubernetes_are_evaluated() {
        for rule in [
            "duration('1h30m').getMinutes() == 90 && duration('1.5s') < duration('2s')",
            "duration('90s') - duration('1m') == duration('30s')",
            "duration('-1ms').getMilliseconds() == -1",
            "timestamp('2026-11-23T04:05:06Z')+duration('1h') > timestamp('2026-11-23T05:00:00Z')",
            "timestamp('2026-11-23T04:05:06Z').getDayOfWeek() == 1",
            "isIP('10.0.0.1')",
            "!isIP('10.0.0.256')",
            "ip('::1').family() == 6",
            "ip('::1').isLoopback()",
            "!isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0') && string(ip('::')) == '::'",
            "cidr('10.1.0.0/16').containsIP('10.1.2.3')",
            "!cidr('10.1.0.0/16').containsIP(ip('10.2.0.0'))",
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
            "!cidr('10.1.0.0/16').containsCIDR('10.0.0.0/8')",
            "cidr('10.1.2.3/16').masked() == cidr('10.1.0.0/16')",
            "cidr('::/0').prefixLength() == 0",
            "isCIDR('10.0.0.0/8')",
            "!isCIDR('10.0.0.0/33')",
            "!isCIDR('10.0.0.0/08')",
            "cidr('::1/64').ip().family() == 6",
            "isURL('https://a.dev:80/p?x=1')",
            "!isURL('a.dev/p')",
            "!isURL('../p')",
            "!isURL('http://a:b/')",
            "url('https://u@[::1]:80/a%20b?x=1&x=2&y=%3D').getHostname() == '::1'",
            "url('https://[::1]:80/a%20b').getPort() == '80'",
            "url('https://a/a%20b').getEscapedPath() == '/a%20b'",
            "url('https://a/?x=1&x=2').getQuery() == {'x': ['1', '2']}",
            "url('HTTP://a').getScheme() == 'http'",
            "isQuantity('1.5Gi')",
            "!isQuantity('1.5G i')",
            "quantity('1Gi').isGreaterThan(quantity('1G'))",
            "quantity('1000m').compareTo(quantity('1')) == 0 && quantity('-1').sign() == -1",
            "!format.dns1123Label().validate('my-name').hasValue()",
            "format.dns1123Label().validate('My.Name').value().size() == 1",
            "format.named('uuid').hasValue() && !format.named('x').hasValue()",
            "sets.equivalent([1, 2], [2, 1, 1])",
            "sets.contains([1, 2], [2])",
            "sets.intersects([1], [1, 2])",
            "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && 'abc'.indexOf('c') == 2",
            "[1, 2, 2].isSorted()",
            "['b', 'a'].min() == 'a'",
            "[1, 3, 2].max() == 3",
            "[1, 2].sum() == 3",
            "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        ] {
            let found = verdict(json!({"rule": rule}), json!({}), None);
            assert_eq!(found, Some(Verdict::Holds), "{rule}");
        }
        let wrong =
            verdict(json!({"rule": "ip(self.text).family() == 4"}), json!({"text": "x"}), None);
        let Some(Verdict::Failed(error)) = wrong else { panic!("{wrong:?}") };
        assert!(error.contains("IP Address \"x\" parse error during conversion"), "{error}");
    }

    /// S15: costs are estimated by the limits of the schema, as upstream estimates them.
    #[test]
    fn costs_are_estimated() {
        let schema = |rule: &str| {
            Schema::parse(&json!({
                "type": "object",
                "x-kubernetes-validations": [{"rule": rule}],
                "properties": {
                    "text": {"type": "string"},
                    "short": {"type": "string", "maxLength": 10},
                    "list": {"type": "array", "items": {"type": "string", "maxLength": 10}},
                    "few": {"type": "array", "maxItems": 5,
                        "items": {"type": "string", "maxLength": 10}},
                },
            }))
        };
        for (rule, cost) in [
            ("true", 0),
            ("has(self.text)", 1),
            ("self.short == 'abc'", 3),
            ("self.short.startsWith('abc')", 3),
            ("self.text.contains('abc')", 314_575),
            ("size(self.few) < 3", 4),
            ("self.few.all(x, x == 'a')", 28),
            ("self.few.all(x, self.few.exists_one(y, x == y))", 238),
            ("self.list.all(x, x.matches('[a-z]+'))", 14_680_053),
            ("self.few.map(x, x + 'b') == ['a']", 114),
            ("(self.few + self.few).all(x, x == 'a')", 46),
            ("self.few.join(',').size() < 5", 25),
            ("self.few.isSorted() && self.few.indexOf('a') == 1", 55),
            ("duration(self.short) > duration('1s')", 5),
            ("cidr('10.0.0.0/8').containsIP(self.short) && ip(self.short).family() == 4", 19),
            ("quantity(self.short).isLessThan(quantity('1'))", 8),
            ("format.dns1123Label().validate(self.short).hasValue()", 132),
            ("self.few[0] == 'a'", 4),
        ] {
            let schema = schema(rule);
            let compiled =
                schema.rules[0].compile(&schema, false, &Cell::default()).0.expect("it is right");
            assert_eq!(compiled.cost, cost, "{rule}");
        }
    }

    /// S15: values in formats are durations, times and bytes.
    #[test]
    fn formats_of_values_are_types() {
        let schema = Schema::parse(&json!({
            "type": "object",
            "properties": {
                "span": {"type": "string", "format": "duration"},
                "at": {"type": "string", "format": "date-time"},
                "data": {"type": "string", "format": "byte"},
            },
            "x-kubernetes-validations": [{"rule": "self.span < duration('2m') \
                && self.at.getFullYear() == 2026 && size(self.data) == 3"}],
        }));
        let value = json!({"span": "90s", "at": "2026-11-23T00:00:00Z", "data": "YWJj"});
        let values = Values::new(&schema, &value, None);
        let found = schema.rules[0].check(&schema, false, &values, &mut Budget::default());
        assert_eq!(found, Some(Verdict::Holds));
    }

    /// S15: a rule that takes too long ends, and so do all rules of its object.
    #[test]
    fn rules_that_take_too_long_end() {
        let rule = "self.list.all(x, self.list.all(y, self.list.all(z, x + y + z >= 0)))";
        let list: Vec<u32> = (0..2_000).collect();
        let found = verdict(json!({"rule": rule}), json!({"list": list}), None);
        let Some(Verdict::TooExpensive(message)) = found else { panic!("{found:?}") };
        assert!(message.starts_with("'operation cancelled: actual cost limit exceeded'"));
    }

    /// S15: mistakes in rules have the words of a real server, and what the sandbox does not
    /// evaluate is known.
    #[test]
    fn mistakes_in_rules_are_found() {
        let compiled = |rule: &str| {
            let schema = schema(json!({"rule": rule}));
            schema.rules[0].compile(&schema, false, &Cell::default()).0.map(drop)
        };
        for rule in [
            "self.a > 0 || self.map.all(k, k != '')",
            "has(self.list) ? self.list[0] > self.a : true",
            "self.ratio > 0.5 && dyn(self.a) == 1.0",
        ] {
            assert_eq!(compiled(rule), Ok(()), "{rule}");
        }
        for rule in ["semver(self.text).major() > 1", "self.list.all(i, v, i < v)"] {
            assert_eq!(compiled(rule), Err(CompileError::NotSupported), "{rule}");
        }
        for (rule, message) in [
            ("self.b == 1", "compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | "),
            ("self.a.b == 1", "ERROR: <input>:1:7: type 'int' does not support field selection"),
            ("that == 1", "ERROR: <input>:1:1: undeclared reference to 'that' (in container '')"),
            ("self.a == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
            ("self.a + 1", "cel expression must evaluate to a bool"),
            ("self.list.startsWith('x')", "for 'startsWith' applied to 'list(int).(string)'"),
            ("self.list.exists(x, x == 'a')", "for '_==_' applied to '(int, string)'"),
            ("self.map.all(k, k > 1)", "for '_>_' applied to '(string, int)'"),
            ("self.list.all(x, y)", "ERROR: <input>:1:18: undeclared reference to 'y'"),
            ("self.a.all(x, true)", "expression of type 'int' cannot be range of a comprehension"),
            ("duration('x') > duration('1s')", "ERROR: <input>:1:10: invalid duration argument"),
            ("self.text.matches('(')", "invalid matches argument"),
            ("ip(self.text).family() == '4'", "for '_==_' applied to '(int, string)'"),
            ("self.a >", "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>'"),
        ] {
            let Err(CompileError::Refused(error)) = compiled(rule) else { panic!("{rule}") };
            assert!(error.contains(message), "{rule}: {error}");
        }
        let nested = format!("{}self.a{} > 0", "(".repeat(5_000), ")".repeat(5_000));
        assert!(matches!(compiled(&nested), Err(CompileError::Refused(_))));
        let long = format!("self.text == '{}'", "a".repeat(BYTES_MAX));
        assert!(matches!(compiled(&long), Err(CompileError::Refused(_))));
        let sum = |count: usize| format!("{} > 0", vec!["1"; count].join("+"));
        compiled(&sum(300)).expect("it is long");
        assert!(matches!(compiled(&sum(5_000)), Err(CompileError::Refused(_))));
        let holds = verdict(json!({"rule": sum(300)}), json!({}), None);
        assert_eq!(holds, Some(Verdict::Holds));
    }
}
