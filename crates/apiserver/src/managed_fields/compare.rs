//! The fields in which two objects differ.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem::discriminant;

use crate::json::{Map, Value};

use super::set::Set;
use crate::merge_schema::{Form, ListType, MapType, PathElement, Type, compare as compare_values};

/// The difference of two objects. No path is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub removed: Set,
    pub modified: Set,
    pub added: Set,
}

/// The fields that a write changes.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The fields that have another value afterwards.
    pub written: Set,
    pub removed: Set,
}

impl Comparison {
    /// The comparison without fields and all that is below them.
    pub(crate) fn without(self, ignored: &Set) -> Self {
        Self {
            removed: self.removed.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            added: self.added.recursive_difference(ignored),
        }
    }

    /// The changes that a write with this difference makes to the owners of fields.
    pub(crate) fn into_changes(self) -> Changes {
        Changes { written: self.modified.union(self.added), removed: self.removed }
    }

    fn of(&mut self, change: Change) -> &mut Set {
        match change {
            Change::Removed => &mut self.removed,
            Change::Modified => &mut self.modified,
            Change::Added => &mut self.added,
        }
    }

    fn insert(&mut self, element: PathElement, change: Option<Change>, below: Self) {
        if let Some(change) = change {
            self.of(change).insert_member(element.clone());
        }
        self.removed.insert_children(element.clone(), below.removed);
        self.modified.insert_children(element.clone(), below.modified);
        self.added.insert_children(element, below.added);
    }
}

/// Compares two objects of one type.
pub(crate) fn compare(of: Type<'_>, before: &Value, after: &Value) -> Comparison {
    let mut comparison = Comparison::default();
    values(of, Some(before), Some(after), &mut comparison);
    comparison
}

/// The change of a field.
#[derive(Clone, Copy, Debug)]
enum Change {
    Removed,
    Modified,
    Added,
}

/// A visited value: one at which the walk ended, or one with others below it.
enum Visited {
    Leaf(Option<Change>),
    Inner,
}

/// Compares two values, of which one may be absent. Adds what is below them, and returns what
/// happened to the field itself.
fn values(
    of: Type<'_>,
    before: Option<&Value>,
    after: Option<&Value>,
    below: &mut Comparison,
) -> Option<Change> {
    if before == after {
        return None;
    }
    let (old, new) = (of.form(before), of.form(after));
    let visited = match (before, after) {
        (_, None) => self::form(old, before, after, below),
        (None, _) => self::form(new, before, after, below),
        _ if discriminant(&old) == discriminant(&new) => self::form(new, before, after, below),
        // The type has several forms, and the value has changed its form.
        _ => match self::form(old, before, after, below) {
            Visited::Inner => self::form(new, before, after, below),
            leaf => {
                self::form(new, before, after, below);
                leaf
            }
        },
    };
    match visited {
        Visited::Leaf(change) => change,
        Visited::Inner => match (before, after) {
            (None, _) => Some(Change::Added),
            (_, None) => Some(Change::Removed),
            _ => None,
        },
    }
}

fn form(
    form: Form<'_>,
    before: Option<&Value>,
    after: Option<&Value>,
    below: &mut Comparison,
) -> Visited {
    match form {
        Form::Scalar(_) => leaf(before, after),
        Form::Map(map) => maps(map, before, after, below),
        Form::List(list) => lists(list, before, after, below),
    }
}

fn maps(
    map: MapType<'_>,
    before: Option<&Value>,
    after: Option<&Value>,
    below: &mut Comparison,
) -> Visited {
    let old = before.and_then(Value::as_object);
    let new = after.and_then(Value::as_object);
    let is_empty = |fields: Option<&Map>| fields.is_none_or(Map::is_empty);
    // An empty map is a leaf, so that it differs from null and from an absent one.
    if map.atomic || (is_empty(old) && is_empty(new)) {
        return leaf(before, after);
    }
    let mut visit = |name: &str, old: Option<&Value>, new: Option<&Value>| {
        let mut inner = Comparison::default();
        let change = values(map.type_of(name), old, new, &mut inner);
        below.insert(PathElement::field(name), change, inner);
    };
    for (name, value) in old.into_iter().flatten() {
        visit(name, Some(value), new.and_then(|new| new.get(name)));
    }
    for (name, value) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(name)) {
            visit(name, None, Some(value));
        }
    }
    Visited::Inner
}

fn lists(
    list: ListType<'_>,
    before: Option<&Value>,
    after: Option<&Value>,
    below: &mut Comparison,
) -> Visited {
    let (old, new) = (items_of(before), items_of(after));
    if list.is_atomic() || (old.is_empty() && new.is_empty()) {
        return leaf(before, after);
    }
    let mut elements: BTreeMap<PathElement, [Vec<&Value>; 2]> = BTreeMap::new();
    for (side, items) in [old, new].into_iter().enumerate() {
        for item in items {
            if let Ok(element) = list.element(item) {
                elements.entry(element).or_default()[side].push(item);
            }
        }
    }
    for (element, [old, new]) in elements {
        items(list, element, &old, &new, below);
    }
    Visited::Inner
}

/// Compares the elements of two lists with one path element. Duplicates are one field.
fn items<'a>(
    list: ListType<'_>,
    element: PathElement,
    old: &[&'a Value],
    new: &[&'a Value],
    below: &mut Comparison,
) {
    let (were_many, are_many) = (old.len() > 1, new.len() > 1);
    if were_many && are_many {
        let change = (old != new).then_some(Change::Modified);
        return below.insert(element, change, Comparison::default());
    }
    let one = |items: &[&'a Value]| if let [only] = items { Some(*only) } else { None };
    let mut inner = Comparison::default();
    let change = values(list.elements, one(old), one(new), &mut inner);
    below.insert(element.clone(), change, inner);
    if were_many || are_many {
        let change = if were_many { Change::Removed } else { Change::Added };
        below.insert(element, Some(change), Comparison::default());
    }
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn leaf(before: Option<&Value>, after: Option<&Value>) -> Visited {
    Visited::Leaf(match (before, after) {
        (None, _) => Some(Change::Added),
        (_, None) => Some(Change::Removed),
        (Some(before), Some(after)) => {
            (compare_values(before, after) != Ordering::Equal).then_some(Change::Modified)
        }
    })
}
