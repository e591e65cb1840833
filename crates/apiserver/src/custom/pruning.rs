//! Pruning: the removal of fields that a schema does not have (upstream's `pruning.Prune`).

use crate::json::Value;

use super::schema::{Additional, Schema};

/// Prunes an object, which has metadata, and visits the paths of the removed fields. No path is
/// kept: a name can be as long as the object, and so the paths would fill the memory.
pub(super) fn prune(schema: &Schema, object: &mut Value, removed: &mut dyn FnMut(&str)) {
    Walk { path: String::new(), removed }.value(Some(schema), object, true);
}

/// True if a value, which is a part of an object, has only fields that the schema has.
pub(crate) fn is_pruned(schema: &Schema, value: &Value) -> bool {
    let mut is_pruned = true;
    let removed = &mut |_: &str| is_pruned = false;
    Walk { path: String::new(), removed }.value(Some(schema), &mut value.clone(), false);
    is_pruned
}

struct Walk<'a> {
    path: String,
    removed: &'a mut dyn FnMut(&str),
}

impl Walk<'_> {
    fn value(&mut self, schema: Option<&Schema>, value: &mut Value, is_resource: bool) {
        let is_resource = is_resource || schema.is_some_and(|schema| schema.embedded);
        match value {
            Value::Object(fields) => {
                let preserves = schema.is_some_and(|schema| schema.preserves);
                fields.retain(|name, value| {
                    if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                        return true;
                    }
                    let known = schema.and_then(|schema| schema.field(name));
                    let length = self.path.len();
                    if length > 0 {
                        self.path.push('.');
                    }
                    self.path.push_str(name);
                    let any = schema.is_some_and(|it| matches!(it.additional, Additional::Any));
                    let stays = known.is_some() || preserves || any;
                    if !stays {
                        (self.removed)(&self.path);
                    } else if known.is_some() || (any && !preserves) {
                        self.value(known, value, false);
                    }
                    self.path.truncate(length);
                    stays
                });
            }
            Value::Array(items) => {
                let of_items = schema.and_then(|schema| schema.items.as_deref());
                // What is in a value that is preserved as a whole has no schema of its own.
                if of_items.is_none() && schema.is_some_and(|schema| schema.preserves) {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    self.value(of_items, item, false);
                    self.path.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    /// S15: unknown fields are removed at any depth, and not where the schema preserves them.
    #[test]
    fn unknown_fields_are_removed() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "list": {"type": "array", "items": {"type": "object", "properties": {
                    "a": {"type": "string"},
                }}},
                "map": {"type": "object", "additionalProperties": {"type": "object"}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"typed": {"type": "object"}}},
                "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "properties": {"spec": {"type": "object"}}},
            }},
        }}));
        let mut object = json!({
            "apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "extra": 1,
            "spec": {
                "list": [{"a": "x", "b": 1}],
                "map": {"k": {"x": 1}},
                "any": {"x": [{"y": 1}], "typed": {"z": 1}},
                "embedded": {"kind": "K", "metadata": {"name": "y"}, "data": {}, "spec": {"q": 1}},
                "other": {},
            },
        });
        let mut removed = Vec::new();
        prune(&schema, &mut object, &mut |path| removed.push(path.to_owned()));
        removed.sort_unstable();
        assert_eq!(
            removed,
            [
                "extra",
                "spec.any.typed.z",
                "spec.embedded.data",
                "spec.embedded.spec.q",
                "spec.list[0].b",
                "spec.map.k.x",
                "spec.other",
            ]
        );
        assert_eq!(
            object["spec"],
            json!({
                "list": [{"a": "x"}], "map": {"k": {}},
                "any": {"x": [{"y": 1}], "typed": {}},
                "embedded": {"kind": "K", "metadata": {"name": "y"}, "spec": {}},
            })
        );
    }
}
