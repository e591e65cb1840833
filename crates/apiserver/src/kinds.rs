//! The kinds that a server serves: those that it brings along, and those of
//! CustomResourceDefinitions, which are made at run time (S15).
//!
//! Descriptors are `&'static`, so that they can be passed around freely. CustomResourceDefinitions
//! are the only kind that this crate knows.

mod custom;
mod custom_resource_definition;

use crate::json::Value;
use crate::kind::Kind;

pub use custom::TooManyKinds;
pub use custom_resource_definition::DEFINITION;
pub(crate) use custom_resource_definition::is_protected;

/// True if the objects of a kind are validated by schemas that clients send, or are such schemas,
/// so that even a small one can take long.
pub fn has_client_schemas(kind: &Kind) -> bool {
    kind.custom.is_some() || kind == &DEFINITION
}

/// The kinds that a server serves.
#[derive(Clone, Debug)]
pub struct Kinds {
    built_in: &'static [&'static Kind],
    rows: Vec<&'static Kind>,
    /// The rows of custom kinds that were made so far. They stay in memory, so equal ones are
    /// shared.
    made: Vec<&'static Kind>,
    /// Counts the changes of custom kinds and of their types.
    generation: u64,
}

impl Kinds {
    /// The kinds that a server has without definitions, in the order of discovery.
    pub fn new(built_in: &'static [&'static Kind]) -> Self {
        Self { built_in, rows: built_in.to_vec(), made: Vec::new(), generation: 0 }
    }

    /// All kinds, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        self.rows.iter().copied()
    }

    /// The kind of a URL `/apis/GROUP/VERSION/…/PLURAL`.
    pub fn by_resource(&self, group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
        self.iter().find(|row| row.group == group && row.version == version && row.plural == plural)
    }

    /// True if a group has a built-in kind.
    pub fn has_builtin_group(&self, group: &str) -> bool {
        self.built_in.iter().any(|row| row.group == group)
    }

    /// The kind of an object's `apiVersion` and `kind`.
    pub fn by_api_version(&self, api_version: &str, kind: &str) -> Option<&'static Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.iter().find(|row| row.group == group && row.version == version && row.kind == kind)
    }

    /// The first kind with this group and kind, in any version.
    pub fn by_group_kind(&self, group: &str, kind: &str) -> Option<&'static Kind> {
        self.iter().find(|row| row.group == group && row.kind == kind)
    }

    /// True if a kind is served, maybe by another row than before. Only a custom kind can cease to
    /// be.
    pub fn serves(&self, kind: &Kind) -> bool {
        let names = |kind: &Kind| (kind.group, kind.version, kind.plural);
        kind.custom.is_none() || self.iter().any(|row| names(row) == names(kind))
    }

    /// Changes when a custom kind or its type does.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Serves the kinds of a definition instead of those that it had before; `None` serves none.
    ///
    /// # Errors
    /// There have been too many different custom kinds.
    pub fn define(
        &mut self,
        group: &str,
        plural: &str,
        definition: Option<&Value>,
    ) -> Result<Vec<&'static Kind>, TooManyKinds> {
        self.generation += 1;
        self.rows.retain(|row| row.custom.is_none() || (row.group, row.plural) != (group, plural));
        let Some(definition) = definition else { return Ok(Vec::new()) };
        let served = custom::rows(definition, &mut self.made)?;
        for row in &served {
            if self.by_resource(row.group, row.version, row.plural).is_none() {
                self.rows.push(row);
            }
        }
        self.rows.sort_by_key(|row| row.custom.is_some().then(|| custom::order(row)));
        Ok(served)
    }
}
