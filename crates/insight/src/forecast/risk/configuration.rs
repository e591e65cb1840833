//! ConfigMaps and Secrets that pods read: they are no part of a revision.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Risk, RiskKind, everywhere};

/// The number of names in the message.
const NAMES_MAX: usize = 5;

/// A ConfigMap that every namespace has, and that a rollout does not concern.
const OF_CLUSTER: &str = "kube-root-ca.crt";

/// The risk that the template names configuration whose name stays when its content changes.
pub(super) fn outside_of_revision(template: &Value) -> Option<Risk> {
    let names = names(&template["spec"]);
    if names.is_empty() {
        return None;
    }
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    let shown: Vec<String> = names.into_iter().take(NAMES_MAX).chain(more).collect();
    // As Helm's charts have it, a checksum in the template changes with the content.
    let annotations = template["metadata"]["annotations"].as_object();
    let has_checksum = annotations
        .is_some_and(|annotations| annotations.keys().any(|key| key.contains("checksum")));
    let effect = match has_checksum {
        true => "going back to an older revision does not bring back their content",
        false => {
            "a change of their content replaces no pod, and going back to an older revision does \
             not bring it back"
        }
    };
    let message = format!("configuration outside of the revision: {}: {effect}", shown.join(", "));
    Some(everywhere(RiskKind::ConfigurationOutside, message))
}

fn names(spec: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |kind: &str, name: &Value| {
        let name = name.as_str().filter(|name| *name != OF_CLUSTER && !has_hash(name));
        names.extend(name.map(|name| format!("{kind} {name}")));
    };
    for volume in items(&spec["volumes"]) {
        add("ConfigMap", &volume["configMap"]["name"]);
        add("Secret", &volume["secret"]["secretName"]);
        for source in items(&volume["projected"]["sources"]) {
            add("ConfigMap", &source["configMap"]["name"]);
            add("Secret", &source["secret"]["name"]);
        }
    }
    for container in items(&spec["initContainers"]).chain(items(&spec["containers"])) {
        for source in items(&container["envFrom"]) {
            add("ConfigMap", &source["configMapRef"]["name"]);
            add("Secret", &source["secretRef"]["name"]);
        }
        for variable in items(&container["env"]) {
            add("ConfigMap", &variable["valueFrom"]["configMapKeyRef"]["name"]);
            add("Secret", &variable["valueFrom"]["secretKeyRef"]["name"]);
        }
    }
    names
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// True if the name ends with a hash of the content, as kustomize's generators make it.
fn has_hash(name: &str) -> bool {
    const LENGTH: usize = 10;
    const LETTERS: &str = "2456789bcdfghkmt";
    let hash = name.rsplit_once('-').map(|(_, hash)| hash);
    hash.is_some_and(|hash| hash.len() == LENGTH && hash.chars().all(|c| LETTERS.contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn configuration_with_a_fixed_name_is_outside_of_the_revision() {
        let message = |template: &Value| outside_of_revision(template).map(|risk| risk.message);
        let mut template = json!({"metadata": {}, "spec": {
            "volumes": [
                {"name": "a", "configMap": {"name": "agent"}},
                {"name": "b", "configMap": {"name": "agent-2fk5g7d9mt"}},
                {"name": "c", "projected": {"sources": [
                    {"configMap": {"name": "kube-root-ca.crt"}}, {"secret": {"name": "certs"}},
                ]}},
            ],
            "initContainers": [{"envFrom": [{"secretRef": {"name": "login"}}]}],
            "containers": [{"env": [
                {"name": "X", "value": "1"},
                {"name": "Y", "valueFrom": {"configMapKeyRef": {"name": "agent", "key": "y"}}},
            ]}],
        }});
        assert_eq!(
            message(&template).as_deref(),
            Some(
                "configuration outside of the revision: ConfigMap agent, Secret certs, Secret \
                 login: a change of their content replaces no pod, and going back to an older \
                 revision does not bring it back"
            )
        );
        template["metadata"]["annotations"] = json!({"checksum/config": "1"});
        let found = message(&template).expect("a risk");
        assert!(!found.contains("replaces no pod"), "{found}");
        assert_eq!(message(&json!({"spec": {"containers": [{"name": "a"}]}})), None);
    }
}
