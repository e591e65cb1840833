//! Conflicts of an apply with other managers, in upstream's words.

use super::managers::ManagerId;
use super::update::Conflicts;
use crate::excerpt::{Excerpt, shortened};
use crate::merge_schema::PathElement;
use crate::status::{Details, Reason, Status, StatusCause};

/// 409 with a cause for each conflict, of very many the first. Clients tell people from it how to
/// go on.
pub(crate) fn status(conflicts: &Conflicts) -> Status {
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
pub(crate) fn of_version(conflicts: Conflicts, api_version: &str) -> Conflicts {
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
