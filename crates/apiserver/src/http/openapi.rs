//! OpenAPI documents: schemas for `kubectl explain` and for validation by clients, and in v3 paths
//! from which clients learn the supported operations (S3, S15). Each document is generated on the
//! first request for it.

mod document;
mod gnostic;
mod schemas;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use super::discovery::{self, GroupVersion, git_version};
use crate::json::{Map, Value, json};
use crate::kinds::Kinds;
use crate::schema;

/// All documents, each generated on first use, and again after a change of custom kinds.
#[derive(Default)]
pub(crate) struct OpenApi {
    /// The schemas of the built-in types.
    definitions: OnceLock<Map>,
    documents: Mutex<Documents>,
}

#[derive(Default)]
struct Documents {
    /// That of the kinds which the documents describe.
    generation: u64,
    v2: Option<Arc<Value>>,
    v2_json: Option<Bytes>,
    v2_protobuf: Option<Bytes>,
    v3: BTreeMap<String, Bytes>,
}

impl OpenApi {
    pub(crate) fn v2_json(&self, kinds: &Kinds) -> Bytes {
        let known = self.of(kinds).v2_json.clone();
        known.unwrap_or_else(|| {
            let bytes = Bytes::from(self.v2(kinds).to_string());
            self.of(kinds).v2_json = Some(bytes.clone());
            bytes
        })
    }

    pub(crate) fn v2_protobuf(&self, kinds: &Kinds) -> Bytes {
        let known = self.of(kinds).v2_protobuf.clone();
        known.unwrap_or_else(|| {
            let bytes = Bytes::from(gnostic::encode(&self.v2(kinds)));
            self.of(kinds).v2_protobuf = Some(bytes.clone());
            bytes
        })
    }

    fn v2(&self, kinds: &Kinds) -> Arc<Value> {
        let known = self.of(kinds).v2.clone();
        known.unwrap_or_else(|| {
            let document = Arc::new(document::v2(kinds, self.definitions()));
            self.of(kinds).v2 = Some(Arc::clone(&document));
            document
        })
    }

    /// The document at `/openapi/v3`: the URLs of the other documents, with a hash that changes
    /// with their content.
    pub(crate) fn v3_index(&self, kinds: &Kinds) -> Value {
        let paths: Map = discovery::group_versions(kinds)
            .iter()
            .map(|group_version| {
                let path = v3_path(group_version);
                // The other schemas are part of this build, so the version identifies them.
                let is_custom =
                    kinds.iter().any(|it| it.custom.is_some() && group_version.is_of(it));
                let generation = if is_custom { kinds.generation() } else { 0 };
                let hash = discovery::hash(&format!("{} {path} {generation}", git_version()));
                let hash = hash.replace('=', "");
                let hash: String = hash.bytes().map(|byte| format!("{byte:02X}")).collect();
                let url = format!("/openapi/v3/{path}?hash={hash}");
                (path, json!({"serverRelativeURL": url}))
            })
            .collect();
        json!({"paths": paths})
    }

    /// The document at `/openapi/v3/PATH`; `None` if there is no such group and version.
    pub(crate) fn v3_document(&self, kinds: &Kinds, path: &str) -> Option<Bytes> {
        if let Some(known) = self.of(kinds).v3.get(path) {
            return Some(known.clone());
        }
        let all = discovery::group_versions(kinds);
        let group_version = all.iter().find(|group_version| v3_path(group_version) == path)?;
        let document = document::v3(kinds, group_version, self.definitions());
        let bytes = Bytes::from(document.to_string());
        self.of(kinds).v3.insert(path.to_owned(), bytes.clone());
        Some(bytes)
    }

    fn definitions(&self) -> &Map {
        self.definitions.get_or_init(schema::definitions)
    }

    /// The documents that describe these kinds.
    fn of(&self, kinds: &Kinds) -> MutexGuard<'_, Documents> {
        let mut documents = self.documents.lock();
        if documents.generation != kinds.generation() {
            *documents = Documents { generation: kinds.generation(), ..Documents::default() };
        }
        documents
    }
}

/// `api/v1`, `apis/apps/v1`.
fn v3_path(group_version: &GroupVersion) -> String {
    let prefix = if group_version.group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", group_version.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::test_kinds;

    fn kinds() -> Kinds {
        Kinds::new(test_kinds::ALL)
    }

    fn v3(path: &str) -> Value {
        let bytes = OpenApi::default().v3_document(&kinds(), path).expect("a document");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    /// S3: `kubectl explain daemonset.spec.updateStrategy` finds its fields in both documents.
    #[test]
    fn schemas_contain_what_kubectl_explain_shows() {
        let document = v3("apis/apps/v1");
        let schemas = &document["components"]["schemas"];
        let daemon_set = &schemas["io.k8s.api.apps.v1.DaemonSet"];
        assert_eq!(
            daemon_set["x-kubernetes-group-version-kind"],
            json!([{"group": "apps", "kind": "DaemonSet", "version": "v1"}])
        );
        let strategy = &schemas["io.k8s.api.apps.v1.DaemonSetSpec"]["properties"]["updateStrategy"];
        let reference = "#/components/schemas/io.k8s.api.apps.v1.DaemonSetUpdateStrategy";
        assert_eq!(strategy["allOf"][0]["$ref"], reference);
        assert!(strategy["description"].as_str().is_some_and(|text| !text.is_empty()));

        let v2 = document::v2(&kinds(), &schema::definitions());
        let spec = &v2["definitions"]["io.k8s.api.apps.v1.DaemonSetSpec"];
        let strategy = &spec["properties"]["updateStrategy"];
        assert_eq!(strategy["$ref"], "#/definitions/io.k8s.api.apps.v1.DaemonSetUpdateStrategy");
    }

    /// S3: every reference in a document resolves within the document.
    #[test]
    fn schema_references_resolve() {
        let kinds = kinds();
        let mut documents = vec![document::v2(&kinds, &schema::definitions())];
        documents.extend(discovery::group_versions(&kinds).iter().map(|gv| v3(&v3_path(gv))));
        for document in &documents {
            let mut references = Vec::new();
            collect(document, &mut references);
            for reference in references {
                let pointer = reference.strip_prefix('#').expect("a local reference");
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
    }

    fn collect<'a>(value: &'a Value, references: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                references.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| collect(value, references));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }

    /// S3, S4: the PATCH operation of a kind lists the parameters dryRun and fieldValidation.
    #[test]
    fn patch_operations_list_their_parameters() {
        let document = v3("apis/apps/v1");
        let patch =
            &document["paths"]["/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "DaemonSet");
        for name in ["dryRun", "fieldValidation"] {
            let parameters = patch["parameters"].as_array().expect("a list");
            assert!(parameters.iter().any(|parameter| parameter["name"] == name), "{name}");
        }
        let content = &patch["requestBody"]["content"];
        assert!(content.get("application/strategic-merge-patch+json").is_some());
    }
}
