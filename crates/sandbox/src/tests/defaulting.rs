//! Runs `tests/defaulting/*.txt`: a manifest, and the object that the server returns for it.

use std::fs;
use std::path::PathBuf;

use crate::json::Value;

use crate::kinds;

/// S9, S13: objects are returned with upstream's defaults, in the form of Go's encoder.
#[test]
fn objects_are_served_with_their_defaults() {
    for name in [
        "daemon_set",
        "daemon_set_on_delete",
        "pod_on_the_host_network",
        "volumes",
        "simple",
        "kept",
    ] {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/defaulting/{name}.txt"));
        let text = fs::read_to_string(&path).expect("the golden is there");
        let (manifests, expected) =
            text.split_once("\n====\n").expect("manifests, and what becomes of them");
        let mut actual = String::new();
        for mut object in
            crate::yaml::documents::<Value>(manifests).expect("the manifests are YAML")
        {
            let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let kinds = kinds::built_in();
            let kind = kinds
                .by_api_version(&text("apiVersion"), &text("kind"))
                .expect("the kind is served");
            crate::defaults::apply(kind, &mut object);
            actual.push_str(&serde_json::to_string_pretty(&object).expect("a tree is JSON"));
            actual.push('\n');
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, format!("{manifests}\n====\n{actual}"))
                .expect("the golden can be written");
        } else {
            assert_eq!(actual, expected, "{name}");
        }
    }
}
