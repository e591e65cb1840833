//! Validates that the defaults of a schema are values of it (S15): upstream's `ValidateDefaults`.

use crate::custom::{Schema, is_pruned};
use crate::kind::rules::{Causes, Field};
use crate::validation::custom;

/// Checks the defaults of a structural schema.
pub(super) fn check(document: &Field, schema: &Schema, causes: &mut Causes) {
    Walk { causes }.schema(document, schema, false);
}

struct Walk<'a> {
    causes: &'a mut Causes,
}

impl Walk<'_> {
    /// Checks the default of a schema and of those in it. There are none in maps and in what only
    /// restricts values.
    fn schema(&mut self, document: &Field, schema: &Schema, in_metadata: bool) {
        if !schema.has_defaults() {
            return;
        }
        if let Some(default) = &schema.default {
            let field = document.child("default");
            // The schema of metadata has only those fields that it restricts.
            if !in_metadata && !is_pruned(schema, default) {
                self.causes.invalid(&field, "must not have unknown fields");
            }
            custom::check_default(schema, default, &field.path(), self.causes);
        }
        if let Some(of_items) = &schema.items {
            self.schema(&document.child("items"), of_items, in_metadata);
        }
        for (name, property) in document.child("properties").entries() {
            let is_metadata = matches!(name, "apiVersion" | "kind" | "metadata");
            if let Some(of_property) = schema.properties.get(name) {
                let in_metadata = in_metadata || (schema.embedded && is_metadata);
                self.schema(&property, of_property, in_metadata);
            }
        }
    }
}
