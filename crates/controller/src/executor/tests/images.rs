//! Tests of pods that pull images (G55).

use everynode_core::plan::NewPuller;

use super::*;

fn pull(node: &str) -> Write {
    let (uid, resource_version) = (Uid::new("r-1"), ResourceVersion(3));
    let revision = RevisionReference { name: "d-h".into(), uid, resource_version };
    let (node, hash) = (node.into(), "h".into());
    Write::PullImages(NewPuller { node, hash, revision, r#override: None })
}

/// G55: a puller is created unless its node lists the images. No answer says nothing; a refusal
/// names no node.
#[tokio::test]
async fn a_puller_is_created_unless_its_node_lists_the_images() {
    let mut server = Server::new(|line, before| match line.split_once(' ').unwrap() {
        ("GET", path) if path.ends_with("metadata.name%3Dwarm") => {
            let images = json!([{ "names": ["docker.io/library/i:1"] }]);
            (200, json!({ "items": [{ "status": { "images": images } }] }))
        }
        ("GET", _) => (200, json!({ "items": [{ "status": {} }] })),
        ("POST", _) if before == 0 => {
            (201, json!({ "metadata": { "uid": "u-1", "resourceVersion": "7" } }))
        }
        ("POST", _) if before == 1 => (LOST, Value::Null),
        _ => (403, json!({ "code": 403, "reason": "Forbidden", "message": "cannot create" })),
    });
    assert_eq!(server.execute(vec![pull("warm")]).await, [Outcome::ImagesPresent]);
    let outcomes = server.execute(vec![pull("a")]).await;
    assert!(is_written(&outcomes[0], "u-1", 7), "{outcomes:?}");
    assert!(server.names()[0].starts_with("d-h-a-"), "{:?}", server.names());
    let outcomes = server.execute(vec![pull("a")]).await;
    assert!(matches!(&outcomes[..], [Outcome::Unknown { .. }]), "{outcomes:?}");
    let outcomes = server.execute(vec![pull("a")]).await;
    assert!(
        matches!(&outcomes[..], [Outcome::Failed { message }]
            if message.starts_with("create a pod that pulls images: ")),
        "{outcomes:?}"
    );
}

/// G55: no watch shows a puller that has lost its labels, and it would keep its name: it is
/// deleted, as the answer to its creation shows it, or because its name is found taken. Another is
/// left.
#[tokio::test]
async fn a_puller_that_admission_has_changed_is_deleted() {
    let mut server = Server::new(|line, before| match line.split_once(' ').unwrap() {
        ("GET", path) if path.contains("/nodes?") => (200, json!({ "items": [] })),
        ("GET", _) if before == 0 => (200, puller(&json!({}))),
        ("GET", _) => {
            let of = "everynode.dev/pulls-images-of";
            (200, puller(&json!({ "everynode.dev/pulls-images-for": "ds-uid", of: "h" })))
        }
        ("POST", _) if before == 0 => (201, puller(&Value::Null)),
        ("POST", _) => (409, refused("AlreadyExists")),
        _ => (200, json!({})),
    });
    for (deletions, why) in [(1, "is deleted"), (2, "is deleted"), (2, "images: no")] {
        let outcomes = server.execute(vec![pull("a")]).await;
        assert!(
            matches!(&outcomes[..], [Outcome::Failed { message }] if message.contains(why)),
            "{outcomes:?}"
        );
        let seen = server.seen();
        assert_eq!(
            seen.iter().filter(|it| it.starts_with("DELETE")).count(),
            deletions,
            "{seen:?}"
        );
    }
}

fn puller(labels: &Value) -> Value {
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "name": "d-h", "uid": "r-1",
        "controller": true,
    }]);
    let command = json!(["/dev/null/everynode-only-pulls-the-image"]);
    json!({
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u-2", "labels": labels,
            "ownerReferences": owner,
        },
        "spec": { "nodeName": "a", "containers": [{ "name": "c", "command": command }] },
    })
}
