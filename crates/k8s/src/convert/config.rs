//! The ConfigMaps and Secrets that a template names, and the checksums of their content that its
//! pods are annotated with.

use std::collections::BTreeSet;
use std::sync::Arc;

use everynode_core::api::{ConfigObject, StoredConfig};

use crate::in_place::CHECKSUM;
use crate::json::Json;

/// A ConfigMap that every namespace has, and that a rollout does not concern.
const OF_CLUSTER: &str = "kube-root-ca.crt";

/// Decodes the configuration of a template that is stored elsewhere, as its volumes and the
/// environments of its containers name it (G53); `None` if they name none. Malformed parts are left
/// out: the API server refuses them.
pub fn stored_config(template: &impl Json) -> Option<Arc<StoredConfig>> {
    let mut config = StoredConfig::default();
    let mut required = BTreeSet::new();
    for volume in template.items_at(&["spec", "volumes"]) {
        let projected = volume.items_at(&["projected", "sources"]).iter();
        let sources = [volume].into_iter().chain(projected);
        for source in sources {
            add(&mut config, &mut required, source, "configMap", "secret");
        }
    }
    for field in ["containers", "initContainers"] {
        for container in template.items_at(&["spec", field]) {
            for source in container.items_at(&["envFrom"]) {
                add(&mut config, &mut required, source, "configMapRef", "secretRef");
            }
            for variable in container.items_at(&["env"]) {
                let Some(source) = variable.field("valueFrom") else { continue };
                let fields = ("configMapKeyRef", "secretKeyRef");
                add(&mut config, &mut required, source, fields.0, fields.1);
            }
        }
    }
    if config.objects.is_empty() && config.hashed.is_empty() {
        return None;
    }
    let all = config.objects.union(&config.hashed);
    config.optional = all.filter(|object| !required.contains(object)).cloned().collect();
    let annotations = template.at(&["metadata", "annotations"]).into_iter().flat_map(Json::fields);
    let checksums = annotations.filter(|(key, _)| key.to_ascii_lowercase().contains(CHECKSUM));
    config.checksums =
        checksums.map(|(key, value)| (key.into(), value.string().unwrap_or("").into())).collect();
    Some(Arc::new(config))
}

/// Adds the objects that a source names in these fields, and which of them must exist.
fn add(
    config: &mut StoredConfig,
    required: &mut BTreeSet<ConfigObject>,
    source: &impl Json,
    config_map: &str,
    secret: &str,
) {
    let is_optional = |field: &str| {
        let optional = source.field(field).and_then(|object| object.field("optional"));
        optional.and_then(Json::boolean) == Some(true)
    };
    let name = |field: &str| -> Option<Arc<str>> {
        let object = source.field(field)?;
        // A volume of a Secret has its own name for the name.
        let name = object.field("name").or_else(|| object.field("secretName"))?.string()?;
        (!name.is_empty() && name != OF_CLUSTER).then(|| name.into())
    };
    let object = |field: &str, new: fn(Arc<str>) -> ConfigObject| {
        name(field).map(|name| (has_hash(&name), is_optional(field), new(name)))
    };
    let config_map = object(config_map, ConfigObject::ConfigMap);
    for (has_hash, is_optional, object) in
        config_map.into_iter().chain(object(secret, ConfigObject::Secret))
    {
        if !is_optional {
            required.insert(object.clone());
        }
        if has_hash { &mut config.hashed } else { &mut config.objects }.insert(object);
    }
}

/// True if the name ends with a hash of the content, as kustomize's generators make it, or with
/// eight or more hexadecimal digits.
fn has_hash(name: &str) -> bool {
    const KUSTOMIZE: (usize, &str) = (10, "2456789bcdfghkmt");
    let Some((_, hash)) = name.rsplit_once('-') else { return false };
    let is_kustomize = hash.len() == KUSTOMIZE.0 && hash.chars().all(|c| KUSTOMIZE.1.contains(c));
    let is_hex = hash.len() >= 8 && hash.chars().all(|c| c.is_ascii_hexdigit());
    is_kustomize || is_hex && hash.chars().any(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// G53: references of volumes and environments count, those with a hash of the content apart,
    /// and checksums by their keys.
    #[test]
    fn references_of_volumes_and_environments_count() {
        let template = json!({
            "metadata": { "annotations": { "checksum/config": "1", "other": "2",
                "cilium.io/cilium-configmap-checksum": "3" } },
            "spec": {
                "volumes": [
                    { "name": "a", "configMap": { "name": "map" } },
                    { "name": "b", "secret": { "secretName": "key" } },
                    { "name": "c", "projected": { "sources": [
                        { "configMap": { "name": "part" } }, { "secret": { "name": "token" } },
                    ] } },
                    { "name": "d", "hostPath": { "path": "/" } },
                    { "name": "e", "configMap": { "name": "" } },
                    { "name": "f", "configMap": { "name": "agent-2fk5g7d9mt" } },
                    { "name": "h", "secret": { "secretName": "agent-1a2b3c4d" } },
                    { "name": "g", "configMap": { "name": "kube-root-ca.crt" } },
                    7,
                ],
                "initContainers": [{ "envFrom": [{ "configMapRef": { "name": "env" } }] }],
                "containers": [{ "env": [
                    { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "one" } } },
                    { "name": "B", "valueFrom": { "secretKeyRef": { "name": "two" } } },
                    { "name": "C", "value": "c" },
                ] }],
            },
        });
        let config = stored_config(&template).unwrap();
        let named: Vec<String> = config.objects.iter().map(ToString::to_string).collect();
        let expected = ["env", "map", "one", "part"].map(|name| format!("ConfigMap {name}"));
        let secrets = ["key", "token", "two"].map(|name| format!("Secret {name}"));
        assert_eq!(named, [&expected[..], &secrets[..]].concat());
        assert_eq!((config.checksums.len(), config.hashed.len()), (2, 2));
        assert_eq!(stored_config(&json!({ "spec": { "containers": [{}] } })), None);
    }
}
