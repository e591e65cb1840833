//! Checks an expression before it is used: its names, its functions, and its types (cel-go's
//! `checker`).

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cel::Program;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, StructExpr,
    operators,
};

use super::functions::{Moment, Span};
use super::overload::{FUNCTIONS, Overload, joined};
use super::types::Type;
use super::{CompileError, located};
use crate::custom::CompiledPattern;
use crate::custom::schema::Schema;

/// The value that an expression is about, by its schema.
pub(super) struct Scope<'a> {
    pub schema: &'a Schema,
    pub is_root: bool,
    pub old_is_optional: bool,
    /// The steps that its constant patterns took to compile.
    pub pattern_steps: &'a Cell<usize>,
}

/// Types and overloads of an expression's parts, by their numbers.
#[derive(Default)]
pub(super) struct Checked<'s> {
    pub types: HashMap<u64, Type<'s>>,
    /// The overloads that a call can mean.
    pub overloads: HashMap<u64, Vec<&'static Overload>>,
}

/// The names of types, which are values.
const TYPES: &[&str] =
    &["int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type"];

/// Macros with two variables, which the parser leaves as they are.
const OTHER_MACROS: &[&str] = &[
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

impl<'s> Scope<'s> {
    /// Checks a rule, whose result is a boolean.
    pub(super) fn check_rule(
        &self,
        program: &Program,
        text: &str,
    ) -> Result<Checked<'s>, CompileError> {
        let (checked, result) = self.walk(program, text, "compilation failed: ")?;
        match result {
            Type::Bool | Type::Dyn => Ok(checked),
            _ => Err(CompileError::Refused("cel expression must evaluate to a bool".to_owned())),
        }
    }

    /// Checks the expression of a message, whose result is a string.
    pub(super) fn check_message(
        &self,
        program: &Program,
        text: &str,
    ) -> Result<Checked<'s>, CompileError> {
        let prefix = "messageExpression compilation failed: ";
        let (checked, result) = self.walk(program, text, prefix)?;
        match result {
            Type::Text | Type::Dyn => Ok(checked),
            _ => {
                let message = "messageExpression must evaluate to a string".to_owned();
                Err(CompileError::Refused(message))
            }
        }
    }

    fn walk(
        &self,
        program: &Program,
        text: &str,
        prefix: &str,
    ) -> Result<(Checked<'s>, Type<'s>), CompileError> {
        let own = Type::of_schema(self.schema, self.is_root || self.schema.embedded);
        let mut walk = Walk {
            own: own.unwrap_or(Type::Dyn),
            old_is_optional: self.old_is_optional,
            pattern_steps: self.pattern_steps,
            program,
            text,
            locals: Vec::new(),
            errors: BTreeMap::new(),
            unsupported: false,
            checked: Checked::default(),
        };
        let result = walk.expression(program.expression());
        // With a macro that is not expanded, the names of its variables are unknown.
        if walk.unsupported {
            return Err(CompileError::NotSupported);
        }
        if !walk.errors.is_empty() {
            let errors: Vec<String> = walk.errors.into_values().collect();
            return Err(CompileError::Refused(format!("{prefix}{}", errors.join("\n"))));
        }
        Ok((walk.checked, result))
    }
}

struct Walk<'s, 'p> {
    /// The type of `self`.
    own: Type<'s>,
    old_is_optional: bool,
    pattern_steps: &'p Cell<usize>,
    program: &'p Program,
    text: &'p str,
    /// The variables of macros around the expression.
    locals: Vec<(String, Type<'s>)>,
    /// The errors by their lines and columns.
    errors: BTreeMap<(usize, usize), String>,
    /// True if there is a function that the sandbox does not evaluate.
    unsupported: bool,
    checked: Checked<'s>,
}

impl<'s> Walk<'s, '_> {
    fn expression(&mut self, of: &IdedExpr) -> Type<'s> {
        let found = self.type_of(of);
        self.checked.types.insert(of.id, found.clone());
        found
    }

    fn type_of(&mut self, of: &IdedExpr) -> Type<'s> {
        match &of.expr {
            Expr::Unspecified | Expr::Struct(_) => Type::Dyn,
            Expr::Ident(name) => self.name(of, name),
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::String(_) => Type::Text,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Null => Type::Null,
                LiteralValue::UInt(_) => Type::Uint,
            },
            Expr::List(list) => {
                let of_elements = self.common_type(list.elements.iter());
                Type::List(Arc::new(of_elements))
            }
            Expr::Map(map) => {
                let entries = || {
                    map.entries.iter().filter_map(|entry| match &entry.expr {
                        EntryExpr::MapEntry(entry) => Some(entry),
                        EntryExpr::StructField(_) => None,
                    })
                };
                let key = self.common_type(entries().map(|entry| &entry.key));
                let value = self.common_type(entries().map(|entry| &entry.value));
                Type::Map(Arc::new(key), Arc::new(value))
            }
            Expr::Select(select) => {
                let operand = self.expression(&select.operand);
                let field = self.field(of, &operand, &select.field);
                if select.test { Type::Bool } else { field }
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(of, call),
        }
    }

    fn common_type<'e>(&mut self, of: impl Iterator<Item = &'e IdedExpr>) -> Type<'s> {
        let mut common = Type::Unknown;
        for element in of {
            let found = self.expression(element);
            common = joined(&common, &found).unwrap_or(Type::Dyn);
        }
        common
    }

    fn name(&mut self, of: &IdedExpr, name: &str) -> Type<'s> {
        if let Some((_, known)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return known.clone();
        }
        match name {
            "self" => self.own.clone(),
            "oldSelf" if self.old_is_optional => Type::Optional(Arc::new(self.own.clone())),
            "oldSelf" => self.own.clone(),
            _ if TYPES.contains(&name) => Type::Kind,
            _ => self.error(of, &format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn field(&mut self, of: &IdedExpr, operand: &Type<'s>, field: &str) -> Type<'s> {
        match operand {
            Type::Dyn | Type::Unknown => Type::Dyn,
            Type::Map(_, value) => (**value).clone(),
            Type::Optional(inner) => {
                let inner = Arc::clone(inner);
                Type::Optional(Arc::new(self.field(of, &inner, field)))
            }
            Type::Object(object) => match object.field(field) {
                Some(found) => found,
                None => self.error(of, &format!("undefined field '{field}'")),
            },
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.error(of, &message)
            }
        }
    }

    fn comprehension(&mut self, of: &ComprehensionExpr) -> Type<'s> {
        let range = self.expression(&of.iter_range);
        let (first, second) = match &range {
            Type::List(element) => match &of.iter_var2 {
                Some(_) => (Type::Int, (**element).clone()),
                None => ((**element).clone(), Type::Dyn),
            },
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Unknown => (Type::Dyn, Type::Dyn),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.error(&of.iter_range, &message);
                (Type::Dyn, Type::Dyn)
            }
        };
        let start = self.expression(&of.accu_init);
        let locals = self.locals.len();
        self.locals.push((of.accu_var.clone(), start.clone()));
        self.locals.push((of.iter_var.clone(), first));
        if let Some(name) = &of.iter_var2 {
            self.locals.push((name.clone(), second));
        }
        self.expression(&of.loop_cond);
        let step = self.expression(&of.loop_step);
        self.locals.truncate(locals);
        let accumulated = joined(&start, &step).unwrap_or(Type::Dyn);
        self.locals.push((of.accu_var.clone(), accumulated));
        let result = self.expression(&of.result);
        self.locals.truncate(locals);
        result
    }

    fn call(&mut self, of: &IdedExpr, call: &CallExpr) -> Type<'s> {
        let name = call.func_name.as_str();
        if call.target.is_some() && call.args.len() > 1 && OTHER_MACROS.contains(&name) {
            self.unsupported = true;
            return Type::Dyn;
        }
        if name == operators::OPT_SELECT
            && let [operand, field] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let operand = self.expression(operand);
            return match self.field(of, &operand, field.inner()) {
                found @ Type::Optional(_) => found,
                other => Type::Optional(Arc::new(other)),
            };
        }
        let namespaced = call.target.as_ref().and_then(|target| match &target.expr {
            Expr::Ident(namespace) if FUNCTIONS.is_namespace(namespace) => {
                let is_local = self.locals.iter().any(|(local, _)| local == namespace);
                (!is_local).then(|| format!("{namespace}.{name}"))
            }
            _ => None,
        });
        let target = call.target.as_ref().filter(|_| namespaced.is_none());
        let mut arguments: Vec<Type<'s>> = Vec::new();
        for argument in target.map(|target| &**target).into_iter().chain(&call.args) {
            arguments.push(self.expression(argument));
        }
        if let Err((argument, message)) = check_constants(call, self.pattern_steps) {
            return self.error(argument, message);
        }
        let name = namespaced.as_deref().unwrap_or(name);
        self.resolve(of, name, target.is_some(), &arguments)
    }

    /// Finds the overloads that a call can mean, and the type of its result.
    fn resolve(
        &mut self,
        of: &IdedExpr,
        name: &str,
        is_member: bool,
        arguments: &[Type<'s>],
    ) -> Type<'s> {
        let known = FUNCTIONS.find(name, is_member);
        if known.is_empty() && FUNCTIONS.find(name, !is_member).is_empty() {
            return self.error(of, &format!("undeclared reference to '{name}' (in container '')"));
        }
        let mut found: Option<Type<'s>> = None;
        let mut meant = Vec::new();
        for overload in known {
            let Some(result) = overload.result(arguments) else { continue };
            found = Some(match found {
                None => result,
                Some(other) => joined(&other, &result).unwrap_or(Type::Dyn),
            });
            meant.push(overload);
        }
        let Some(result) = found else {
            let shown: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let applied = match shown.split_first() {
                Some((target, rest)) if is_member => format!("{target}.({})", rest.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            let message = format!("found no matching overload for '{name}' applied to '{applied}'");
            return self.error(of, &message);
        };
        self.unsupported |= !meant.iter().any(|overload| overload.is_supported);
        self.checked.overloads.insert(of.id, meant);
        result
    }

    /// Notes an error. What it makes of the rest of the expression is not known.
    fn error(&mut self, of: &IdedExpr, message: &str) -> Type<'s> {
        let offset = self.program.source_info().offset_for(of.id).map_or(0, |(start, _)| start);
        let offset = usize::try_from(offset).unwrap_or(0);
        let before: String = self.text.chars().take(offset).collect();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        self.errors.insert((line, column), located(self.text, line, column, message));
        Type::Dyn
    }
}

/// Number of steps after which no further constant pattern of an expression is checked.
const PATTERN_STEPS_MAX: usize = 100_000;

/// Checks constant patterns, durations and times (cel-go's validators).
fn check_constants<'c>(
    call: &'c CallExpr,
    steps: &Cell<usize>,
) -> Result<(), (&'c IdedExpr, &'static str)> {
    let [argument] = call.args.as_slice() else { return Ok(()) };
    let Expr::Literal(LiteralValue::String(text)) = &argument.expr else { return Ok(()) };
    let text = text.inner();
    let wrong = match (call.func_name.as_str(), call.target.is_some()) {
        ("matches", true) if steps.get() < PATTERN_STEPS_MAX => {
            let compiled = CompiledPattern::of(text, |spent| steps.set(steps.get() + spent));
            compiled.is_err().then_some("invalid matches argument")
        }
        ("duration", false) => Span::parse(text).is_none().then_some("invalid duration argument"),
        ("timestamp", false) => {
            Moment::parse(text).is_none().then_some("invalid timestamp argument")
        }
        _ => None,
    };
    wrong.map_or(Ok(()), |message| Err((argument, message)))
}

/// True if an expression is deeper than a number of levels.
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
