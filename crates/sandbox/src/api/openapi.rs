//! OpenAPI documents: schemas for `kubectl explain` and for validation by clients, and paths from
//! which clients learn the supported operations (S3). Each document is generated on the first
//! request for it.

mod document;
mod gnostic;
mod schemas;

#[cfg(test)]
pub(crate) use schemas::definitions;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Value, json};

use super::discovery::{self, GIT_VERSION, GroupVersion};
use crate::kind::Kinds;

/// All documents, each generated on first use.
#[derive(Default)]
pub(crate) struct OpenApi {
    v2: OnceLock<Value>,
    v2_json: OnceLock<Bytes>,
    v2_protobuf: OnceLock<Bytes>,
    v3: OnceLock<BTreeMap<String, Bytes>>,
}

impl OpenApi {
    pub(crate) fn v2_json(&self, kinds: &Kinds) -> Bytes {
        self.v2_json.get_or_init(|| Bytes::from(self.v2(kinds).to_string())).clone()
    }

    pub(crate) fn v2_protobuf(&self, kinds: &Kinds) -> Bytes {
        self.v2_protobuf.get_or_init(|| gnostic::encode(self.v2(kinds)).into()).clone()
    }

    fn v2(&self, kinds: &Kinds) -> &Value {
        self.v2.get_or_init(|| document::v2(kinds))
    }

    /// The document at `/openapi/v3`: the URLs of the other documents, with a hash that changes
    /// with their content.
    pub(crate) fn v3_index(&self, kinds: &Kinds) -> Value {
        let paths: serde_json::Map<String, Value> = discovery::group_versions(kinds)
            .iter()
            .map(|group_version| {
                let path = v3_path(group_version);
                // The schemas are part of this build, so the version identifies their content.
                let hash = discovery::hash(&format!("{GIT_VERSION} {path}")).replace('=', "");
                let hash: String = hash.bytes().map(|byte| format!("{byte:02X}")).collect();
                let url = format!("/openapi/v3/{path}?hash={hash}");
                (path, json!({"serverRelativeURL": url}))
            })
            .collect();
        json!({"paths": paths})
    }

    /// The document at `/openapi/v3/PATH`; `None` if there is no such group and version.
    pub(crate) fn v3_document(&self, kinds: &Kinds, path: &str) -> Option<Bytes> {
        let documents = self.v3.get_or_init(|| {
            let schemas = schemas::definitions();
            discovery::group_versions(kinds)
                .iter()
                .map(|group_version| {
                    let document = document::v3(kinds, group_version, &schemas);
                    (v3_path(group_version), Bytes::from(document.to_string()))
                })
                .collect()
        });
        documents.get(path).cloned()
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

    fn v3(path: &str) -> Value {
        let bytes = OpenApi::default().v3_document(&Kinds::default(), path).expect("a document");
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

        let v2 = document::v2(&Kinds::default());
        let spec = &v2["definitions"]["io.k8s.api.apps.v1.DaemonSetSpec"];
        let strategy = &spec["properties"]["updateStrategy"];
        assert_eq!(strategy["$ref"], "#/definitions/io.k8s.api.apps.v1.DaemonSetUpdateStrategy");
    }

    /// S3: every reference in a document resolves within the document.
    #[test]
    fn schema_references_resolve() {
        let kinds = Kinds::default();
        let mut documents = vec![document::v2(&kinds)];
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
