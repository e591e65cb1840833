//! The cost of an evaluation while it runs: in values that expressions reach, copy or compare, also
//! in literals and in the variables of macros.
//!
//! The evaluator counts nothing. So each part of an expression that has a value is made an argument
//! of a function that counts the value and returns it, and an evaluation that costs too much ends
//! by unwinding: its errors would be taken for `true` or `false` by operators around them.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use cel::common::types::{
    CelBytes, CelInt, CelList, CelMap, CelOptional, CelString, DYN_TYPE, LIST_TYPE,
};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload};

/// Number of bytes of a text that cost as much as a value.
const BYTES_PER_UNIT: usize = 64;
/// Number of comparisons that cost as much as a value.
const COMPARISONS_PER_UNIT: u64 = 8;

thread_local! {
    /// The cost that the evaluation on this thread may still have.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// The payload with which an evaluation ends that costs too much.
struct TooExpensive;

/// Evaluates within a limit. Returns the result, if it costs no more, and the cost.
pub(super) fn within<T>(limit: u64, evaluate: impl FnOnce() -> T) -> (Option<T>, u64) {
    LEFT.set(limit);
    let result = match catch_unwind(AssertUnwindSafe(evaluate)) {
        Ok(result) => Some(result),
        Err(payload) if (*payload).is::<TooExpensive>() => None,
        Err(panic) => resume_unwind(panic),
    };
    (result, limit - LEFT.get())
}

/// Counts a cost, and ends the evaluation if it is too high.
pub(super) fn spend(cost: u64) {
    match LEFT.get().checked_sub(cost) {
        Some(left) => LEFT.set(left),
        None => {
            LEFT.set(0);
            let payload: Box<dyn Any + Send> = Box::new(TooExpensive);
            resume_unwind(payload);
        }
    }
}

fn spend_bytes(bytes: usize) {
    spend(1 + (bytes / BYTES_PER_UNIT) as u64);
}

/// Counts a value with all that is in it.
fn count(value: &dyn Val) {
    if let Some(text) = value.downcast_ref::<CelString>() {
        spend_bytes(text.inner().len());
    } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        spend_bytes(bytes.inner().len());
    } else {
        spend(1);
    }
    if let Some(list) = value.downcast_ref::<CelList>() {
        list.inner().iter().for_each(|item| count(&**item));
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        for (key, value) in map.inner() {
            count(key.inner());
            count(&**value);
        }
    } else if let Some(optional) = value.downcast_ref::<CelOptional>() {
        optional.inner().into_iter().for_each(count);
    }
}

const COUNT: &str = "@count";
const COUNT_SQUARE: &str = "@count_square";
/// Functions that can make a value of the size of two arguments multiplied.
const MULTIPLYING: [(&str, &str); 2] = [("replace", "@replace"), ("join", "@join")];

/// Adds the functions that count, whose names no expression can have.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(COUNT, "count_dyn", vec![DYN_TYPE], counted)?;
    env.add_overload(COUNT_SQUARE, "count_square_list", vec![DYN_TYPE], counted_square)?;
    add_member_overload!(env, fn replace: (CelString, CelString, CelString) -> CelString,
        name = "@replace")?;
    add_member_overload!(env, fn replace_some: (CelString, CelString, CelString, CelInt)
        -> CelString, name = "@replace")?;
    env.add_member_overload("@join", "count_join", LIST_TYPE, Vec::new(), join)?;
    env.add_member_overload("@join", "count_join_by", LIST_TYPE, vec![DYN_TYPE], join)?;
    Ok(())
}

type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Evaluated<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

fn counted<'b, 'v>(mut arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    let value =
        arguments.pop().ok_or_else(|| ExecutionError::function_error("count", "no value"))?;
    count(value.as_ref());
    Ok(value)
}

/// The same for a list whose elements are compared with each other.
fn counted_square<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    let value = counted(arguments)?;
    if let Some(list) = value.as_ref().downcast_ref::<CelList>() {
        let length = list.inner().len() as u64;
        spend(length * length / COMPARISONS_PER_UNIT);
    }
    Ok(value)
}

fn replace(text: &CelString<'_>, from: &CelString<'_>, to: &CelString<'_>) -> CelString<'static> {
    replaced(text.inner(), from.inner(), to.inner(), usize::MAX).into()
}

fn replace_some(
    text: &CelString<'_>,
    from: &CelString<'_>,
    to: &CelString<'_>,
    count: &CelInt,
) -> CelString<'static> {
    let count = usize::try_from(*count.inner()).unwrap_or(usize::MAX);
    replaced(text.inner(), from.inner(), to.inner(), count).into()
}

fn replaced(text: &str, from: &str, to: &str, count: usize) -> String {
    let found = text.matches(from).take(count).count();
    spend_bytes(text.len().saturating_add(found.saturating_mul(to.len())));
    text.replacen(from, to, count)
}

fn join<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    let wrong = || ExecutionError::function_error("join", "no such overload");
    let text = |value: &dyn Val| value.downcast_ref::<CelString>().map(|it| it.inner().to_owned());
    let list = arguments.first().ok_or_else(wrong)?.as_ref();
    let list = list.downcast_ref::<CelList>().ok_or_else(wrong)?.inner();
    let separator = match arguments.get(1) {
        Some(separator) => text(separator.as_ref()).ok_or_else(wrong)?,
        None => String::new(),
    };
    let texts: Option<Vec<String>> = list.iter().map(|item| text(&**item)).collect();
    let texts = texts.ok_or_else(wrong)?;
    let bytes: usize = texts.iter().map(String::len).sum();
    spend_bytes(bytes.saturating_add(separator.len().saturating_mul(texts.len())));
    Ok(CowVal::owned(CelString::from(texts.join(&separator))))
}

/// An expression that counts what it evaluates.
pub(super) fn metered(of: &IdedExpr) -> IdedExpr {
    let mut metered = of.clone();
    Metering { locals: Vec::new() }.expression(&mut metered);
    metered
}

struct Metering {
    /// The variables of macros around the expression.
    locals: Vec<String>,
}

impl Metering {
    fn expression(&mut self, of: &mut IdedExpr) {
        match &mut of.expr {
            // The object itself is counted where its variable is resolved.
            Expr::Unspecified | Expr::Literal(_) => return,
            Expr::Ident(name) if !self.locals.contains(name) => return,
            Expr::Ident(_) => {}
            Expr::Select(select) => self.operand(&mut select.operand),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => list.elements.iter_mut().for_each(|it| self.expression(it)),
            Expr::Map(map) => self.entries(map.entries.iter_mut().map(|entry| &mut entry.expr)),
            Expr::Struct(of) => self.entries(of.entries.iter_mut().map(|entry| &mut entry.expr)),
            Expr::Comprehension(of) => self.comprehension(of),
        }
        wrap(of, COUNT);
    }

    /// Visits the value of which a field is selected: it is not copied.
    fn operand(&mut self, of: &mut IdedExpr) {
        match &mut of.expr {
            Expr::Ident(_) => {}
            Expr::Select(select) => self.operand(&mut select.operand),
            _ => self.expression(of),
        }
    }

    fn call(&mut self, call: &mut CallExpr) {
        let of_sets = call
            .target
            .as_ref()
            .is_some_and(|target| matches!(&target.expr, Expr::Ident(name) if name == "sets"));
        let is_square = of_sets || call.func_name == "distinct";
        let target = call.target.iter_mut().map(|target| &mut **target);
        for argument in target.filter(|_| !of_sets).chain(&mut call.args) {
            self.expression(argument);
            if is_square {
                wrap(argument, COUNT_SQUARE);
            }
        }
        let bounded = MULTIPLYING.iter().find(|(name, _)| call.func_name == *name);
        if let (Some((_, bounded)), true) = (bounded, call.target.is_some()) {
            call.func_name = (*bounded).to_owned();
        }
    }

    fn entries<'e>(&mut self, entries: impl Iterator<Item = &'e mut EntryExpr>) {
        for entry in entries {
            match entry {
                EntryExpr::MapEntry(entry) => {
                    self.expression(&mut entry.key);
                    self.expression(&mut entry.value);
                }
                EntryExpr::StructField(field) => self.expression(&mut field.value),
            }
        }
    }

    fn comprehension(&mut self, of: &mut ComprehensionExpr) {
        self.expression(&mut of.iter_range);
        let locals = self.locals.len();
        self.locals.push(of.iter_var.clone());
        self.locals.extend(of.iter_var2.clone());
        self.step(&mut of.loop_step);
        self.locals.truncate(locals);
    }

    /// A step of a loop. Its form stays, by which the evaluator knows what macro it is of; what it
    /// adds to the result is counted in any case, so that each step costs something.
    fn step(&mut self, of: &mut IdedExpr) {
        match &mut of.expr {
            Expr::Ident(_) => {}
            Expr::Call(call) if call.func_name == operators::CONDITIONAL => {
                let mut parts = call.args.iter_mut();
                parts.next().into_iter().for_each(|condition| self.counted(condition));
                parts.for_each(|step| self.step(step));
            }
            Expr::Call(call) if matches!(call.args.as_slice(), [first, _] if is_name(first)) => {
                match &mut call.args[1].expr {
                    Expr::List(list) => list.elements.iter_mut().for_each(|it| self.counted(it)),
                    _ => self.counted(&mut call.args[1]),
                }
            }
            _ => self.counted(of),
        }
    }

    fn counted(&mut self, of: &mut IdedExpr) {
        self.expression(of);
        if !matches!(&of.expr, Expr::Call(call) if call.func_name == COUNT) {
            wrap(of, COUNT);
        }
    }
}

fn is_name(of: &IdedExpr) -> bool {
    matches!(of.expr, Expr::Ident(_))
}

fn wrap(of: &mut IdedExpr, function: &str) {
    let id = of.id;
    let argument = std::mem::take(of);
    let call = CallExpr { func_name: function.to_owned(), target: None, args: vec![argument] };
    *of = IdedExpr { id, expr: Expr::Call(call) };
}
