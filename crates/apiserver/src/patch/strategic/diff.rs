//! The strategic merge patch that clients compute from three objects: the last applied one, the new
//! one and the current one. It sets what the new object states, and removes what the last one
//! stated and the new one does not. What only the current object has stays. As upstream's
//! `CreateThreeWayMergePatch`.

use std::collections::BTreeMap;

use crate::json::{Value, json};

use super::{DELETE_FROM_PRIMITIVE_LIST, Fields, PATCH, RETAIN_KEYS, SET_ELEMENT_ORDER};
use crate::schema::{Field, MergeStrategy, Struct};

/// The patch that makes `new` of `current`, as far as `last` allows. Without a schema it is a JSON
/// merge patch.
pub(in crate::patch) fn diff(
    last: Option<&Fields>,
    new: &Fields,
    current: &Fields,
    schema: Option<&'static Struct>,
) -> Fields {
    let mut patch = Fields::new();
    for (name, value) in new {
        let field = schema.and_then(|schema| schema.field(name));
        let strategy = field.map_or(MergeStrategy::Plain, |field| field.merge);
        let last = last.and_then(|last| last.get(name));
        match (current.get(name), value) {
            (Some(Value::Object(current)), Value::Object(value))
                if strategy != MergeStrategy::Replace =>
            {
                let retains = strategy == MergeStrategy::RetainKeys;
                let inner =
                    diff_objects(last.and_then(Value::as_object), value, current, field, retains);
                if !inner.is_empty() {
                    patch.insert(name.clone(), Value::Object(inner));
                }
            }
            (Some(Value::Array(current)), Value::Array(value))
                if strategy.merges_lists() && !current.is_empty() =>
            {
                let last = last.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                diff_lists(&mut patch, name, [last, value, current], field);
            }
            (Some(current), value) if current == value => {}
            (_, value) => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    let before = last.into_iter().flat_map(Fields::keys);
    for name in before.filter(|name| !new.contains_key(name)) {
        patch.insert(name.clone(), Value::Null);
    }
    patch
}

/// The patch of an object in a field, or in its list; `retains` adds `$retainKeys`.
fn diff_objects(
    last: Option<&Fields>,
    new: &Fields,
    current: &Fields,
    field: Option<&'static Field>,
    retains: bool,
) -> Fields {
    let mut patch = diff(last, new, current, field.and_then(Field::element));
    let mut more =
        current.iter().filter(|(name, value)| !value.is_null() && !new.contains_key(name));
    if retains && (!patch.is_empty() || more.next().is_some()) {
        let kept = new.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.clone());
        patch.insert(RETAIN_KEYS, kept.collect());
    }
    patch
}

/// Adds the patch of a list that is merged. Of a list whose elements have no keys, it is the whole
/// list, which the server refuses.
fn diff_lists(patch: &mut Fields, name: &str, lists: [&[Value]; 3], field: Option<&'static Field>) {
    let [last, new, current] = lists;
    let Some(key) = field.and_then(|field| field.merge.key()) else {
        let missing = |from: &[Value], other: &[Value]| -> Vec<Value> {
            from.iter().filter(|item| !other.contains(item)).cloned().collect()
        };
        let (removed, added) = (missing(last, new), missing(new, current));
        let order = if new == current && removed.is_empty() { &new[..0] } else { new };
        return insert_lists(patch, name, removed, added, order.to_vec());
    };
    let [Some(last), Some(elements), Some(current)] =
        [last, new, current].map(|list| identified(list, key))
    else {
        patch.insert(name, new.to_vec().into());
        return;
    };
    let retains =
        matches!(field.map(|field| field.merge), Some(MergeStrategy::MergeRetainKeysBy(_)));
    let mut changes = Vec::new();
    for (id, element) in &elements {
        let Some(before) = find(&current, id) else {
            changes.push(Value::Object((*element).clone()));
            continue;
        };
        let mut change = diff_objects(find(&last, id), element, before, field, retains);
        if !change.is_empty() {
            change.insert(key, element[key].clone());
            changes.push(Value::Object(change));
        }
    }
    let removed = last.iter().filter(|(id, _)| find(&elements, id).is_none());
    changes.extend(removed.map(|(_, element)| json!({ PATCH: "delete", key: element[key] })));
    let ids =
        |list: &Elements<'_>| -> Vec<Identity> { list.iter().map(|it| it.0.clone()).collect() };
    let is_same = changes.is_empty() && ids(&elements) == ids(&current);
    let order = elements.iter().filter(|_| !is_same);
    let order = order.map(|(_, element)| json!({ key: element[key] })).collect();
    insert_lists(patch, name, Vec::new(), changes, order);
}

fn find<'a>(elements: &Elements<'a>, id: &Identity) -> Option<&'a Fields> {
    elements.iter().find(|(found, _)| found == id).map(|(_, element)| *element)
}

/// Adds lists and their directives, unless they are empty.
fn insert_lists(
    patch: &mut Fields,
    name: &str,
    removed: Vec<Value>,
    changes: Vec<Value>,
    order: Vec<Value>,
) {
    let removed = (format!("{DELETE_FROM_PRIMITIVE_LIST}/{name}"), removed);
    let order = (format!("{SET_ELEMENT_ORDER}/{name}"), order);
    for (name, list) in [removed, (name.to_owned(), changes), order] {
        if !list.is_empty() {
            patch.insert(name, list.into());
        }
    }
}

/// The merge key, and the number of later elements with the same one: ports with two protocols
/// share theirs. To this correspondence upstream's sorting leads.
type Identity = (String, usize);

type Elements<'a> = Vec<(Identity, &'a Fields)>;

/// The elements with their identities; `None` if one has no merge key.
fn identified<'a>(list: &'a [Value], key: &str) -> Option<Elements<'a>> {
    let mut counts = BTreeMap::new();
    let mut elements: Elements<'a> = Vec::new();
    for item in list.iter().rev() {
        let element = item.as_object()?;
        let key = element.get(key)?.to_string();
        let later: &mut usize = counts.entry(key.clone()).or_default();
        elements.push(((key, *later), element));
        *later += 1;
    }
    elements.reverse();
    Some(elements)
}
