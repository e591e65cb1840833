//! Merges an applied object into the live one: the values of the former count, and the order of its
//! list elements.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::json::{Map, Value};

use crate::merge_schema::{Form, ListType, MapType, PathElement, Type};

/// The live object with all that is applied. Nothing is removed.
pub(crate) fn merge(of: Type<'_>, live: &Value, applied: &Value) -> Value {
    let merged = values(of, Some(live), Some(applied));
    merged.unwrap_or_else(|| Value::Object(Map::new()))
}

/// Merges two values, of which one may be absent; `None` if nothing is left.
fn values(of: Type<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let form = match (live, applied) {
        (_, None) => of.form(live),
        // A value of another form replaces the live one.
        _ => of.form(applied),
    };
    match form {
        Form::Scalar(_) => leaf(live, applied),
        Form::Map(map) => maps(map, live, applied),
        Form::List(list) => lists(list, live, applied),
    }
}

fn maps(map: MapType<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let old = live.and_then(Value::as_object);
    let new = applied.and_then(Value::as_object);
    let is_empty = |fields: Option<&Map>| fields.is_none_or(Map::is_empty);
    if map.atomic || (is_empty(old) && is_empty(new)) {
        return leaf(live, applied);
    }
    let mut merged = Map::new();
    for (name, value) in old.into_iter().flatten() {
        let applied = new.and_then(|new| new.get(name));
        let value = values(map.type_of(name), Some(value), applied);
        merged.extend(value.map(|value| (name.clone(), value)));
    }
    for (name, value) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(name)) {
            let value = values(map.type_of(name), None, Some(value));
            merged.extend(value.map(|value| (name.clone(), value)));
        }
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

fn lists(list: ListType<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let items = |value: Option<&Value>| -> Vec<Value> {
        value.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (old, new) = (items(live), items(applied));
    if list.is_atomic() || (old.is_empty() && new.is_empty()) {
        return leaf(live, applied);
    }
    let merged = Items::new(list, &old, &new).merge();
    (!merged.is_empty()).then_some(merged.into())
}

fn leaf(live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    applied.or(live).cloned()
}

/// The merge of two lists. The applied elements have the applied order; the others stay behind the
/// element that they follow in the live list.
struct Items<'a> {
    list: ListType<'a>,
    live: Vec<(PathElement, &'a Value)>,
    applied: Vec<(PathElement, &'a Value)>,
    /// The live elements; `None` for one that is twice in the list.
    live_values: BTreeMap<PathElement, Option<&'a Value>>,
    applied_values: BTreeMap<PathElement, &'a Value>,
}

impl<'a> Items<'a> {
    fn new(list: ListType<'a>, live: &'a [Value], new: &'a [Value]) -> Self {
        let with_elements = |items: &'a [Value]| -> Vec<(PathElement, &'a Value)> {
            let element = |item: &'a Value| Some((list.element(item).ok()?, item));
            items.iter().filter_map(element).collect()
        };
        let (live, applied) = (with_elements(live), with_elements(new));
        let mut live_values = BTreeMap::new();
        for (element, item) in &live {
            let is_new = !live_values.contains_key(element);
            live_values.insert(element.clone(), is_new.then_some(*item));
        }
        let applied_values = applied.iter().cloned().collect();
        Self { list, live, applied, live_values, applied_values }
    }

    fn merge(&self) -> Vec<Value> {
        let shared = self.applied.iter().map(|(element, _)| element);
        let mut shared: VecDeque<&PathElement> =
            shared.filter(|element| self.live_values.contains_key(element)).collect();
        let mut next_shared = shared.pop_front();
        let mut merged = Vec::new();
        let mut done: BTreeSet<&PathElement> = BTreeSet::new();
        let (mut at_live, mut at_applied) = (0, 0);
        while at_live < self.live.len() || at_applied < self.applied.len() {
            let live = self.live.get(at_live);
            let applied = self.applied.get(at_applied);
            if let (Some((element, _)), Some((wanted, _))) = (live, applied) {
                if element == wanted {
                    done.insert(element);
                    merged.extend(self.both(element));
                    (at_live, at_applied) = (at_live + 1, at_applied + 1);
                    next_shared = shared.pop_front();
                    continue;
                }
                if self.applied_values.contains_key(element)
                    && next_shared.is_some_and(|next| next != element)
                {
                    // It comes later, at the place that it has in the applied list.
                    at_live += 1;
                    continue;
                }
            }
            if let Some((element, item)) = live {
                if !self.applied_values.contains_key(element) {
                    merged.extend(values(self.list.elements, Some(item), None));
                    at_live += 1;
                    continue;
                }
                if done.contains(element) {
                    at_live += 1;
                }
            }
            if let Some((element, _)) = applied {
                done.insert(element);
                merged.extend(self.both(element));
                at_applied += 1;
                if next_shared == Some(element) {
                    next_shared = shared.pop_front();
                }
            }
        }
        merged
    }

    /// An applied element, merged with the live one if there is exactly one.
    fn both(&self, element: &PathElement) -> Option<Value> {
        let live = self.live_values.get(element).copied().flatten();
        let applied = self.applied_values.get(element).copied();
        values(self.list.elements, live, applied)
    }
}
