//! JSON patch and JSON merge patch, with the limits and messages of the API server.

use json_patch::jsonptr::Pointer;
use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value as Document;

use super::failed;
use crate::json::{Map, Value};
use crate::status::{Reason, Status};
use crate::value::{DEPTH_MAX, json_type};

/// Upstream's `maxJSONPatchOperations`.
const OPERATIONS_MAX: usize = 10_000;
/// Maximum number of bytes that all `copy` operations of a patch may add. As upstream, it is the
/// maximum size of a request's body.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Maximum number of values that all operations of a patch together may move or visit: without it
/// ten thousand insertions at the start of a long list take minutes.
const VISITED_MAX: usize = 10_000_000;

/// Applies all operations in order, or none (RFC 6902). As upstream, a negative index counts from
/// the end of the list.
pub(super) fn json_patch(current: &Value, patch: &Value) -> Result<Value, Status> {
    let mut patched = Document::from(current);
    let mut copied_bytes = 0;
    let mut depth_at_most = depth(&patched).0;
    let mut visited = 0;
    for operation in decode(patch)? {
        let operation = absolute(&patched, operation);
        let operation = serde_json::from_value(operation.into()).map_err(|_| failed())?;
        copied_bytes += copied(&patched, &operation);
        if copied_bytes > COPIED_BYTES_MAX {
            return Err(failed());
        }
        visited += moved(&patched, &operation);
        if visited > VISITED_MAX {
            return Err(too_much_work());
        }
        depth_at_most = depth_at_most.max(depth_after(&operation, depth_at_most));
        match json_patch::patch_unsafe(&mut patched, std::slice::from_ref(&operation)) {
            Ok(()) => (),
            Err(error) if tests_for_absence(&operation, &error.kind) => (),
            Err(_) => return Err(failed()),
        }
        if depth_at_most > DEPTH_MAX {
            let (found, values) = depth(&patched);
            depth_at_most = found;
            visited += values;
            if depth_at_most > DEPTH_MAX {
                return Err(failed());
            }
        }
    }
    Ok(patched.into())
}

/// Merges objects recursively: null deletes a field, any other value replaces it (RFC 7396).
pub(super) fn merge_patch(current: &Value, patch: &Value) -> Result<Value, Status> {
    if patch.is_null() {
        return Err(Status::bad_request("Invalid JSON Patch"));
    }
    if !patch.is_object() {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            json_type(patch)
        )));
    }
    let mut patched = current.clone();
    merge(&mut patched, patch);
    Ok(patched)
}

fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(fields) = value else { return };
    for (name, patch) in patch {
        if patch.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), patch);
        }
    }
}

fn decode(patch: &Value) -> Result<Vec<Value>, Status> {
    if patch.is_null() {
        return Ok(Vec::new());
    }
    let Value::Array(operations) = patch else {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type \
             []handlers.jsonPatchOp",
            json_type(patch)
        )));
    };
    if let Some(stray) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type \
             handlers.jsonPatchOp",
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
    Ok(operations.to_vec())
}

/// Converts indices from the end of a list to indices from its start. An `add` may refer to the
/// position after the last element.
fn absolute(document: &Document, mut operation: Value) -> Value {
    let adds = operation["op"] == "add";
    for (member, places) in [("path", usize::from(adds)), ("from", 0)] {
        if let Some(Value::String(pointer)) = operation.get_mut(member)
            && pointer.contains("/-")
        {
            *pointer = absolute_pointer(document, pointer, places).into();
        }
    }
    operation
}

fn absolute_pointer(document: &Document, pointer: &str, places_behind: usize) -> String {
    let mut absolute = String::with_capacity(pointer.len());
    let mut tokens = pointer.split('/').skip(1).peekable();
    while let Some(token) = tokens.next() {
        let parent = document.pointer(&absolute).and_then(Document::as_array);
        let behind = if tokens.peek().is_none() { places_behind } else { 0 };
        let from_end = token.strip_prefix('-').and_then(|digits| digits.parse::<usize>().ok());
        absolute.push('/');
        match parent.zip(from_end).and_then(|(list, back)| (list.len() + behind).checked_sub(back))
        {
            Some(index) => absolute.push_str(&index.to_string()),
            None => absolute.push_str(token),
        }
    }
    absolute
}

/// True if the operation tests for null at a path that does not exist, which succeeds.
fn tests_for_absence(operation: &PatchOperation, error: &PatchErrorKind) -> bool {
    let tests_for_null = matches!(operation, PatchOperation::Test(test) if test.value.is_null());
    tests_for_null && matches!(error, PatchErrorKind::InvalidPointer)
}

/// The number of bytes that the operation copies. Without a limit, copies of copies could double
/// the object with each operation.
fn copied(document: &Document, operation: &PatchOperation) -> usize {
    let PatchOperation::Copy(copy) = operation else { return 0 };
    let source = document.pointer(copy.from.as_str());
    source.map_or(0, |source| Value::from(source.clone()).size().json)
}

/// The number of elements that the operation may move in lists.
fn moved(document: &Document, operation: &PatchOperation) -> usize {
    let elements = |pointer: &Pointer| {
        let parent = pointer.as_str().rsplit_once('/').and_then(|(list, _)| document.pointer(list));
        parent.and_then(Document::as_array).map_or(0, Vec::len)
    };
    match operation {
        PatchOperation::Add(add) => elements(&add.path),
        PatchOperation::Remove(remove) => elements(&remove.path),
        PatchOperation::Move(from_to) => elements(&from_to.from) + elements(&from_to.path),
        PatchOperation::Copy(copy) => elements(&copy.path),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

fn too_much_work() -> Status {
    let message = format!(
        "The operations of a JSON patch may move {VISITED_MAX} elements of lists in all, and these \
         move more"
    );
    Status::new(Reason::RequestEntityTooLarge, message)
}

/// An upper bound of the nesting after an operation on a document with the nesting `depth_before`.
/// It does not walk the document, so that many operations on a large one stay cheap.
fn depth_after(operation: &PatchOperation, depth_before: usize) -> usize {
    let length = |pointer: &Pointer| pointer.tokens().count();
    let carried = |from| depth_before.saturating_sub(length(from));
    match operation {
        PatchOperation::Add(add) => length(&add.path) + depth(&add.value).0,
        PatchOperation::Replace(replace) => length(&replace.path) + depth(&replace.value).0,
        PatchOperation::Move(from_to) => length(&from_to.path) + carried(&from_to.from),
        PatchOperation::Copy(from_to) => length(&from_to.path) + carried(&from_to.from),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
    }
}

/// The nesting of a value, and the number of values in it. The recursion is bounded: parsed values
/// nest at most `DEPTH_MAX` deep, and one operation can at most double that.
fn depth(value: &Document) -> (usize, usize) {
    let deepest = |(depth, values): (usize, usize), inner: &Document| {
        let (inner_depth, inner_values) = self::depth(inner);
        (depth.max(inner_depth + 1), values + inner_values)
    };
    match value {
        Document::Array(items) => items.iter().fold((1, 1), deepest),
        Document::Object(fields) => fields.values().fold((1, 1), deepest),
        Document::Null | Document::Bool(_) | Document::Number(_) | Document::String(_) => (0, 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop, prop_assert, proptest};

    use super::*;
    use crate::json::json;

    fn refusal(result: Result<Value, Status>) -> (u16, String) {
        let status = result.expect_err("a refusal");
        (status.code(), status.message.clone())
    }

    /// S5: the operations of a JSON patch are applied in order.
    #[test]
    fn a_json_patch_applies_its_operations_in_order() {
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

    /// S5: an operation that can't be applied is refused with upstream's message.
    #[test]
    fn an_inapplicable_json_patch_is_invalid() {
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

    /// S5: as upstream, a negative index counts from the end.
    #[test]
    fn a_json_patch_counts_from_the_end_of_a_list() {
        let current = json!({"list": [{"a": 1}, 2, 3], "-1": 0});
        for (operation, expected) in [
            (json!({"op": "add", "path": "/list/-1", "value": 4}), json!([{"a": 1}, 2, 3, 4])),
            (json!({"op": "add", "path": "/list/-2", "value": 4}), json!([{"a": 1}, 2, 4, 3])),
            (json!({"op": "remove", "path": "/list/-1"}), json!([{"a": 1}, 2])),
            (json!({"op": "replace", "path": "/list/-3/a", "value": 5}), json!([{"a": 5}, 2, 3])),
            (json!({"op": "test", "path": "/list/-1", "value": 3}), json!([{"a": 1}, 2, 3])),
            (json!({"op": "copy", "from": "/-1", "path": "/list/-"}), json!([{"a": 1}, 2, 3, 0])),
        ] {
            let patched = json_patch(&current, &json!([operation])).expect("a patched object");
            assert_eq!(patched["list"], expected, "{operation}");
        }
        let before_the_start = json!([{"op": "remove", "path": "/list/-4"}]);
        assert_eq!(refusal(json_patch(&current, &before_the_start)).0, 422);
    }

    /// S5: a body of another form is a bad request, and too many operations are too large.
    #[test]
    fn a_malformed_json_patch_is_refused() {
        let refused = refusal(json_patch(&json!({}), &json!({"a": 1})));
        let message = "error decoding patch: json: cannot unmarshal object into Go value of type \
            []handlers.jsonPatchOp";
        assert_eq!(refused, (400, message.to_string()));
        assert_eq!(refusal(json_patch(&json!({}), &json!([1]))).0, 400);
        let test = json!({"op": "test", "path": "/a", "value": null});
        assert!(json_patch(&json!({}), &Value::from(vec![test.clone(); 10_000])).is_ok());
        assert_eq!(refusal(json_patch(&json!({}), &Value::from(vec![test; 10_001]))).0, 413);
    }

    /// S5: copies of copies exhaust neither the memory nor the stack.
    #[test]
    fn a_json_patch_is_limited_in_size_and_depth() {
        let current = json!({"a": "x".repeat(1000), "b": {}});
        let swell: Vec<Value> =
            (0..40).map(|i| json!({"op": "copy", "from": "", "path": format!("/b/{i}")})).collect();
        assert_eq!(refusal(json_patch(&current, &Value::from(swell))).0, 422);
        let mut path = String::new();
        let deepen: Vec<Value> = (0..1000)
            .map(|_| {
                path.push_str("/a");
                json!({"op": "add", "path": path, "value": {}})
            })
            .collect();
        assert_eq!(refusal(json_patch(&json!({}), &Value::from(deepen))).0, 422);
        let nest: Vec<Value> = (0..14)
            .map(|i| json!({"op": "copy", "from": "", "path": "/a".repeat(1 << i) + "/a"}))
            .collect();
        assert_eq!(refusal(json_patch(&json!({"a": {}}), &Value::from(nest))).0, 422);
        let to_and_fro: Vec<Value> = (0..5000)
            .flat_map(|_| {
                [
                    json!({"op": "move", "from": "/a", "path": "/b/c/d"}),
                    json!({"op": "move", "from": "/b/c/d", "path": "/a"}),
                ]
            })
            .collect();
        let large: Value = (0..20_000).map(|i| json!({"i": i})).collect();
        let current = json!({"a": large, "b": {"c": {}}});
        assert_eq!(json_patch(&current, &Value::from(to_and_fro)), Ok(current));
    }

    /// S5: objects merge, null deletes, lists are replaced.
    #[test]
    fn a_merge_patch_merges_objects_and_replaces_the_rest() {
        let current = json!({"a": {"keep": 1, "drop": 2}, "list": [1, 2], "scalar": 1});
        let patch = json!({"a": {"drop": null, "new": {"null": null}}, "list": [3], "scalar": {}});
        let expected = json!({"a": {"keep": 1, "new": {}}, "list": [3], "scalar": {}});
        assert_eq!(merge_patch(&current, &patch), Ok(expected));
        let message = "error decoding patch: json: cannot unmarshal array into Go value of type \
            map[string]interface {}";
        assert_eq!(refusal(merge_patch(&current, &json!([]))), (400, message.to_string()));
    }

    fn pointer() -> impl Strategy<Value = String> {
        let tokens = ["a", "list", "0", "1", "-1", "-", "-9", "", "~0", "~1", "~", "01"];
        prop::collection::vec(prop::sample::select(tokens.to_vec()), 0..4)
            .prop_map(|tokens| tokens.iter().map(|token| format!("/{token}")).collect())
    }

    fn operation() -> impl Strategy<Value = Value> {
        let names = ["add", "remove", "replace", "move", "copy", "test", "invent"];
        let values = vec![json!(null), json!(1), json!([1, [2]]), json!({"a": {"list": [0]}})];
        (prop::sample::select(names.to_vec()), pointer(), pointer(), prop::sample::select(values))
            .prop_map(|(op, path, from, value)| {
                json!({"op": op, "path": path, "from": from, "value": value})
            })
    }

    // PROPTEST_CASES raises the number of cases.
    proptest! {
        /// S5: any operations are applied or refused, and a removal undoes an addition.
        #[test]
        fn no_json_patch_panics(
            operations in prop::collection::vec(operation(), 0..12),
            at in pointer(),
        ) {
            let current = json!({
                "a": {"list": [1, {"a": 2}]}, "list": [[], "x"], "": {"/": 1, "~": 2},
            });
            let done = json_patch(&current, &Value::from(operations)).unwrap_or(current);
            let add = json!([{"op": "add", "path": at, "value": 7}]);
            let test = json!([{"op": "test", "path": at, "value": null}]);
            let fits = json_patch(&done, &test).is_ok();
            if fits && !at.is_empty() && !at.ends_with('-') && !at.contains("/-")
                && let Ok(added) = json_patch(&done, &add)
            {
                let removed = json_patch(&added, &json!([{"op": "remove", "path": at}]));
                let replaced_null = done.pointer(&at).is_some_and(Value::is_null);
                prop_assert!(replaced_null || removed == Ok(done));
            }
        }
    }
}
