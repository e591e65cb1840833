//! Server-side apply: the object and its managers after an apply, or the conflicts that prevent it.

use crate::json::Value;

use super::field_set::field_set;
use super::last_applied;
use super::managers::{Manager, ManagerId, Managers, Operation};
use super::merge::merge;
use super::remove::{remove, with_named_fields};
use super::set::Set;
use super::update::{self, Conflicts, UNOWNED, Writing};
use crate::merge_schema::Type;

/// The manager of all fields that existed before anyone's fields were recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager whose applies continue client-side applies.
const KUBECTL: &str = "kubectl";

/// The state before an apply.
pub(crate) struct Live<'a> {
    /// The object, or the empty object of its kind if there is none.
    pub object: &'a Value,
    /// The empty object of the kind.
    pub empty: &'a Value,
    /// The managers before.
    pub managers: Managers,
}

/// The result of an apply.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The object; `None` if nothing in it changes.
    pub object: Option<Value>,
    /// The managers after.
    pub managers: Managers,
}

/// Applies an object, which [`validate`](super::validate()) has checked.
///
/// # Errors
/// The fields that others own and that would get other values, unless `force` is set.
pub(crate) fn apply(
    writing: &Writing<'_>,
    live: Live<'_>,
    applied: &Value,
    name: &str,
    force: bool,
) -> Result<Applied, Conflicts> {
    let Live { object, empty, mut managers } = live;
    if managers.is_empty() {
        managers = update::update(writing, empty, object, managers, BEFORE_FIRST_APPLY);
    }
    let mut result = match merge_in(writing, object, applied, managers.clone(), name, force) {
        Err(conflicts) if name == KUBECTL => {
            let allowed = last_applied::owned(writing, object).unwrap_or_default();
            let mut left = conflicts;
            left.retain(|_, fields| {
                fields.remove_all(&allowed);
                !fields.is_empty()
            });
            if !left.is_empty() {
                return Err(left);
            }
            merge_in(writing, object, applied, managers, name, true)?
        }
        result => result?,
    };
    if name == KUBECTL {
        last_applied::refresh(&mut result.object, object, applied);
    }
    Ok(result)
}

/// Upstream's `Updater.Apply`.
fn merge_in(
    writing: &Writing<'_>,
    live: &Value,
    applied: &Value,
    mut managers: Managers,
    name: &str,
    force: bool,
) -> Result<Applied, Conflicts> {
    let root = writing.root;
    let merged = merge(root, live, applied);
    let fields = writing.changeable(field_set(root, applied));
    let id = ManagerId::new(name, Operation::Apply, writing.api_version, writing.subresource);
    let api_version = writing.api_version.into();
    let before = managers.insert(id.clone(), Manager { fields, api_version, time: None });
    let (last, last_time) = before.map(|before| (before.fields, before.time)).unwrap_or_default();
    let new = prune(root, merged, &managers, &last);
    let changes = update::changes(writing, live, &new);
    let conflicts = update::conflicts(writing, &managers, &changes.written, Some(&id));
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    update::take(writing, &mut managers, &conflicts, &changes.removed, Some(&id));
    let is_changed = *live != new;
    if let Some(mut manager) = managers.remove(&id) {
        manager.fields = manager.fields.difference(&UNOWNED);
        // An apply that changes nothing does not change the time either.
        manager.time = if is_changed { Some(writing.now) } else { last_time };
        if !manager.fields.is_empty() {
            managers.insert(id, manager);
        }
    }
    Ok(Applied { object: is_changed.then_some(new), managers })
}

/// Removes what the manager applied last time, does not apply now, and nobody else owns.
fn prune(root: Type<'_>, merged: Value, managers: &Managers, last: &Set) -> Value {
    if last.is_empty() {
        return merged;
    }
    let named = |set: &Set| with_named_fields(Some(root), set);
    let all_named = |object: &Value| named(&field_set(root, object));
    let last = named(last);
    let in_merged = all_named(&merged);
    let pruned = remove(root, &merged, &last);
    let owned = managers
        .values()
        .fold(Set::default(), |owned, manager| owned.union(manager.fields.clone()));
    // What others own comes back, with what leads to it.
    let kept = all_named(&pruned).union(named(&owned));
    let pruned = remove(root, &merged, &in_merged.clone().difference(&kept));
    // What nobody has ever applied comes back as well.
    let gone = in_merged.difference(&all_named(&pruned)).intersection(&last);
    remove(root, &merged, &gone)
}
