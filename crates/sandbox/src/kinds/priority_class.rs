//! PriorityClasses, which admission and the scheduler apply.

use crate::kind::columns::{self, AGE, Cell, Column, NAME};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Text;
use crate::kind::rules::{self, Causes, Field, Rules, metadata};
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, named};

/// PriorityClasses.
pub static PRIORITY_CLASS: Kind = Kind {
    short_names: &["pc"],
    namespaced: false,
    counts_generations: true,
    columns: &[
        NAME,
        columns::number("Value", "/value"),
        Column::new("Global-Default", Cell::Boolean("/globalDefault")),
        AGE,
        columns::text("PreemptionPolicy", "/preemptionPolicy"),
    ],
    defaults: Defaults {
        values: &[("preemptionPolicy", Text("PreemptLowerPriority"))],
        ..Defaults::KEPT
    },
    rules: Rules {
        choices: &[("preemptionPolicy", &["PreemptLowerPriority", "Never"])],
        more: name_and_value,
        on_update,
        ..Rules::NONE
    },
    strategy: Strategy { check_delete, ..Strategy::PLAIN },
    ..named("scheduling.k8s.io", "PriorityClass", "priorityclasses", "priorityclass")
};

/// A class of a cluster from its start.
pub(crate) struct SystemClass {
    pub(crate) name: &'static str,
    pub(crate) value: i64,
    pub(crate) description: &'static str,
}

/// The classes that every cluster has and that nobody can delete.
pub(crate) const SYSTEM_CLASSES: [SystemClass; 2] = [
    SystemClass {
        name: "system-node-critical",
        value: 2_000_001_000,
        description: "Used for system critical pods that must not be moved from their current \
                      node.",
    },
    SystemClass {
        name: "system-cluster-critical",
        value: 2_000_000_000,
        description: "Used for system critical pods that must run in the cluster, but can be moved \
                      to another node if necessary.",
    },
];

/// The highest priority of a class that is not the system's.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;

/// The value of a class of every cluster.
pub(crate) fn system_value(name: &str) -> Option<i64> {
    SYSTEM_CLASSES.iter().find(|class| class.name == name).map(|class| class.value)
}

fn check_delete(name: &str) -> Result<(), String> {
    match system_value(name) {
        Some(_) => Err("this is a system priority class and cannot be deleted".to_owned()),
        None => Ok(()),
    }
}

fn name_and_value(object: &Field, causes: &mut Causes) {
    let metadata = object.child("metadata");
    let (name, value) = (metadata.child("name"), object.child("value"));
    if name.text().starts_with("system-") {
        let cause = match system_value(name.text()) {
            None => format!("{} is not a known system priority class", name.text()),
            Some(known) if known != value.int() => {
                format!("value of {} PriorityClass must be {known}", name.text())
            }
            Some(_) => return,
        };
        causes.forbidden(
            &name,
            &format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {cause}"
            ),
        );
    } else if value.int() > USER_PRIORITY_MAX {
        causes.forbidden(
            &value,
            &format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"),
        );
    }
}

fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    rules::on_update(kind, object, old, causes);
    let value = object.child("value");
    if value.int() != old.child("value").int() {
        causes.forbidden(&value, "may not be changed in an update.");
    }
    metadata::immutable(&object.child("preemptionPolicy"), &old.child("preemptionPolicy"), causes);
}
