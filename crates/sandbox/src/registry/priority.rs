//! Priority admission: the classes of pods, and which class is the default (S10, S13). As in
//! upstream's plugin of that name.

use std::collections::BTreeSet;

use everynode_core::api::Timestamp;

use super::Registry;
use super::refuse_pod as refuse;
use crate::json::{Value, json};
use crate::kinds::PRIORITY_CLASS;
use crate::kinds::priority_class::{SYSTEM_CLASSES, system_value};
use crate::object::Object;
use crate::status::Status;
use crate::store::{Follower, Store, WriteOptions};
use crate::value::{integer, string, text};

const PREEMPT: &str = "PreemptLowerPriority";

/// A priority class, as far as pods get values from it.
struct Class {
    name: String,
    value: i64,
    preemption_policy: String,
}

/// The classes that are marked as the default. They follow the store's log of changes, so that a
/// write need not read all classes.
#[derive(Debug)]
pub(super) struct Defaults {
    follower: Follower,
    /// The values and the names.
    classes: BTreeSet<(i64, String)>,
}

impl Defaults {
    pub(super) fn new() -> Self {
        Self { follower: Follower::new(&PRIORITY_CLASS), classes: BTreeSet::new() }
    }

    /// Reads the changes of classes.
    pub(super) fn follow(&mut self, store: &Store) {
        loop {
            match self.follower.next(store) {
                Ok(None) => return,
                Ok(Some(change)) => {
                    if let Some(before) = change.previous.as_deref().and_then(Self::entry) {
                        self.classes.remove(&before);
                    }
                    self.classes.extend(change.after().and_then(Self::entry));
                }
                Err(_) => {
                    let all = store.iter(&PRIORITY_CLASS, None);
                    self.classes = all.filter_map(|class| Self::entry(class)).collect();
                }
            }
        }
    }

    fn entry(class: &Object) -> Option<(i64, String)> {
        let class = class.read();
        let is_default = class["globalDefault"] == Value::Bool(true);
        is_default.then(|| (integer(&class, "/value"), string(&class, "/metadata/name").to_owned()))
    }

    /// The name of the lowest one.
    fn first(&self) -> Option<&str> {
        self.classes.first().map(|(_, name)| &**name)
    }
}

/// Sets the pod's priority and preemption policy to those of its class, or of the default class.
pub(super) fn admit_pod(
    defaults: &Defaults,
    store: &Store,
    object: &mut Value,
) -> Result<(), Status> {
    let name = text(object, &["spec", "priorityClassName"]).to_owned();
    let class = match class_of_pod(defaults, store, &name) {
        Some(class) => class,
        None if name.is_empty() => Class { name, value: 0, preemption_policy: PREEMPT.to_owned() },
        None => {
            return Err(refuse(object, &format!("no PriorityClass with name {name} was found")));
        }
    };
    let given = object["spec"]["priority"].as_i64();
    if given.is_some_and(|given| given != class.value) {
        return Err(refuse_given(object, "integer", "priority", &given.unwrap_or(0), &class.value));
    }
    let policy = text(object, &["spec", "preemptionPolicy"]);
    if !policy.is_empty() && policy != class.preemption_policy {
        let computed = &class.preemption_policy;
        return Err(refuse_given(object, "string", "PreemptionPolicy", &policy, computed));
    }
    if !class.name.is_empty() {
        object["spec"]["priorityClassName"] = class.name.into();
    }
    object["spec"]["priority"] = class.value.into();
    object["spec"]["preemptionPolicy"] = class.preemption_policy.into();
    Ok(())
}

fn refuse_given(
    object: &Value,
    of: &str,
    field: &str,
    given: &dyn std::fmt::Display,
    computed: &dyn std::fmt::Display,
) -> Status {
    refuse(
        object,
        &format!(
            "the {of} value of {field} ({given}) must not be provided in pod spec; priority \
             admission controller computed {computed} from the given PriorityClass name"
        ),
    )
}

fn class_of_pod(defaults: &Defaults, store: &Store, name: &str) -> Option<Class> {
    let name = if name.is_empty() { defaults.first()? } else { name };
    match store.find(&PRIORITY_CLASS, "", name) {
        Some(found) => Some(Class::of(&found.read())),
        // The store of a simulation has no objects for them.
        None => system_value(name).map(|value| Class {
            name: name.to_owned(),
            value,
            preemption_policy: PREEMPT.to_owned(),
        }),
    }
}

impl Class {
    fn of(object: &Value) -> Self {
        let policy = string(object, "/preemptionPolicy");
        Self {
            name: string(object, "/metadata/name").to_owned(),
            value: integer(object, "/value"),
            preemption_policy: if policy.is_empty() { PREEMPT } else { policy }.to_owned(),
        }
    }
}

/// Refuses a second default class.
pub(super) fn admit_class(defaults: &Defaults, object: &Value) -> Result<(), Status> {
    if object["globalDefault"] != Value::Bool(true) {
        return Ok(());
    }
    let name = text(object, &["metadata", "name"]);
    match defaults.first() {
        Some(other) if other != name => {
            let cause = format!(
                "PriorityClass {other} is already marked as default. Only one default can exist"
            );
            Err(Status::forbidden(&PRIORITY_CLASS, name, &cause))
        }
        Some(_) | None => Ok(()),
    }
}

/// Creates the classes that every cluster has.
///
/// # Errors
/// A class that the registry refuses.
pub(crate) fn seed(registry: &mut Registry, now: Timestamp) -> Result<(), Status> {
    for class in SYSTEM_CLASSES {
        let object = json!({
            "metadata": {"name": class.name},
            "value": class.value,
            "description": class.description,
        });
        registry.create(&PRIORITY_CLASS, "", object, &WriteOptions::at(now))?;
    }
    Ok(())
}
