//! Decodes, defaults and validates the node agents in `examples/agents/`.

use std::fs;
use std::path::PathBuf;

use crate::json::Value;

use crate::kinds;
use crate::{defaults, validation};

/// S9, S13: the manifests of popular node agents are valid.
#[test]
fn popular_node_agents_are_valid() {
    let kinds = kinds::built_in();
    let mut daemon_sets = 0;
    for (file, document) in documents() {
        let text = |name: &str| document[name].as_str().unwrap_or_default();
        let Some(kind) = kinds.by_api_version(text("apiVersion"), text("kind")) else {
            panic!("{file}: {} is not served", text("kind"));
        };
        let mut object = document.clone();
        assert_eq!(validation::decode(kind, &object), Ok(()), "{file}: {}", kind.kind);
        assert_eq!(
            validation::unknown_fields(kind, &object),
            Vec::<String>::new(),
            "{file}: {}",
            kind.kind
        );
        defaults::apply(kind, &mut object);
        assert_eq!(validation::on_create(kind, &object), vec![], "{file}: {}", kind.kind);
        if kind.kind == "DaemonSet" {
            daemon_sets += 1;
            pod_of_the_template_is_valid(&file, &object);
        }
    }
    assert_eq!(daemon_sets, 10);
}

/// The pod that a controller creates from the template must be valid, too.
fn pod_of_the_template_is_valid(file: &str, daemon_set: &Value) {
    let mut pod = daemon_set["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "agent-x7k2p".into();
    pod["metadata"]["namespace"] = daemon_set["metadata"]["namespace"].clone();
    if pod["spec"]["serviceAccountName"].is_null() {
        pod["spec"]["serviceAccountName"] = "default".into();
    }
    let kind = &crate::kinds::POD;
    defaults::apply(kind, &mut pod);
    assert_eq!(validation::on_create(kind, &pod), vec![], "{file}");
}

fn documents() -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/agents");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let mut documents = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("the file can be read");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let parsed: Vec<Value> =
            crate::yaml::documents(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        documents.extend(parsed.into_iter().map(|document| (name.clone(), document)));
    }
    documents
}
