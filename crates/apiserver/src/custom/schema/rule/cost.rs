//! Estimates what an expression costs at most, by the limits of the schema (cel-go's
//! `checker/cost.go` and Kubernetes' `library/cost.go`).

use std::collections::HashMap;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};

use super::check::{Checked, Scope};
use super::overload::Overload;
use super::types::{REQUEST_BYTES_MAX, Type, max_elements, property};
use crate::custom::schema::{Additional, Schema};

/// The number of elements, entries or characters of a value.
#[derive(Clone, Copy, Debug)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The cost of reading a text.
    fn traversal(self) -> u64 {
        scaled(self.max, TRAVERSAL)
    }
}

/// The cost of reading one character.
const TRAVERSAL: f64 = 0.1;
/// The cost of one character of a pattern.
const PATTERN: f64 = 0.25;
/// The length of the pattern of a named format.
const FORMAT_LENGTH: f64 = 128.0;

/// A number times a factor, rounded up.
fn scaled(number: u64, factor: f64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "as upstream")]
    let product = (number as f64 * factor).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = product as u64;
    whole
}

/// The sizes of the keys and values of a list or map that an expression makes.
#[derive(Clone, Copy)]
struct Entries {
    key: Size,
    value: Size,
}

impl Entries {
    fn union(self, other: Self) -> Self {
        Self { key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

/// Where a value is in the object: names of fields, `@items`, `@keys` and `@values`. The first is
/// the variable.
type Path = Vec<String>;

#[derive(Clone, Default)]
struct Local {
    path: Path,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// The maximum cost of an expression.
pub(super) fn estimate(scope: &Scope<'_>, checked: &Checked<'_>, of: &IdedExpr) -> u64 {
    let mut coster = Coster {
        scope,
        checked,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    coster.cost(of)
}

struct Coster<'a, 's> {
    scope: &'a Scope<'s>,
    checked: &'a Checked<'s>,
    paths: HashMap<u64, Path>,
    sizes: HashMap<u64, Size>,
    entries: HashMap<u64, Entries>,
    locals: Vec<(String, Local)>,
}

impl<'s> Coster<'_, 's> {
    fn cost(&mut self, of: &IdedExpr) -> u64 {
        match &of.expr {
            Expr::Unspecified | Expr::Literal(_) => 0,
            Expr::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                self.paths.insert(of.id, path);
                1
            }
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test {
                    return operand;
                }
                let has_fields =
                    matches!(self.type_of(&select.operand), Some(Type::Map(..) | Type::Object(_)));
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(of.id, path);
                operand.saturating_add(u64::from(has_fields))
            }
            Expr::Call(call) => self.call(of, call),
            Expr::List(list) => {
                let mut value = if list.elements.is_empty() { Size::fixed(0) } else { NO_ENTRY };
                let mut sum = 10_u64;
                for element in &list.elements {
                    sum = sum.saturating_add(self.cost(element));
                    value = value.union(self.size_or_unknown(element));
                }
                self.entries.insert(of.id, Entries { key: Size::fixed(1), value });
                sum
            }
            Expr::Map(map) => {
                let start = if map.entries.is_empty() { Size::fixed(0) } else { NO_ENTRY };
                let (mut sum, mut found) = (30_u64, Entries { key: start, value: start });
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    sum = sum.saturating_add(self.cost(&entry.key));
                    sum = sum.saturating_add(self.cost(&entry.value));
                    found.key = found.key.union(self.size_or_unknown(&entry.key));
                    found.value = found.value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(of.id, found);
                sum
            }
            Expr::Struct(_) => 40,
            Expr::Comprehension(comprehension) => self.comprehension(of, comprehension),
        }
    }

    fn comprehension(&mut self, of: &IdedExpr, loops: &ComprehensionExpr) -> u64 {
        let mut sum = self.cost(&loops.iter_range);
        sum = sum.saturating_add(self.cost(&loops.accu_init));
        let accumulated = Local {
            path: self.path(&loops.accu_init),
            size: self.size(&loops.accu_init),
            entries: self.entries_of(&loops.accu_init),
        };
        self.locals.push((loops.accu_var.clone(), accumulated));
        let locals = self.locals.len();
        self.push_variables(loops);
        let condition = self.cost(&loops.loop_cond);
        let step = self.cost(&loops.loop_step);
        self.locals.truncate(locals);
        sum = sum.saturating_add(self.cost(&loops.result));
        self.locals.pop();
        let count = self.size_or_unknown(&loops.iter_range);
        sum = sum.saturating_add(count.max.saturating_mul(step.saturating_add(condition)));
        match &loops.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&loops.accu_init) {
                    self.sizes.insert(of.id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(of.id, count);
                if let Some(entries) = self.entries_of(&loops.loop_step) {
                    self.entries.insert(of.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    /// Adds the variables of a macro, which stand for the elements or keys of a value.
    fn push_variables(&mut self, loops: &ComprehensionExpr) {
        let entries = self.entries_of(&loops.iter_range);
        let is_list = matches!(self.type_of(&loops.iter_range), Some(Type::List(_)));
        let key = entries.map(|entries| entries.key);
        let value = entries.map(|entries| entries.value);
        let path = self.path(&loops.iter_range);
        let mut push = |name: &str, step: &str, size: Option<Size>| {
            let mut path = path.clone();
            path.push(step.to_owned());
            self.locals.push((name.to_owned(), Local { path, size, entries: None }));
        };
        match (&loops.iter_var2, is_list) {
            (None, true) => push(&loops.iter_var, "@items", value),
            (None, false) => push(&loops.iter_var, "@keys", key),
            (Some(second), true) => {
                push(&loops.iter_var, "@indices", key);
                push(second, "@items", value);
            }
            (Some(second), false) => {
                push(&loops.iter_var, "@keys", key);
                push(second, "@values", value);
            }
        }
    }

    fn call(&mut self, of: &IdedExpr, call: &CallExpr) -> u64 {
        if let ("dyn", [argument]) = (call.func_name.as_str(), call.args.as_slice()) {
            let cost = self.cost(argument).saturating_add(1);
            if let Some(size) = self.size(argument) {
                self.sizes.insert(of.id, size);
            }
            return cost;
        }
        let costs: Vec<u64> = call.args.iter().map(|argument| self.cost(argument)).collect();
        if call.func_name == operators::OPT_SELECT {
            return costs.iter().fold(1, |sum, cost| sum.saturating_add(*cost));
        }
        let checked = self.checked;
        let Some(overloads) = checked.overloads.get(&of.id) else { return 0 };
        let is_member =
            overloads.first().is_some_and(|first| first.parameters.len() > call.args.len());
        let target = call.target.as_deref().filter(|_| is_member);
        let of_target = target.map_or(0, |target| self.cost(target));
        let (mut highest, mut result) = (0_u64, None);
        for overload in overloads {
            let use_of = Use { of, call, target, overload, costs: &costs };
            let (cost, size) = self.function(&use_of);
            highest = highest.max(cost);
            result = match (result, size) {
                (Some(known), Some(size)) => Some(Size::union(known, size)),
                (known, size) => known.or(size),
            };
            if let (operators::INDEX, Some(container)) =
                (call.func_name.as_str(), call.args.first())
            {
                result = self.entries_of(container).map(|entries| entries.value);
                let is_list = matches!(overload.parameters.first(), Some(Type::List(_)));
                let mut path = self.path(container);
                path.push(if is_list { "@items" } else { "@values" }.to_owned());
                self.paths.insert(of.id, path);
            }
            result = result.or_else(|| self.size(of));
        }
        if let Some(size) = result {
            self.sizes.insert(of.id, size);
        }
        of_target.saturating_add(highest)
    }

    /// The cost of a function with its arguments, and the size of its result if it is known.
    fn function(&mut self, of: &Use<'_>) -> (u64, Option<Size>) {
        let arguments = of.costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(*cost));
        if let (operators::LOGICAL_AND | operators::LOGICAL_OR, _) = (of.name(), ()) {
            return (arguments, None);
        }
        if let (operators::CONDITIONAL, [_, yes, no]) = (of.name(), of.call.args.as_slice()) {
            let size = self.size_or_unknown(yes).union(self.size_or_unknown(no));
            if let (Some(yes), Some(no)) = (self.entries_of(yes), self.entries_of(no)) {
                self.entries.insert(of.of.id, yes.union(no));
            }
            let either = of.costs[1].max(of.costs[2]);
            return (of.costs[0].saturating_add(either), Some(size));
        }
        let (cost, size) = self.library(of).or_else(|| self.standard(of)).unwrap_or((1, None));
        (cost.saturating_add(arguments), size)
    }

    /// The functions of Kubernetes' libraries (upstream's `EstimateCallCost`).
    fn library(&mut self, of: &Use<'_>) -> Option<(u64, Option<Size>)> {
        let target = of.target;
        let first = of.call.args.first();
        let of_target = target.map(|target| self.size_or_unknown(target));
        let of_first = first.map(|first| self.size_or_unknown(first));
        Some(match (of.name(), of_target, of_first) {
            ("isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf", Some(size), _) => {
                match self.type_of(target?) {
                    Some(Type::List(element)) => {
                        let mut each = 1;
                        if matches!(**element, Type::Text | Type::Bytes) {
                            each += self.elements_of(target?).traversal();
                        }
                        (size.max.saturating_mul(each), None)
                    }
                    _ => (size.traversal(), None),
                }
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(size), _)
            | ("url", None, Some(size)) => (size.traversal(), Some(size)),
            ("replace", Some(size), Some(replaced)) if of.call.args.len() >= 2 => {
                let by = self.size_or_unknown(&of.call.args[1]);
                (scaled(size.max, 2.0 * TRAVERSAL), Some(replaced_size(size, replaced, by)))
            }
            ("split", Some(size), _) => {
                (scaled(size.max, 2.0 * TRAVERSAL), Some(Size { min: 0, max: size.max }))
            }
            ("join", Some(size), separator) => {
                let mut total = size.times(self.elements_of(target?));
                if let Some(separator) = separator {
                    let gaps =
                        Size { min: size.min.saturating_sub(1), max: size.max.saturating_sub(1) };
                    total = total.plus(separator.times(gaps));
                }
                (total.traversal(), Some(total))
            }
            ("find" | "findAll", Some(size), Some(pattern)) => {
                let text = size.plus(Size::fixed(1)).traversal();
                let cost = text.saturating_mul(scaled(pattern.max, PATTERN));
                (cost, Some(Size { min: 0, max: size.max }))
            }
            ("ip" | "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity", None, Some(size)) => {
                (size.traversal(), None)
            }
            ("isCanonical", _, Some(size)) => (scaled(size.max, 2.0 * TRAVERSAL), None),
            // Two addresses of at most 16 bytes.
            ("containsIP", Some(_), Some(size)) => (4 + of.text_argument(size), None),
            ("containsCIDR", Some(_), Some(size)) => (7 + of.text_argument(size), None),
            ("validate", Some(_), Some(size)) => {
                (scaled(size.traversal(), FORMAT_LENGTH * PATTERN), None)
            }
            (operators::EQUALS, None, Some(_)) => match self.type_of(first?) {
                Some(Type::Opaque(_)) => (1, None),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The functions of the language whose cost depends on sizes.
    fn standard(&mut self, of: &Use<'_>) -> Option<(u64, Option<Size>)> {
        let sizes: Vec<Size> =
            of.call.args.iter().map(|argument| self.size_or_unknown(argument)).collect();
        let of_target = of.target.map(|target| self.size_or_unknown(target));
        let parameter = of.overload.parameters.first();
        Some(match (of.name(), of_target, sizes.as_slice()) {
            ("format", Some(size), _) => (size.traversal(), None),
            ("bytes", None, [size]) => {
                (size.traversal(), Some(Size { max: size.max.saturating_mul(4), ..*size }))
            }
            ("string", None, [size]) if matches!(parameter, Some(Type::Bytes)) => {
                (size.traversal(), Some(Size { min: size.min / 4, max: size.max }))
            }
            ("startsWith" | "endsWith", Some(_), [size]) => (size.traversal(), None),
            (operators::IN, _, [_, list]) => match of.overload.parameters.get(1) {
                Some(Type::List(_)) => (list.max, None),
                _ => return None,
            },
            ("matches", Some(text), [pattern]) => {
                let text = text.plus(Size::fixed(1)).traversal();
                (text.saturating_mul(scaled(pattern.max, PATTERN)), None)
            }
            ("contains", Some(text), [part]) => {
                (text.traversal().saturating_mul(part.traversal()), None)
            }
            (operators::ADD, _, [one, other]) => {
                let size = one.plus(*other);
                let [left, right] = of.call.args.as_slice() else { return None };
                if let (Some(left), Some(right)) = (self.entries_of(left), self.entries_of(right)) {
                    self.entries.insert(of.of.id, left.union(right));
                }
                match parameter {
                    Some(Type::List(_)) => (1, Some(size)),
                    Some(Type::Text | Type::Bytes) => (size.traversal(), Some(size)),
                    _ => return None,
                }
            }
            (operators::EQUALS | operators::NOT_EQUALS, _, [one, other]) => {
                (scaled(one.max.min(other.max), TRAVERSAL), None)
            }
            (
                operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS,
                _,
                [one, other],
            ) if matches!(parameter, Some(Type::Text | Type::Bytes)) => {
                (scaled(one.max.min(other.max), TRAVERSAL), None)
            }
            _ => return None,
        })
    }

    fn type_of(&self, of: &IdedExpr) -> Option<&Type<'s>> {
        self.checked.types.get(&of.id)
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|(local, _)| local == name).map(|(_, local)| local)
    }

    fn path(&self, of: &IdedExpr) -> Path {
        if let Expr::Ident(name) = &of.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&of.id).cloned().unwrap_or_default()
    }

    fn size_or_unknown(&mut self, of: &IdedExpr) -> Size {
        self.size(of).unwrap_or(Size::UNKNOWN)
    }

    fn size(&mut self, of: &IdedExpr) -> Option<Size> {
        if let Some(size) = self.sizes.get(&of.id) {
            return Some(*size);
        }
        let written = match &of.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner().chars().count()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Some(bytes.inner().len()),
            Expr::Literal(_) => Some(1),
            Expr::List(list) => Some(list.elements.len()),
            Expr::Map(map) => Some(map.entries.len()),
            _ => None,
        };
        if let Some(written) = written {
            return Some(Size::fixed(written as u64));
        }
        if let Some(max) = self.limit(&self.path(of)) {
            let size = Size { min: 0, max };
            self.sizes.insert(of.id, size);
            return Some(size);
        }
        if self.type_of(of).is_some_and(Type::is_scalar) {
            return Some(Size::fixed(1));
        }
        match &of.expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    /// The size of the elements of a list.
    fn elements_of(&self, list: &IdedExpr) -> Size {
        let mut path = self.path(list);
        if path.is_empty() {
            return Size::UNKNOWN;
        }
        path.push("@items".to_owned());
        self.limit(&path).map_or(Size::UNKNOWN, |max| Size { min: 0, max })
    }

    fn entries_of(&self, of: &IdedExpr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&of.id) {
            return Some(*entries);
        }
        match &of.expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }

    /// The maximum size that the schema allows at a path.
    fn limit(&self, path: &[String]) -> Option<u64> {
        let (_, steps) = path.split_first()?;
        let is_resource = self.scope.is_root || self.scope.schema.embedded;
        let mut place = Place::Schema(self.scope.schema, is_resource);
        for step in steps {
            place = place.step(step)?;
        }
        Some(match place {
            Place::Schema(schema, _) => max_elements(schema),
            Place::Text => REQUEST_BYTES_MAX - 2,
            Place::Key | Place::Metadata => 0,
        })
    }
}

/// The size of the elements of a list without elements yet.
const NO_ENTRY: Size = Size { min: u64::MAX, max: 0 };

/// A function in an expression.
struct Use<'e> {
    of: &'e IdedExpr,
    call: &'e CallExpr,
    target: Option<&'e IdedExpr>,
    overload: &'e Overload,
    /// The costs of the arguments.
    costs: &'e [u64],
}

impl Use<'_> {
    fn name(&self) -> &str {
        &self.call.func_name
    }

    /// The cost of parsing the argument, if it is a text.
    fn text_argument(&self, size: Size) -> u64 {
        let is_text = matches!(self.overload.parameters.get(1), Some(Type::Text));
        if is_text { size.traversal() } else { 0 }
    }
}

/// The size of a text in which others are replaced.
fn replaced_size(text: Size, replaced: Size, by: Size) -> Size {
    let (count, kept) = if replaced.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if by.max <= replaced.min {
        (0, text.max)
    } else {
        (text.max.div_ceil(replaced.min), 0)
    };
    Size { min: 0, max: count.saturating_mul(by.max).saturating_add(kept) }
}

/// A place in an object.
enum Place<'s> {
    Schema(&'s Schema, bool),
    Metadata,
    /// A text without a limit.
    Text,
    /// The key of a map.
    Key,
}

impl<'s> Place<'s> {
    fn step(self, step: &str) -> Option<Self> {
        let (schema, is_resource) = match self {
            Self::Schema(schema, is_resource) => (schema, is_resource),
            Self::Metadata => {
                return matches!(step, "name" | "generateName").then_some(Self::Text);
            }
            Self::Text | Self::Key => return None,
        };
        let nested = |of: &'s Schema| Self::Schema(of, of.embedded);
        match (step, &schema.additional) {
            ("@items" | "@values", Additional::Of(values)) => Some(nested(values)),
            ("@items" | "@values", _) => schema.items.as_deref().map(nested),
            ("@keys", Additional::Of(_)) => Some(Self::Key),
            ("@keys", _) => None,
            ("apiVersion" | "kind", _) if is_resource => Some(Self::Text),
            ("metadata", _) if is_resource => Some(Self::Metadata),
            (name, _) => property(schema, name).map(nested),
        }
    }
}
