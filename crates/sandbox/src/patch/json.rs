//! JSON patch and JSON merge patch, with the limits and the words of the API server.

use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

use super::failed;
use crate::store::{Reason, Status};

/// Upstream's `maxJSONPatchOperations`.
const OPERATIONS_MAX: usize = 10_000;
/// What all `copy` operations of a patch may add, in bytes of JSON: upstream sets it to the largest request body.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How deep a patch may nest an object: what JSON parsers take, ours included.
const DEPTH_MAX: usize = 128;

/// Does the operations in order, all or none (RFC 6902).
pub(super) fn json_patch(current: &Value, patch: &Value) -> Result<Value, Status> {
    let operations = decode(patch)?;
    let mut patched = current.clone();
    let mut copied_bytes = 0;
    for operation in &operations {
        let operation: PatchOperation =
            serde_json::from_value(operation.clone()).map_err(|_| failed())?;
        copied_bytes += copied(&patched, &operation);
        if copied_bytes > COPIED_BYTES_MAX || depth_after(&patched, &operation) > DEPTH_MAX {
            return Err(failed());
        }
        match json_patch::patch_unsafe(&mut patched, std::slice::from_ref(&operation)) {
            Ok(()) => (),
            Err(error) if tests_for_absence(&operation, &error.kind) => (),
            Err(_) => return Err(failed()),
        }
    }
    Ok(patched)
}

/// Merges objects key by key, null deletes, anything else replaces (RFC 7396).
pub(super) fn merge_patch(current: &Value, patch: &Value) -> Result<Value, Status> {
    if patch.is_null() {
        return Err(Status::bad_request("Invalid JSON Patch"));
    }
    if !patch.is_object() {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(patch)
        )));
    }
    let mut patched = current.clone();
    json_patch::merge(&mut patched, patch);
    Ok(patched)
}

fn decode(patch: &Value) -> Result<Vec<Value>, Status> {
    if patch.is_null() {
        return Ok(Vec::new());
    }
    let Value::Array(operations) = patch else {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            json_type(patch)
        )));
    };
    if let Some(stray) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
            json_type(stray)
        )));
    }
    if operations.len() > OPERATIONS_MAX {
        return Err(Status::new(
            Reason::RequestEntityTooLarge,
            format!(
                "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                operations.len()
            ),
        ));
    }
    Ok(operations.clone())
}

/// A test for null passes where there is nothing.
fn tests_for_absence(operation: &PatchOperation, error: &PatchErrorKind) -> bool {
    match operation {
        PatchOperation::Test(test) => {
            test.value.is_null() && matches!(error, PatchErrorKind::InvalidPointer)
        }
        PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Copy(_) => false,
    }
}

/// What the operation copies, in bytes: copies of copies would double without end.
fn copied(document: &Value, operation: &PatchOperation) -> usize {
    match operation {
        PatchOperation::Copy(copy) => {
            document.pointer(copy.from.as_str()).map_or(0, |source| source.to_string().len())
        }
        PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Test(_) => 0,
    }
}

/// How deep the place that the operation writes to will be.
fn depth_after(document: &Value, operation: &PatchOperation) -> usize {
    let inserted = match operation {
        PatchOperation::Add(add) => Some(&add.value),
        PatchOperation::Replace(replace) => Some(&replace.value),
        PatchOperation::Move(from_to) => document.pointer(from_to.from.as_str()),
        PatchOperation::Copy(from_to) => document.pointer(from_to.from.as_str()),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
    };
    inserted.map_or(0, |value| operation.path().tokens().count() + depth(value))
}

/// Recursion is bounded: a parsed value and one patched here are at most `DEPTH_MAX` deep.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The type in the words of Go's decoder.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(result: Result<Value, Status>) -> (u16, String) {
        let status = result.expect_err("a refusal");
        (status.code(), status.message.clone())
    }

    /// S5: the operations of RFC 6902 are done in order.
    #[test]
    fn a_json_patch_does_its_operations_in_order() {
        let current = json!({"metadata": {"labels": {"a/b": "1"}}, "list": [1, 2]});
        let patch = json!([
            {"op": "test", "path": "/metadata/labels/a~1b", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/a~1b", "value": "2"},
            {"op": "add", "path": "/list/-", "value": 3},
            {"op": "remove", "path": "/list/0"},
            {"op": "copy", "from": "/list", "path": "/copied"},
            {"op": "move", "from": "/list/0", "path": "/moved"},
            {"op": "test", "path": "/absent", "value": null},
        ]);
        let expected = json!({
            "metadata": {"labels": {"a/b": "2"}}, "list": [3], "copied": [2, 3], "moved": 2
        });
        assert_eq!(json_patch(&current, &patch), Ok(expected));
    }

    /// S5: what can't be done is refused as upstream refuses it, and says no more than upstream does.
    #[test]
    fn a_json_patch_that_does_not_fit_is_invalid() {
        let current = json!({"a": 1, "list": []});
        for operation in [
            json!({"op": "test", "path": "/a", "value": 2}),
            json!({"op": "remove", "path": "/absent"}),
            json!({"op": "replace", "path": "/absent", "value": 1}),
            json!({"op": "add", "path": "/absent/child", "value": 1}),
            json!({"op": "add", "path": "/list/1", "value": 1}),
            json!({"op": "move", "from": "/absent", "path": "/b"}),
            json!({"op": "invent", "path": "/b"}),
            json!({"op": "remove"}),
            json!({}),
        ] {
            let refused = refusal(json_patch(&current, &json!([operation])));
            let message = "the server rejected our request due to an error in our request";
            assert_eq!(refused, (422, message.to_string()), "{operation}");
        }
    }

    /// S5: a body of another shape is a bad request, and too many operations are too large.
    #[test]
    fn a_json_patch_of_another_shape_is_refused() {
        let refused = refusal(json_patch(&json!({}), &json!({"a": 1})));
        let message = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
        assert_eq!(refused, (400, message.to_string()));
        assert_eq!(refusal(json_patch(&json!({}), &json!([1]))).0, 400);
        let test = json!({"op": "test", "path": "/a", "value": null});
        assert!(json_patch(&json!({}), &Value::Array(vec![test.clone(); 10_000])).is_ok());
        assert_eq!(refusal(json_patch(&json!({}), &Value::Array(vec![test; 10_001]))).0, 413);
    }

    /// S5: copies of copies neither fill the memory nor the stack.
    #[test]
    fn a_json_patch_can_neither_swell_nor_deepen_an_object_without_end() {
        let current = json!({"a": "x".repeat(1000), "b": {}});
        let swell: Vec<Value> =
            (0..40).map(|i| json!({"op": "copy", "from": "", "path": format!("/b/{i}")})).collect();
        assert_eq!(refusal(json_patch(&current, &Value::Array(swell))).0, 422);
        let mut path = String::new();
        let deepen: Vec<Value> = (0..1000)
            .map(|_| {
                path.push_str("/a");
                json!({"op": "add", "path": path, "value": {}})
            })
            .collect();
        assert_eq!(refusal(json_patch(&json!({}), &Value::Array(deepen))).0, 422);
    }

    /// S5: objects merge, null deletes, lists are replaced.
    #[test]
    fn a_merge_patch_merges_objects_and_replaces_the_rest() {
        let current = json!({"a": {"keep": 1, "drop": 2}, "list": [1, 2], "scalar": 1});
        let patch = json!({"a": {"drop": null, "new": {"null": null}}, "list": [3], "scalar": {}});
        let expected = json!({"a": {"keep": 1, "new": {}}, "list": [3], "scalar": {}});
        assert_eq!(merge_patch(&current, &patch), Ok(expected));
        let message = "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(refusal(merge_patch(&current, &json!([]))), (400, message.to_string()));
    }
}
