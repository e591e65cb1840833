//! Who owns which fields of an object, and server-side apply (S14).
//!
//! Each entry of `metadata.managedFields` has a manager and the [set](set) of the fields that it
//! wrote. [Types](merge_schema) say which values are one field, so that sets, comparisons and
//! merges work for any type. Pure functions: the registry decides when they are called.

mod apply;
mod compare;
mod field_set;
mod fields_v1;
mod last_applied;
mod managers;
mod merge;
mod remove;
mod set;
mod stored;
#[cfg(test)]
mod tests;
mod update;
mod validate;

pub(crate) use apply::{Applied, Live, apply};
pub(crate) use managers::is_reset;
pub use managers::{Managers, decode};
pub(crate) use set::Set;
pub(crate) use stored::SharedTexts;
pub use stored::{ManagedFields, ManagedFieldsEntry};
pub(crate) use update::{Conflicts, Writing, conflict_status, conflicts_of_version, update};
pub(crate) use validate::validate;
