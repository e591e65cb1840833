//! The rules of schemas (`x-kubernetes-validations`): expressions in CEL about a value and the one
//! that it replaces.

mod functions;
mod metering;
mod values;

use std::sync::{Arc, LazyLock, OnceLock};

use cel::common::ast::{EntryExpr, Expr, IdedExpr, MapExpr, StructExpr};
use cel::{Context, Env, Program};

use crate::json::Value;
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

/// A rule that can be checked, and the expression of its message.
#[derive(Debug)]
struct Compiled {
    rule: Expression,
    message: Option<Expression>,
}

/// An expression that can be evaluated.
#[derive(Debug)]
pub(crate) struct Expression {
    metered: IdedExpr,
    /// True if it reads the value before.
    pub uses_old_self: bool,
}

/// Why an expression can't be evaluated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CompileError {
    /// A real server refuses it with this message, too.
    Refused(String),
    /// A real server evaluates it, and the sandbox can't.
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

/// Functions of a real server that the sandbox does not have, and macros with two variables, which
/// the parser leaves as they are.
const NOT_EVALUATED: &[&str] = &[
    "semver",
    "isSemver",
    "asApproximateFloat",
    "asInteger",
    "isInteger",
    "add",
    "sub",
    "first",
    "last",
    "range",
    "all",
    "exists",
    "existsOne",
    "exists_one",
    "transformList",
    "transformMap",
    "transformMapEntry",
    "sortBy",
    "optMap",
    "optFlatMap",
];

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

    /// Compiles the rule.
    pub(crate) fn compile(&self) -> Result<Expression, CompileError> {
        Expression::parse(&self.text)
    }

    /// Compiles the expression of the message, if the rule has one.
    pub(crate) fn compile_message(&self) -> Result<Option<Expression>, CompileError> {
        let text = &*self.message_expression;
        (!text.trim().is_empty()).then(|| Expression::parse(text)).transpose()
    }

    /// True if the rule is about a change. Only known once a value was checked.
    pub(crate) fn uses_old_self(&self) -> bool {
        let compiled = self.compiled.get().and_then(Option::as_ref);
        compiled.is_some_and(|compiled| compiled.rule.uses_old_self)
    }

    /// Checks a value. `None` if the sandbox can't check the rule, or the rule is about a change
    /// and the value is new.
    pub(crate) fn check(&self, values: &Values, budget: &mut Budget) -> Option<Verdict> {
        let compiled = self.compiled.get_or_init(|| {
            let rule = self.compile().ok()?;
            Some(Compiled { rule, message: self.compile_message().ok().flatten() })
        });
        let compiled = compiled.as_ref()?;
        if compiled.rule.uses_old_self && !values.has_old() && !self.optional_old_self {
            return None;
        }
        let named = if self.message.is_empty() { &self.text } else { &self.message };
        Some(match self.evaluate(&compiled.rule, values, budget) {
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

    /// Evaluates an expression; `None` if it costs too much.
    fn evaluate(
        &self,
        of: &Expression,
        values: &Values,
        budget: &mut Budget,
    ) -> Option<Result<cel::Value, cel::ExecutionError>> {
        values.evaluate(self.optional_old_self, budget, |variables| {
            let mut context = Context::with_env(Arc::clone(&ENV));
            context.set_variable_resolver(variables);
            stacker::grow(STACK_BYTES, || context.resolve(&of.metered))
        })
    }

    fn violation(&self, compiled: &Compiled, values: &Values, budget: &mut Budget) -> String {
        let evaluated = compiled.message.as_ref().and_then(|message| {
            match self.evaluate(message, values, budget) {
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

impl Expression {
    /// The expression of a text. Its types are not checked: a wrong one is an error when it is
    /// evaluated.
    fn parse(text: &str) -> Result<Self, CompileError> {
        let program = program(text).map_err(CompileError::Refused)?;
        let references = program.references();
        if NOT_EVALUATED.iter().any(|name| references.has_function(name)) {
            return Err(CompileError::NotSupported);
        }
        Ok(Self {
            uses_old_self: references.has_variable("oldSelf"),
            metered: metering::metered(program.expression()),
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
        Ok(program) if is_deeper(program.expression(), DEPTH_MAX) => {
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

/// True if an expression is deeper than a number of levels.
fn is_deeper(of: &IdedExpr, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    let deeper = |of: &IdedExpr| is_deeper(of, levels);
    match &of.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => false,
        Expr::Call(call) => {
            call.target.iter().any(|target| deeper(target)) || call.args.iter().any(deeper)
        }
        Expr::Comprehension(of) => {
            [&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result]
                .into_iter()
                .any(deeper)
        }
        Expr::List(list) => list.elements.iter().any(deeper),
        Expr::Select(select) => deeper(&select.operand),
        Expr::Map(MapExpr { entries }) | Expr::Struct(StructExpr { entries, .. }) => {
            entries.iter().any(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => deeper(&entry.key) || deeper(&entry.value),
                EntryExpr::StructField(field) => deeper(&field.value),
            })
        }
    }
}

/// An error at a position, as upstream prints it. Lines and columns start at 1.
fn located(text: &str, line: usize, column: usize, message: &str) -> String {
    let source = text.lines().nth(line - 1).unwrap_or_default();
    let dots = ".".repeat(column - 1);
    format!("ERROR: <input>:{line}:{column}: {message}\n | {source}\n | {dots}^")
}

#[cfg(test)]
mod tests {
    use crate::custom::schema::Schema;
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
        schema.rules[0].check(&values, &mut Budget::default())
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
        let found = schema.rules[0].check(&values, &mut Budget::default());
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

    /// S15: mistakes in the syntax have the words of a real server, other mistakes are found when a
    /// rule is evaluated, and what the sandbox does not evaluate is known.
    #[test]
    fn mistakes_in_rules_are_found() {
        let compiled = |rule: &str| {
            let schema = schema(json!({"rule": rule}));
            schema.rules[0].compile().map(drop)
        };
        for rule in ["semver(self.text).major() > 1", "self.list.all(i, v, i < v)"] {
            assert_eq!(compiled(rule), Err(CompileError::NotSupported), "{rule}");
        }
        let message = "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>'";
        let Err(CompileError::Refused(error)) = compiled("self.a >") else { panic!() };
        assert!(error.contains(message), "{error}");
        for rule in [
            "self.b == 1",
            "self.a.b == 1",
            "that == 1",
            "self.a < 'x'",
            "frobnicate(self.a)",
            "self.list.startsWith('x')",
            "self.list.exists(x, y)",
            "self.a.all(x, true)",
            "duration('x') > duration('1s')",
            "self.text.matches('(')",
        ] {
            let value = json!({"a": 1, "text": "x", "list": [1]});
            let found = verdict(json!({"rule": rule}), value, None);
            assert!(matches!(found, Some(Verdict::Failed(_))), "{rule}: {found:?}");
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
