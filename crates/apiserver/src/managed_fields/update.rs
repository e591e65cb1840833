//! The rules of ownership: who owns which fields after a write.
//!
//! Upstream's `merge.Updater` with the managers that Kubernetes wraps around it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use everynode_core::api::Timestamp;

use super::compare::{Changes, compare};
use super::managers::{Manager, ManagerId, Managers, Operation};
use super::set::Set;
use crate::excerpt::{Excerpt, shortened};
use crate::json::Value;
use crate::merge_schema::{PathElement, Type};
use crate::status::{Details, Reason, Status, StatusCause};

/// The inputs of ownership, apart from the objects.
pub(crate) struct Writing<'a> {
    /// The type of the object.
    pub root: Type<'a>,
    /// The version in which the object is written.
    pub api_version: &'a str,
    /// True if the object is served in a version.
    pub serves: &'a dyn Fn(&str) -> bool,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// The fields that the endpoint does not change, so that nobody owns them for having sent them.
    pub ignored: Set,
    /// If not empty, the endpoint changes no other fields than those at and below these paths, in
    /// which `*` is any element.
    pub only: &'static [&'static [&'static str]],
    /// The time of the write.
    pub now: Timestamp,
}

/// Fields that an apply would take from other managers, by their managers.
pub(crate) type Conflicts = BTreeMap<ManagerId, Set>;

/// The managers after an object was written in any way but by apply. The writer owns what it
/// changed, and nobody owns what is gone.
pub(crate) fn update(
    writing: &Writing<'_>,
    live: &Value,
    new: &Value,
    mut managers: Managers,
    name: &str,
) -> Managers {
    let changes = changes(writing, live, new);
    let taken = conflicts(writing, &managers, &changes.written, None);
    take(writing, &mut managers, &taken, &changes.removed, None);
    let written = changes.written.difference(&UNOWNED);
    if !written.is_empty() {
        let id = ManagerId::new(name, Operation::Update, writing.api_version, writing.subresource);
        let before = managers.remove(&id).map(|before| before.fields).unwrap_or_default();
        let manager = Manager {
            fields: written.union(before),
            api_version: writing.api_version.into(),
            time: Some(writing.now),
        };
        managers.insert(id, manager);
    }
    cap(&mut managers);
    managers
}

/// The changes that a write makes, as far as its endpoint may.
pub(super) fn changes(writing: &Writing<'_>, live: &Value, new: &Value) -> Changes {
    let comparison = compare(writing.root, live, new).without(&writing.ignored);
    let Changes { written, removed } = comparison.into_changes();
    Changes { written: writing.changeable(written), removed: writing.changeable(removed) }
}

impl Writing<'_> {
    /// Those of the fields that the endpoint may change.
    pub(super) fn changeable(&self, fields: Set) -> Set {
        let fields = fields.recursive_difference(&self.ignored);
        if self.only.is_empty() { fields } else { fields.only(self.only) }
    }
}

/// The written fields that other managers own.
pub(super) fn conflicts(
    writing: &Writing<'_>,
    managers: &Managers,
    written: &Set,
    writer: Option<&ManagerId>,
) -> Conflicts {
    let others = managers
        .iter()
        .filter(|(id, manager)| Some(*id) != writer && (writing.serves)(&manager.api_version));
    others
        .map(|(id, manager)| (id.clone(), manager.fields.intersection(written)))
        .filter(|(_, taken)| !taken.is_empty())
        .collect()
}

/// Takes fields from the other managers, and removed fields from all of them. Managers of versions
/// that are no longer served go, as do those that own nothing.
pub(super) fn take(
    writing: &Writing<'_>,
    managers: &mut Managers,
    taken: &Conflicts,
    removed: &Set,
    writer: Option<&ManagerId>,
) {
    managers.retain(|id, manager| {
        if Some(id) == writer {
            return !manager.fields.is_empty();
        }
        if !(writing.serves)(&manager.api_version) {
            return false;
        }
        if let Some(taken) = taken.get(id) {
            manager.fields.remove_all(taken);
        }
        manager.fields.remove_all(removed);
        !manager.fields.is_empty()
    });
}

/// The fields that no manager owns.
pub(super) static UNOWNED: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Maximum number of entries from updates.
const UPDATE_MANAGERS_MAX: usize = 10;
/// The manager into which the oldest entries are merged if there are more.
const OLD_UPDATES: &str = "ancient-changes";

/// Merges the oldest entries from updates, by version, until there are few enough.
fn cap(managers: &mut Managers) {
    let mut updates: Vec<(i64, ManagerId)> = managers
        .iter()
        .filter(|(id, _)| id.operation == Operation::Update)
        .map(|(id, manager)| (manager.time.map_or(0, |time| time.0.div_euclid(1000)), id.clone()))
        .collect();
    let mut count = updates.len();
    updates.sort();
    let mut first_of: BTreeMap<Box<str>, ManagerId> = BTreeMap::new();
    for (_, id) in updates {
        if count <= UPDATE_MANAGERS_MAX {
            return;
        }
        let Some(manager) = managers.get(&id) else { continue };
        let version = manager.api_version.clone();
        let bucket = ManagerId::new(OLD_UPDATES, Operation::Update, &version, "");
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, id);
            continue;
        };
        if !managers.contains_key(&bucket)
            && let Some(oldest) = managers.remove(first)
        {
            managers.insert(bucket.clone(), oldest);
        }
        if let Some(merged) = managers.remove(&id)
            && let Some(bucket) = managers.get_mut(&bucket)
        {
            bucket.fields.add_all(merged.fields);
            bucket.time = merged.time;
            count -= 1;
        }
    }
}

/// 409 with a cause for each conflict, of very many the first. Clients tell people from it how to
/// go on.
pub(crate) fn conflict_status(conflicts: &Conflicts) -> Status {
    let mut lines = Excerpt::default();
    let (mut causes, mut count, mut only) = (Vec::new(), 0_usize, None);
    for (manager, fields) in conflicts {
        let description = manager.description();
        let mut of_manager = 0;
        fields.for_each(&mut |path| {
            (count, of_manager) = (count + 1, of_manager + 1);
            let is_first = of_manager == 1;
            lines.add(|| {
                let field = field(path);
                let message = format!("conflict with {description}");
                only = Some(format!("{message}: {field}"));
                causes.push(StatusCause::new("FieldManagerConflict", &field, message));
                let start = if is_first {
                    format!("conflicts with {description}:\n")
                } else {
                    String::new()
                };
                format!("{start}- {field}")
            });
        });
    }
    let message = match (count, only) {
        (1, Some(only)) => format!("Apply failed with 1 conflict: {only}"),
        _ => format!("Apply failed with {count} conflicts: {}", lines.into_vec().join("\n")),
    };
    Status::new(Reason::Conflict, message).with_details(Details { causes, ..Details::default() })
}

/// The same conflicts, of managers that have another version.
pub(crate) fn conflicts_of_version(conflicts: Conflicts, api_version: &str) -> Conflicts {
    let mut renamed = Conflicts::new();
    for (id, fields) in conflicts {
        let id = ManagerId { api_version: api_version.into(), ..id };
        renamed.entry(id).or_default().add_all(fields);
    }
    renamed
}

fn field(path: &[PathElement]) -> String {
    shortened(path.iter().map(PathElement::to_string).collect())
}
