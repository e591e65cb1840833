//! Checks an expression before it is used: its names, its functions, and the type of its result.
//!
//! The evaluator has no types. What is found here are the mistakes that people make; upstream's
//! compiler finds more.

use std::collections::BTreeMap;

use cel::Program;
use cel::common::ast::{
    ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, StructExpr, operators,
};

use super::values::escaped;
use super::{CompileError, located};
use crate::custom::compile_pattern;
use crate::custom::schema::{Additional, Schema, TypeName};

/// What an expression is about.
pub(super) struct Scope<'a> {
    pub schema: &'a Schema,
    pub is_root: bool,
    pub old_is_optional: bool,
}

/// The type of an expression, as far as it is known.
#[derive(Clone, Copy)]
enum Known<'a> {
    Schema { schema: &'a Schema, is_resource: bool },
    Metadata,
    Bool,
    Int,
    Double,
    Text,
    Any,
}

/// The functions that the sandbox evaluates, besides operators.
const FUNCTIONS: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "bool",
    "dyn",
    "type",
    "charAt",
    "indexOf",
    "lastIndexOf",
    "join",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "substring",
    "trim",
    "format",
    "reverse",
    "slice",
    "flatten",
    "distinct",
    "sort",
    "optional.of",
    "optional.none",
    "optional.ofNonZeroValue",
    "hasValue",
    "value",
    "orValue",
    "or",
    "optMap",
    "optFlatMap",
];

/// The functions that a real server has besides these.
const OTHER_FUNCTIONS: &[&str] = &[
    "isSorted",
    "sum",
    "min",
    "max",
    "find",
    "findAll",
    "url",
    "isURL",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    "quantity",
    "isQuantity",
    "sign",
    "isInteger",
    "asInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "ip",
    "isIP",
    "ip.isCanonical",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "cidr",
    "isCIDR",
    "containsIP",
    "containsCIDR",
    "prefixLength",
    "masked",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "format.named",
    "validate",
    "duration",
    "timestamp",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "semver",
    "isSemver",
    "major",
    "minor",
    "patch",
    "quote",
    "transformList",
    "transformMap",
    "transformMapEntry",
    "bind",
    "cel.bind",
    "first",
    "last",
    "range",
    "sortBy",
    "bitAnd",
    "strings.quote",
];

/// The names that are types or namespaces of functions.
const NAMES: &[&str] = &[
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "bool",
    "list",
    "map",
    "null_type",
    "type",
    "optional",
    "sets",
    "format",
    "cel",
    "math",
    "ip",
    "strings",
    "lists",
];

impl Scope<'_> {
    /// Checks a rule, whose result is a boolean.
    pub(super) fn check_rule(&self, program: &Program, text: &str) -> Result<(), CompileError> {
        match self.walk(program, text, "compilation failed: ")? {
            Known::Bool | Known::Any => Ok(()),
            Known::Schema { schema, .. } if schema.type_name == Some(TypeName::Boolean) => Ok(()),
            Known::Schema { schema, .. } if schema.type_name.is_none() => Ok(()),
            _ => Err(CompileError::Refused("cel expression must evaluate to a bool".to_owned())),
        }
    }

    /// Checks the expression of a message, whose result is a string.
    pub(super) fn check_message(&self, program: &Program, text: &str) -> Result<(), CompileError> {
        match self.walk(program, text, "messageExpression compilation failed: ")? {
            Known::Text | Known::Any => Ok(()),
            Known::Schema { schema, .. } if schema.type_name == Some(TypeName::String) => Ok(()),
            _ => {
                let message = "messageExpression must evaluate to a string".to_owned();
                Err(CompileError::Refused(message))
            }
        }
    }

    fn walk(&self, program: &Program, text: &str, prefix: &str) -> Result<Known<'_>, CompileError> {
        let (locals, errors) = (Vec::new(), BTreeMap::new());
        let mut walk = Walk { scope: self, program, text, locals, errors, unsupported: false };
        let known = walk.expression(program.expression());
        if !walk.errors.is_empty() {
            let errors: Vec<String> = walk.errors.into_values().collect();
            return Err(CompileError::Refused(format!("{prefix}{}", errors.join("\n"))));
        }
        if walk.unsupported { Err(CompileError::NotSupported) } else { Ok(known) }
    }
}

struct Walk<'s, 'p> {
    scope: &'s Scope<'s>,
    program: &'p Program,
    text: &'p str,
    /// The variables of macros around the expression.
    locals: Vec<(String, Known<'s>)>,
    /// The errors by their lines and columns.
    errors: BTreeMap<(usize, usize), String>,
    /// Whether there is a function that the sandbox does not evaluate.
    unsupported: bool,
}

impl<'s> Walk<'s, '_> {
    fn expression(&mut self, of: &IdedExpr) -> Known<'s> {
        match &of.expr {
            Expr::Unspecified => Known::Any,
            Expr::Ident(name) => self.name(of, name),
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Known::Bool,
                LiteralValue::Int(_) => Known::Int,
                LiteralValue::Double(_) => Known::Double,
                LiteralValue::String(_) => Known::Text,
                LiteralValue::Bytes(_) | LiteralValue::Null | LiteralValue::UInt(_) => Known::Any,
            },
            Expr::List(list) => {
                for item in &list.elements {
                    self.expression(item);
                }
                Known::Any
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.expression(&entry.key);
                        self.expression(&entry.value);
                    }
                }
                Known::Any
            }
            Expr::Struct(_) => Known::Any,
            Expr::Select(select) => {
                let operand = self.expression(&select.operand);
                let field = self.field(of, operand, &select.field);
                if select.test { Known::Bool } else { field }
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => {
                let namespaced = call.target.as_ref().and_then(|target| match &target.expr {
                    Expr::Ident(name) if NAMES.contains(&name.as_str()) => {
                        Some(format!("{name}.{}", call.func_name))
                    }
                    _ => None,
                });
                let mut known = Vec::new();
                if let (Some(target), None) = (&call.target, &namespaced) {
                    known.push(self.expression(target));
                }
                for argument in &call.args {
                    known.push(self.expression(argument));
                }
                if let ("matches", [pattern]) = (call.func_name.as_str(), call.args.as_slice())
                    && let Expr::Literal(LiteralValue::String(text)) = &pattern.expr
                    && compile_pattern(text.inner()).is_err()
                {
                    return self.error(pattern, "invalid matches argument");
                }
                self.call(of, namespaced.as_deref().unwrap_or(&call.func_name), &known)
            }
        }
    }

    fn name(&mut self, of: &IdedExpr, name: &str) -> Known<'s> {
        if let Some((_, known)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return *known;
        }
        let scope = self.scope;
        let own = Known::Schema { schema: scope.schema, is_resource: scope.is_root };
        match name {
            "self" => own,
            "oldSelf" if scope.old_is_optional => Known::Any,
            "oldSelf" => own,
            _ if NAMES.contains(&name) => Known::Any,
            _ => self.error(of, &format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn field(&mut self, of: &IdedExpr, known: Known<'s>, field: &str) -> Known<'s> {
        let undefined = format!("undefined field '{field}'");
        let (schema, is_resource) = match known {
            Known::Any => return Known::Any,
            Known::Metadata if matches!(field, "name" | "generateName") => return Known::Text,
            Known::Metadata => return self.error(of, &undefined),
            Known::Bool | Known::Int | Known::Double | Known::Text => {
                let name = type_name(known).unwrap_or_default();
                let message = format!("type '{name}' does not support field selection");
                return self.error(of, &message);
            }
            Known::Schema { schema, is_resource } => (schema, is_resource || schema.embedded),
        };
        if let Additional::Of(schema) = &schema.additional {
            return Known::Schema { schema, is_resource: false };
        }
        if is_resource {
            match field {
                "apiVersion" | "kind" => return Known::Text,
                "metadata" => return Known::Metadata,
                _ => {}
            }
        }
        let found = schema.properties.iter().find(|(name, _)| escaped(name) == field);
        match (found, schema.type_name) {
            (Some((_, schema)), _) => Known::Schema { schema, is_resource: false },
            (None, Some(TypeName::Object)) => self.error(of, &undefined),
            (None, None) => Known::Any,
            (None, Some(_)) => {
                let name = type_name(known).unwrap_or("list");
                let message = format!("type '{name}' does not support field selection");
                self.error(of, &message)
            }
        }
    }

    fn comprehension(&mut self, of: &ComprehensionExpr) -> Known<'s> {
        let range = self.expression(&of.iter_range);
        let element = match range {
            Known::Schema { schema, .. } => match (&schema.items, &schema.additional) {
                (Some(schema), _) => Known::Schema { schema, is_resource: false },
                // The keys of a map.
                (None, _) => Known::Any,
            },
            _ => Known::Any,
        };
        let result = self.expression(&of.accu_init);
        let locals = self.locals.len();
        self.locals.push((of.accu_var.clone(), Known::Any));
        self.locals.push((of.iter_var.clone(), element));
        if let Some(second) = &of.iter_var2 {
            self.locals.push((second.clone(), Known::Any));
        }
        self.expression(&of.loop_step);
        self.expression(&of.result);
        self.locals.truncate(locals);
        if matches!(result, Known::Bool) { Known::Bool } else { Known::Any }
    }

    fn call(&mut self, of: &IdedExpr, function: &str, arguments: &[Known<'s>]) -> Known<'s> {
        match function {
            operators::EQUALS | operators::NOT_EQUALS => {
                if let [one, other] = arguments
                    && let (Some(one), Some(other)) = (type_name(*one), type_name(*other))
                    && one != other
                {
                    let message = format!(
                        "found no matching overload for '{function}' applied to '({one}, {other})'"
                    );
                    return self.error(of, &message);
                }
                Known::Bool
            }
            operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::IN
            | "contains"
            | "startsWith"
            | "endsWith"
            | "matches"
            | "hasValue" => Known::Bool,
            "size" | "int" => Known::Int,
            "string" | "join" | "lowerAscii" | "upperAscii" | "replace" | "trim" | "format" => {
                Known::Text
            }
            operators::INDEX => match arguments.first() {
                Some(Known::Schema { schema, .. }) => match (&schema.items, &schema.additional) {
                    (Some(schema), _) => Known::Schema { schema, is_resource: false },
                    (None, Additional::Of(schema)) => Known::Schema { schema, is_resource: false },
                    _ => Known::Any,
                },
                _ => Known::Any,
            },
            operators::ADD
            | operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO => match arguments.iter().find_map(|known| type_name(*known)) {
                Some("int") => Known::Int,
                Some("double") => Known::Double,
                Some("string") => Known::Text,
                _ => Known::Any,
            },
            _ if function.starts_with('@') || function.contains('_') => Known::Any,
            _ if FUNCTIONS.contains(&function) => Known::Any,
            _ if OTHER_FUNCTIONS.contains(&function) => {
                self.unsupported = true;
                Known::Any
            }
            _ => self.error(of, &format!("undeclared reference to '{function}' (in container '')")),
        }
    }

    /// Notes an error. What it makes of the rest of the expression is not known.
    fn error(&mut self, of: &IdedExpr, message: &str) -> Known<'s> {
        let offset = self.program.source_info().offset_for(of.id).map_or(0, |(start, _)| start);
        let offset = usize::try_from(offset).unwrap_or(0);
        let before: String = self.text.chars().take(offset).collect();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        self.errors.insert((line, column), located(self.text, line, column, message));
        Known::Any
    }
}

/// Whether an expression is deeper than a number of levels.
pub(super) fn is_deeper(of: &IdedExpr, levels: usize) -> bool {
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

/// The name of a scalar type in messages; `None` for other types.
fn type_name(known: Known<'_>) -> Option<&'static str> {
    Some(match known {
        Known::Bool => "bool",
        Known::Int => "int",
        Known::Double => "double",
        Known::Text => "string",
        Known::Any | Known::Metadata => return None,
        Known::Schema { schema, .. } => match schema.type_name? {
            _ if schema.nullable || schema.checks.format.is_some() => return None,
            TypeName::Boolean => "bool",
            TypeName::Integer => "int",
            TypeName::Number => "double",
            TypeName::String => "string",
            TypeName::Object | TypeName::Array => return None,
        },
    })
}
