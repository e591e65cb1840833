//! The pod that makes a kubelet pull the images of a template (G55), and whether a node has them
//! already.
//!
//! It has a container for each image, whose command lies under a file and so exists in no image:
//! the kubelet pulls, the start fails, and nothing of the image runs. One form serves all versions
//! of Kubernetes; image volumes would need an image that is on the node and can run.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{PULLS_FOR_LABEL, PULLS_OF_LABEL};
use everynode_core::plan::NewPuller;
use serde_json::{Map, Value, json};

use crate::json::Json;
use crate::patch::Owner;

/// A command that no image has: a file is where its folder would be.
pub const COMMAND: &str = "/dev/null/everynode-only-pulls-the-image";

/// Maximum length of the name of a puller, which is also the host name of its pod.
const NAME_LENGTH_MAX: usize = 63;

/// The fields of a pod's `spec` that decide where it may run, and how images are pulled.
const FROM_TEMPLATE: [&str; 5] =
    ["hostNetwork", "imagePullSecrets", "os", "runtimeClassName", "tolerations"];

/// An image that a template names, as far as a pull depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Image<'a> {
    name: &'a str,
    /// `imagePullPolicy`; empty by default.
    pull_policy: &'a str,
}

/// The name of the puller of a node: the names of the revision and of the node, its dots replaced
/// by hyphens, cut to the length of a label, and a hash. The hash tells the pullers of two
/// DaemonSets apart, even if one of them adopts the revision of the other.
pub fn puller_name(owner: &Owner, new: &NewPuller) -> String {
    let (revision, node) = (new.revision.name.as_str(), new.node.as_str());
    let hash = format!("-{:08x}", fnv(&format!("{}/{revision}/{node}", owner.uid)) & 0xffff_ffff);
    let plain = format!("{revision}-{}", node.replace('.', "-"));
    let kept = plain.floor_char_boundary(NAME_LENGTH_MAX - hash.len());
    // A part of a name must not end with these.
    format!("{}{hash}", plain[..kept].trim_end_matches(['-', '.']))
}

/// True if the pod was made as a puller, whatever admission or somebody has made of it since: no
/// other pod has this command.
pub fn was_puller(pod: &Value) -> bool {
    let containers = pod.items_at(&["spec", "containers"]);
    containers.iter().any(|container| container["command"][0] == COMMAND)
}

/// The pod to create. It has neither the labels nor the service account of the template, runs
/// without rights, and requests nothing.
pub fn puller(owner: &Owner, template: &Value, new: &NewPuller) -> Value {
    let template = template.get("spec").unwrap_or(&Value::Null);
    let is_windows = template.string_at(&["os", "name"]) == "windows";
    let container = |(image, name): (Image<'_>, &str)| {
        let mut container = json!({
            "name": name,
            "image": image.name,
            "command": [COMMAND],
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
        });
        if is_windows {
            // The API server refuses what Windows does not have.
            container["securityContext"] = json!({});
        }
        if !image.pull_policy.is_empty() {
            container["imagePullPolicy"] = image.pull_policy.into();
        }
        container
    };
    let linux = json!({
        "runAsNonRoot": true,
        "runAsUser": 65_534,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    let mut spec = Map::from_iter([
        ("nodeName".to_owned(), new.node.as_str().into()),
        ("containers".to_owned(), images(template).into_iter().map(container).collect()),
        ("restartPolicy".to_owned(), "Never".into()),
        ("automountServiceAccountToken".to_owned(), false.into()),
        ("enableServiceLinks".to_owned(), false.into()),
        ("terminationGracePeriodSeconds".to_owned(), 0.into()),
        (
            "securityContext".to_owned(),
            if is_windows { json!({ "runAsNonRoot": true }) } else { linux },
        ),
    ]);
    for key in FROM_TEMPLATE {
        if let Some(value) = template.get(key).filter(|value| !value.is_null()) {
            spec.insert(key.to_owned(), value.clone());
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": puller_name(owner, new),
            "namespace": owner.namespace,
            "labels": {
                PULLS_FOR_LABEL: owner.uid.to_string(),
                PULLS_OF_LABEL: new.hash.as_str(),
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "name": new.revision.name.as_str(),
                "uid": new.revision.uid.to_string(),
                "controller": true,
            }],
        },
        "spec": spec,
    })
}

/// True if the kubelet states in the node's `status.images` that it has all images of the template
/// and would pull none again. It states the largest ones only.
pub fn are_images_present(template: &Value, node: &Value) -> bool {
    let listed = node.items_at(&["status", "images"]).iter();
    let names = listed.flat_map(|image| image.items_at(&["names"])).filter_map(Json::string);
    let present: BTreeSet<&str> = names.collect();
    let template = template.get("spec").unwrap_or(&Value::Null);
    let is_present = |image: &Image<'_>| match image.pull_policy {
        "Always" => false,
        "" if full_name(image.name).ends_with(":latest") => false,
        _ => present.contains(&*full_name(image.name)),
    };
    images(template).keys().all(is_present)
}

/// The images of all containers, each once, with the name of the first container that has it.
fn images(spec: &Value) -> BTreeMap<Image<'_>, &str> {
    let containers = ["initContainers", "containers"].map(|kind| spec.items_at(&[kind]));
    let mut images = BTreeMap::new();
    for container in containers.into_iter().flatten() {
        if let Some(image) = image(container) {
            images.entry(image).or_insert_with(|| container.string_at(&["name"]));
        }
    }
    images
}

fn image(container: &Value) -> Option<Image<'_>> {
    let name = container.string_at(&["image"]);
    let pull_policy = container.string_at(&["imagePullPolicy"]);
    (!name.is_empty()).then_some(Image { name, pull_policy })
}

/// The name of an image with its registry, and its tag or digest, as container runtimes state it.
fn full_name(image: &str) -> String {
    let (repository, digest) = match image.split_once('@') {
        Some((repository, digest)) => (repository, Some(digest)),
        None => (image, None),
    };
    let (path, tag) = match repository.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, tag),
        Some(_) | None => (repository, "latest"),
    };
    let has_registry = path
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    let path = match (has_registry, path.contains('/')) {
        (true, _) => path.to_owned(),
        (false, true) => format!("docker.io/{path}"),
        (false, false) => format!("docker.io/library/{path}"),
    };
    digest.map_or_else(|| format!("{path}:{tag}"), |digest| format!("{path}@{digest}"))
}

/// FNV-1a with 64 bits: the same in every version of the program.
fn fnv(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_core::api::{ResourceVersion, Uid};
    use everynode_core::plan::RevisionReference;

    fn new(node: &str) -> NewPuller {
        let revision = RevisionReference {
            name: "agent-5d8f".into(),
            uid: Uid::new("r"),
            resource_version: ResourceVersion(1),
        };
        NewPuller { node: node.into(), hash: "5d8f".into(), revision, r#override: None }
    }

    fn puller_of(template: &Value) -> Value {
        let uid = Uid::new("ds");
        puller(&Owner { namespace: "ns", name: "agent", uid: &uid }, template, &new("a"))
    }

    /// G55: of the template it has only what images and nodes need.
    #[test]
    fn a_puller_has_each_image_once_and_nothing_that_gives_rights() {
        let pod = puller_of(&json!({
            "metadata": { "labels": { "app": "agent" } },
            "spec": {
                "serviceAccountName": "powerful",
                "hostNetwork": true,
                "hostPID": true,
                "imagePullSecrets": [{ "name": "s" }],
                "tolerations": [{ "operator": "Exists" }],
                "volumes": [{ "name": "v", "hostPath": { "path": "/" } }],
                "initContainers": [{ "name": "i", "image": "b:1", "imagePullPolicy": "Always" }],
                "containers": [
                    { "name": "c", "image": "a:1", "securityContext": { "privileged": true } },
                    { "name": "d", "image": "a:1" },
                ],
            },
        }));
        let spec = &pod["spec"];
        let images: Vec<_> = spec["containers"].as_array().unwrap().iter().collect();
        assert_eq!(images.len(), 2, "{pod}");
        assert_eq!((&images[0]["image"], &images[1]["image"]), (&json!("a:1"), &json!("b:1")));
        assert_eq!((&images[0]["name"], &images[1]["name"]), (&json!("c"), &json!("i")));
        assert_eq!(images[1]["imagePullPolicy"], "Always");
        assert!(images.iter().all(|it| it["command"] == json!([COMMAND])), "{pod}");
        assert!(!pod.to_string().contains("privileged") && !pod.to_string().contains("hostPath"));
        assert_eq!(pod["metadata"]["labels"].as_object().unwrap().len(), 2, "{pod}");
        let given = ["serviceAccountName", "hostPID", "volumes"].map(|key| spec.get(key));
        assert_eq!(given, [None; 3]);
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(spec["hostNetwork"], true);
    }

    /// G55: Windows knows no user by number, and none of the security context of containers.
    #[test]
    fn a_puller_for_windows_has_no_field_of_linux() {
        let template =
            json!({ "spec": { "os": { "name": "windows" }, "containers": [{ "image": "a" }] } });
        let pod = puller_of(&template);
        assert_eq!(pod["spec"]["securityContext"], json!({ "runAsNonRoot": true }));
        assert_eq!(pod["spec"]["containers"][0]["securityContext"], json!({}));
    }

    /// G55: the same node has the same name; two nodes, and two DaemonSets, have two.
    #[test]
    fn the_name_of_a_puller_is_that_of_its_revision_and_node() {
        let name = |node: &str, uid: &str| {
            let uid = Uid::new(uid);
            puller_name(&Owner { namespace: "ns", name: "agent", uid: &uid }, &new(node))
        };
        assert!(name("a", "u").starts_with("agent-5d8f-a-"), "{}", name("a", "u"));
        assert_eq!(name("a", "u"), name("a", "u"));
        assert_ne!(name("a", "u"), name("a", "v"));
        assert_ne!(name("a.b", "u"), name("a-b", "u"));
        let long = name(&"n".repeat(200), "u");
        assert!(long.len() <= NAME_LENGTH_MAX && !long.contains('.'), "{long}");
    }

    /// G55: names are compared as runtimes state them; what may move is pulled in any case.
    #[test]
    fn the_images_that_a_node_lists_are_not_pulled() {
        let node = json!({ "status": { "images": [
            { "names": ["docker.io/library/a@sha256:1", "docker.io/library/a:1"] },
            { "names": ["registry:5000/x/b:2"] },
            { "names": ["docker.io/library/a:latest"] },
        ] } });
        for (image, policy, is_present) in [
            ("a:1", "", true),
            ("a:1", "IfNotPresent", true),
            ("a:1", "Always", false),
            ("a:2", "", false),
            ("a", "", false),
            ("a", "IfNotPresent", true),
            ("registry:5000/x/b:2", "", true),
            ("a:1@sha256:1", "", true),
            ("x/a:1", "", false),
        ] {
            let template = json!({ "spec": { "containers": [
                { "image": image, "imagePullPolicy": policy },
            ] } });
            assert_eq!(are_images_present(&template, &node), is_present, "{image} {policy}");
        }
    }
}
