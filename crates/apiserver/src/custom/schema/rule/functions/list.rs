//! Functions of lists, sets and patterns (upstream's `library/lists.go` and `library/regex.go`, and
//! cel-go's `ext.Sets`).

use std::cmp::Ordering;
use std::sync::Arc;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelString, CelUInt, DYN_TYPE, LIST_TYPE,
};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::super::metering::spend;
use super::time::Span;
use super::{failed, list_of_texts};
use crate::custom::CompiledPattern;

type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Evaluated<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    let list = || vec![LIST_TYPE, LIST_TYPE];
    env.add_member_overload("isSorted", "list_is_sorted", LIST_TYPE, Vec::new(), is_sorted)?;
    env.add_member_overload("sum", "list_sum", LIST_TYPE, Vec::new(), sum)?;
    env.add_member_overload("min", "list_min", LIST_TYPE, Vec::new(), min)?;
    env.add_member_overload("max", "list_max", LIST_TYPE, Vec::new(), max)?;
    let any = || vec![DYN_TYPE];
    env.add_member_overload("indexOf", "list_a_index_of_int", LIST_TYPE, any(), index_of)?;
    let id = "list_a_last_index_of_int";
    env.add_member_overload("lastIndexOf", id, LIST_TYPE, any(), last_index_of)?;
    env.add_overload("sets.contains", "list_sets_contains_list", list(), contains)?;
    env.add_overload("sets.equivalent", "list_sets_equivalent_list", list(), equivalent)?;
    env.add_overload("sets.intersects", "list_sets_intersects_list", list(), intersects)?;
    add_member_overload!(env, fn find: (CelString, CelString) -> Result<CelString>)?;
    add_member_overload!(env, fn find_all: (CelString, CelString) -> Result<CelList>)?;
    add_member_overload!(env, fn find_some: (CelString, CelString, CelInt) -> Result<CelList>,
        name = "findAll")?;
    add_member_overload!(env, fn matches: (CelString, CelString) -> Result<CelBool>)?;
    add_overload!(env, fn matches: (CelString, CelString) -> Result<CelBool>)?;
    Ok(())
}

/// The elements of an argument.
fn items<'a>(
    arguments: &'a Arguments<'_, '_>,
    index: usize,
) -> Result<Vec<&'a dyn Val>, ExecutionError> {
    let list = arguments.get(index).and_then(|list| list.as_ref().as_iterable());
    let mut iterator = list.ok_or_else(|| failed("list", "no such overload"))?.iter();
    let mut found = Vec::new();
    while let Some(item) = iterator.next() {
        found.push(item);
    }
    Ok(found)
}

fn compare(one: &dyn Val, other: &dyn Val) -> Result<Ordering, ExecutionError> {
    let comparer = one.as_comparer().ok_or_else(|| failed("list", "no such overload"))?;
    comparer.compare(other)
}

fn is_sorted<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    let items = items(&arguments, 0)?;
    for pair in items.windows(2) {
        if compare(pair[0], pair[1])? == Ordering::Greater {
            return Ok(CowVal::owned(CelBool::from(false)));
        }
    }
    Ok(CowVal::owned(CelBool::from(true)))
}

fn sum<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    let overflow = || failed("sum", "integer overflow");
    let (mut int, mut uint, mut double) = (0_i64, 0_u64, 0.0);
    let mut nanoseconds = 0_i64;
    let items = items(&arguments, 0)?;
    for item in &items {
        if let Some(number) = item.downcast_ref::<CelInt>() {
            int = int.checked_add(*number.inner()).ok_or_else(overflow)?;
        } else if let Some(number) = item.downcast_ref::<CelUInt>() {
            uint = uint.checked_add(*number.inner()).ok_or_else(overflow)?;
        } else if let Some(number) = item.downcast_ref::<CelDouble>() {
            double += *number.inner();
        } else if let Some(span) = item.downcast_ref::<Span>() {
            nanoseconds = nanoseconds.checked_add(span.0).ok_or_else(overflow)?;
        } else {
            return Err(failed("sum", "no such overload"));
        }
    }
    Ok(match items.first() {
        Some(first) if first.downcast_ref::<CelUInt>().is_some() => {
            CowVal::owned(CelUInt::from(uint))
        }
        Some(first) if first.downcast_ref::<CelDouble>().is_some() => {
            CowVal::owned(CelDouble::from(double))
        }
        Some(first) if first.downcast_ref::<Span>().is_some() => CowVal::owned(Span(nanoseconds)),
        Some(_) | None => CowVal::owned(CelInt::from(int)),
    })
}

fn min<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    extreme("min", Ordering::Less, &arguments)
}

fn max<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    extreme("max", Ordering::Greater, &arguments)
}

fn extreme<'b, 'v>(
    function: &str,
    wanted: Ordering,
    arguments: &Arguments<'b, 'v>,
) -> Evaluated<'b, 'v> {
    let list = arguments.first().and_then(|list| list.as_ref().as_iterable());
    let mut iterator = list.ok_or_else(|| failed(function, "no such overload"))?.iter();
    let mut found: Option<&(dyn Val + 'v)> = None;
    while let Some(item) = iterator.next() {
        if match found {
            None => true,
            Some(found) => compare(item, found)? == wanted,
        } {
            found = Some(item);
        }
    }
    let message = || failed(function, format!("{function} called on empty list"));
    Ok(CowVal::Owned(found.ok_or_else(message)?.clone_as_boxed()))
}

fn index_of<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    position(&arguments, |mut items, wanted| items.position(|item| item.equals(wanted)))
}

fn last_index_of<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    position(&arguments, |mut items, wanted| items.rposition(|item| item.equals(wanted)))
}

/// The index that is found in a list for an element, or -1.
fn position<'b, 'v>(
    arguments: &Arguments<'b, 'v>,
    find: impl Fn(std::slice::Iter<'_, &dyn Val>, &dyn Val) -> Option<usize>,
) -> Evaluated<'b, 'v> {
    let items = items(arguments, 0)?;
    let wanted = arguments.get(1).ok_or_else(|| failed("indexOf", "no such overload"))?;
    let found = find(items.iter(), wanted.as_ref());
    let index = found.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1);
    Ok(CowVal::owned(CelInt::from(index)))
}

fn has_all(all: &[&dyn Val], wanted: &[&dyn Val]) -> bool {
    wanted.iter().all(|wanted| all.iter().any(|item| item.equals(*wanted)))
}

fn contains<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    let (one, other) = (items(&arguments, 0)?, items(&arguments, 1)?);
    Ok(CowVal::owned(CelBool::from(has_all(&one, &other))))
}

fn equivalent<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    let (one, other) = (items(&arguments, 0)?, items(&arguments, 1)?);
    Ok(CowVal::owned(CelBool::from(has_all(&one, &other) && has_all(&other, &one))))
}

fn intersects<'b, 'v>(arguments: Arguments<'b, 'v>) -> Evaluated<'b, 'v> {
    let (one, other) = (items(&arguments, 0)?, items(&arguments, 1)?);
    let is_in_both = one.iter().any(|item| other.iter().any(|other| item.equals(*other)));
    Ok(CowVal::owned(CelBool::from(is_in_both)))
}

fn find(
    text: &CelString<'_>,
    pattern: &CelString<'_>,
) -> Result<CelString<'static>, ExecutionError> {
    let pattern = compiled("find", pattern)?;
    spend(pattern.steps_to_find(text.inner()) as u64);
    Ok(pattern.find(text.inner(), 1).first().copied().unwrap_or_default().to_owned().into())
}

fn find_all(
    text: &CelString<'_>,
    pattern: &CelString<'_>,
) -> Result<CelList<'static>, ExecutionError> {
    find_some(text, pattern, &CelInt::from(-1))
}

fn find_some(
    text: &CelString<'_>,
    pattern: &CelString<'_>,
    count: &CelInt,
) -> Result<CelList<'static>, ExecutionError> {
    let count = usize::try_from(*count.inner()).unwrap_or(usize::MAX);
    let pattern = compiled("findAll", pattern)?;
    spend(pattern.steps_to_find(text.inner()) as u64);
    Ok(list_of_texts(pattern.find(text.inner(), count)))
}

fn matches(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let pattern = compiled("matches", pattern)?;
    spend(pattern.steps_to_match(text.inner()) as u64);
    Ok(pattern.matches(text.inner()).into())
}

fn compiled(
    function: &str,
    pattern: &CelString<'_>,
) -> Result<Arc<CompiledPattern>, ExecutionError> {
    let compiled = CompiledPattern::of(pattern.inner(), |steps| spend(steps as u64));
    compiled.map_err(|error| failed(function, format!("Illegal regex: {error}")))
}
