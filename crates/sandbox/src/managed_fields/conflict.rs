//! Conflicts of an apply with other managers, in upstream's words.

use std::collections::BTreeMap;

use super::managers::ManagerId;
use super::update::Conflicts;
use crate::merge_schema::PathElement;
use crate::status::{Details, Reason, Status, StatusCause};

/// A field that another manager owns and that would get another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub manager: ManagerId,
    pub path: Vec<PathElement>,
}

impl Conflict {
    pub(super) fn all(conflicts: &Conflicts) -> Vec<Self> {
        let mut all = Vec::new();
        for (manager, fields) in conflicts {
            fields.for_each(&mut |path| {
                all.push(Self { manager: manager.clone(), path: path.to_vec() });
            });
        }
        all
    }

    fn field(&self) -> String {
        self.path.iter().map(PathElement::to_string).collect()
    }
}

/// 409 with a cause for each conflict. Clients tell people from it how to go on.
pub(crate) fn status(conflicts: &[Conflict]) -> Status {
    let cause = |conflict: &Conflict| StatusCause {
        reason: "FieldManagerConflict".to_owned(),
        field: conflict.field(),
        message: format!("conflict with {}", conflict.manager.description()),
    };
    let causes = conflicts.iter().map(cause).collect();
    Status::new(Reason::Conflict, message(conflicts))
        .with_details(Details { causes, ..Details::default() })
}

fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        let (manager, field) = (only.manager.description(), only.field());
        return format!("Apply failed with 1 conflict: conflict with {manager}: {field}");
    }
    let mut by_manager: BTreeMap<&ManagerId, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.manager).or_default().push(conflict.field());
    }
    let mut lines = Vec::new();
    for (manager, fields) in by_manager {
        lines.push(format!("conflicts with {}:", manager.description()));
        lines.extend(fields.iter().map(|field| format!("- {field}")));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
