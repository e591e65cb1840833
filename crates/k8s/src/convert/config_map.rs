//! ConfigMaps: the digest of their content, and whose copies they are (G58).

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{COPY_OF_ANNOTATION, ConfigMap, CopyOrigin};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::wire::{Metadata, TextMap};
use super::{Controller, Error};
use crate::go_json;
use crate::json_path::read_first;

#[derive(Deserialize)]
struct WireConfigMap<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    immutable: Option<bool>,
    #[serde(borrow)]
    data: Option<TextMap<'a>>,
    #[serde(borrow, rename = "binaryData")]
    binary_data: Option<TextMap<'a>>,
}

/// Decodes a ConfigMap.
///
/// # Errors
/// If a field has a wrong type, or the name is missing.
pub fn config_map(json: &[u8]) -> Result<ConfigMap, Error> {
    let error = |cause: String| Error::new("ConfigMap", json, cause);
    let text_of_json = go_json::text(json);
    let wire: WireConfigMap =
        serde_json::from_str(&text_of_json).map_err(|e| error(e.to_string()))?;
    let name = wire.metadata.name().map_err(|e| error(e.to_owned()))?;
    let owner = match wire.metadata.controller() {
        Controller::DaemonSet(uid) => Some(Some(uid)),
        Controller::None => Some(None),
        Controller::Foreign => None,
    };
    let annotations: Option<Option<TextMap>> =
        read_first(&text_of_json, &["metadata", "annotations"]).ok().flatten();
    let source = annotations.flatten();
    let source = source.as_ref().and_then(|annotations| annotations.get(COPY_OF_ANNOTATION));
    Ok(ConfigMap {
        name: name.into(),
        uid: wire.metadata.uid(),
        terminating: wire.metadata.deletion_timestamp.is_some(),
        digest: digest(wire.data.as_ref(), wire.binary_data.as_ref()),
        copy_of: owner
            .filter(|_| wire.immutable == Some(true))
            .and_then(|owner| Some(CopyOrigin { owner, source: source?.into() })),
    })
}

/// Identifies the content of a ConfigMap: equal ones have the same keys with the same values.
fn digest(data: Option<&TextMap<'_>>, binary_data: Option<&TextMap<'_>>) -> Arc<str> {
    let mut hasher = Sha256::new();
    for entries in [data, binary_data] {
        let sorted: BTreeMap<&str, &str> = entries.into_iter().flat_map(TextMap::iter).collect();
        hasher.update((sorted.len() as u64).to_le_bytes());
        for part in sorted.into_iter().flat_map(|(key, value)| [key, value]) {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    let bytes = hasher.finalize();
    bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(value: &Value) -> ConfigMap {
        config_map(value.to_string().as_bytes()).unwrap()
    }

    fn with(data: Value, binary_data: Value) -> ConfigMap {
        of(&json!({ "metadata": { "name": "m", "namespace": "ns", "uid": "u" },
            "data": data, "binaryData": binary_data }))
    }

    /// G58: nothing but keys and values decides about the digest.
    #[test]
    fn the_digest_is_that_of_keys_and_values() {
        let one = with(json!({ "a": "1", "b": "2" }), Value::Null);
        assert_eq!(one.digest, with(json!({ "b": "2", "a": "1" }), json!({})).digest);
        for other in [
            with(json!({ "a": "1", "b": "3" }), Value::Null),
            with(json!({ "a": "1b", "": "2" }), Value::Null),
            with(json!({ "a": "1" }), json!({ "b": "2" })),
            with(Value::Null, Value::Null),
        ] {
            assert_ne!(one.digest, other.digest);
        }
    }

    /// G58: a copy is immutable, names what it was copied from, and belongs to a DaemonSet, or did.
    #[test]
    fn only_an_immutable_object_with_an_origin_is_a_copy() {
        let owner = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d",
            "controller": true });
        let of_owner = |owners: Value, immutable: bool, source: Value| {
            of(&json!({ "metadata": { "name": "m-h", "namespace": "ns", "uid": "u",
                "ownerReferences": owners, "annotations": { COPY_OF_ANNOTATION: source } },
                "immutable": immutable }))
        };
        let copy = of_owner(json!([owner]), true, json!("m"));
        let origin = |owner| Some(CopyOrigin { owner, source: "m".into() });
        assert_eq!(copy.copy_of, origin(Some("d".into())));
        let left_over = of_owner(json!([]), true, json!("m"));
        assert_eq!(left_over.copy_of, origin(None), "its DaemonSet is gone without it");
        for other in [
            of_owner(json!([owner]), false, json!("m")),
            of_owner(
                json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p",
                "controller": true }]),
                true,
                json!("m"),
            ),
            of_owner(json!([owner]), true, Value::Null),
        ] {
            assert_eq!(other.copy_of, None);
        }
    }
}
