//! Creations and deletions of pods by the class of their answer: written, failed or unknown (C34,
//! C35, C52).

use everynode_core::api::{Course, Position, RolloutPhase, RolloutRecord, Timestamp};

use super::*;

fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({ "kind": "Status", "code": code, "reason": reason, "message": message });
    (code, status)
}

/// The class of an outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    Written,
    Failed,
    Unknown,
}

fn class(outcome: &Outcome) -> Class {
    match outcome {
        Outcome::Written { .. } => Class::Written,
        Outcome::Failed { .. } => Class::Failed,
        Outcome::Unknown { .. } => Class::Unknown,
        other => panic!("{other:?}"),
    }
}

const FAILED_WEBHOOK: &str =
    "Internal error occurred: failed calling webhook \"a.b\": failed to call webhook: timeout";
const DENYING_WEBHOOK: &str = "admission webhook \"a.b\" denied the request: no";

/// Answers to a write of a pod that do not depend on its name.
fn answers() -> Vec<(Script, Class)> {
    vec![
        (|_, _| status(403, "Forbidden", "no"), Class::Failed),
        (
            |line, _| match line.starts_with("GET") {
                true => (200, object("pod-uid", "9")),
                false => status(422, "Invalid", "no"),
            },
            Class::Failed,
        ),
        (|_, _| status(400, "", DENYING_WEBHOOK), Class::Failed),
        (|_, _| status(429, "TooManyRequests", "no"), Class::Failed),
        (|_, _| (429, "Too many requests, please try again later.".into()), Class::Failed),
        (|_, _| status(500, "InternalError", FAILED_WEBHOOK), Class::Failed),
        (|_, _| status(500, "InternalError", DENYING_WEBHOOK), Class::Failed),
        (|_, _| status(408, "Timeout", "no"), Class::Unknown),
        (|_, _| status(500, "", "etcdserver: request timed out"), Class::Unknown),
        (|_, _| status(500, "", "etcdserver: leader changed"), Class::Unknown),
        (|_, _| status(500, "InternalError", "no"), Class::Unknown),
        (|_, _| (502, "<html>".into()), Class::Unknown),
        (|_, _| status(503, "ServiceUnavailable", "no"), Class::Unknown),
        (|_, _| status(504, "Timeout", "no"), Class::Unknown),
        (|_, _| (403, "<html>".into()), Class::Unknown),
        (|_, _| (LOST, Value::Null), Class::Unknown),
        (|_, _| (200, "<html>".into()), Class::Unknown),
    ]
}

fn record() -> Write {
    let revision = RevisionReference {
        name: "r".into(),
        uid: "pod-uid".into(),
        resource_version: ResourceVersion(7),
    };
    let record = RolloutRecord {
        phase: RolloutPhase::Failed,
        position: Position::AllNodes,
        began: Timestamp(0),
        since: Timestamp(0),
        approvals: Vec::new(),
        steps_hash: "".into(),
        order: None,
        reason: None,
        is_rolled_back: false,
        base: None,
        course: Course::default(),
    };
    Write::WriteRecord { revision, record: record.into() }
}

/// C34, C35, C72: a creation has failed only if the answer shows that no pod was created, as "too
/// many requests" does. After any other answer the outcome is unknown.
#[tokio::test(start_paused = true)]
async fn an_answer_shows_whether_a_pod_may_have_been_created() {
    for (index, (script, expected)) in answers().into_iter().enumerate() {
        let mut server = Server::new(script);
        let results = server.results(vec![create("n1")]).await;
        assert_eq!(class(&results[0].outcome), expected, "answer {index}: {results:?}");
    }
}

/// C34, C52: the same for a deletion, for which nothing is read.
#[tokio::test(start_paused = true)]
async fn an_answer_shows_whether_a_pod_may_have_been_deleted() {
    for (index, (script, expected)) in answers().into_iter().enumerate() {
        let mut server = Server::new(script);
        let outcomes = server.execute(vec![Write::DeletePod(pod())]).await;
        assert_eq!(class(&outcomes[0]), expected, "answer {index}: {outcomes:?}");
    }
    let mut lost = Server::new(|_, _| (LOST, Value::Null));
    lost.execute(vec![Write::DeletePod(pod())]).await;
    assert_eq!(lost.seen(), ["DELETE /api/v1/namespaces/ns/pods/p"]);
}

/// C34: a deletion is unknown if it conflicts and the pod can't be read, or if its 404 is not a
/// `Status`, which means that a proxy sent it.
#[tokio::test]
async fn a_deletion_that_can_t_be_resolved_is_unknown() {
    let unread: [Script; 4] = [
        |line, _| match line.starts_with("DELETE") {
            true => status(409, "Conflict", "no"),
            false => (LOST, Value::Null),
        },
        |line, _| match line.starts_with("DELETE") {
            true => status(409, "Conflict", "no"),
            false => status(403, "Forbidden", "no"),
        },
        |line, _| match line.starts_with("DELETE") {
            true => status(409, "Conflict", "no"),
            false => status(500, "", "etcdserver: request timed out"),
        },
        |_, _| (404, "404 page not found".into()),
    ];
    for script in unread {
        let mut server = Server::new(script);
        let outcomes = server.execute(vec![Write::DeletePod(pod())]).await;
        assert_eq!(class(&outcomes[0]), Class::Unknown, "{outcomes:?}");
    }
    let mut same = Server::new(|line, _| match line.starts_with("DELETE") {
        true => status(409, "Conflict", "no"),
        false => (200, object("pod-uid", "9")),
    });
    let outcomes = same.execute(vec![Write::DeletePod(pod())]).await;
    assert_eq!(class(&outcomes[0]), Class::Failed, "{outcomes:?}");
}

/// G9: a record without a definite answer may have been written; one that was refused was not.
#[tokio::test(start_paused = true)]
async fn an_answer_shows_whether_a_record_may_have_been_written() {
    for (index, (script, expected)) in answers().into_iter().enumerate() {
        let mut server = Server::new(script);
        let outcomes = server.execute(vec![record()]).await;
        assert_eq!(class(&outcomes[0]), expected, "answer {index}: {outcomes:?}");
    }
}

/// C29, C61: a patch without a definite answer has failed, since it can be sent again, even if
/// the object it conflicts with can't be read.
#[tokio::test]
async fn a_patch_without_a_definite_answer_has_failed() {
    let scripts: [Script; 4] = [
        |_, _| (LOST, Value::Null),
        |_, _| status(500, "", "etcdserver: request timed out"),
        |_, _| (200, "<html>".into()),
        |line, _| match line.starts_with("PATCH") {
            true => status(409, "Conflict", "no"),
            false => (LOST, Value::Null),
        },
    ];
    for script in scripts {
        let mut server = Server::new(script);
        let hash = "h".into();
        let outcomes = server.execute(vec![Write::RelabelPod { pod: pod(), hash }]).await;
        assert_eq!(class(&outcomes[0]), Class::Failed, "{outcomes:?}");
    }
}

/// C40, C43: a revision that may have been created is found when it is created again; if it can't
/// be read, the creation has failed.
#[tokio::test]
async fn a_revision_that_can_t_be_read_has_failed() {
    let scripts: [Script; 3] = [
        |_, _| (LOST, Value::Null),
        |line, _| match line.starts_with("POST") {
            true => status(409, "AlreadyExists", "no"),
            false => (LOST, Value::Null),
        },
        |line, _| match line.starts_with("POST") {
            true => status(409, "AlreadyExists", "no"),
            false => status(404, "NotFound", "no"),
        },
    ];
    for script in scripts {
        let mut server = Server::new(script);
        let new = NewRevision {
            name: "d-h".into(),
            hash: "h".into(),
            number: 1,
            collision_count: None,
            overrides: None,
            copies: None,
        };
        let outcomes = server.execute(vec![Write::CreateRevision(new)]).await;
        assert_eq!(class(&outcomes[0]), Class::Failed, "{outcomes:?}");
    }
}

fn taken(line: &str, owner: &str, node: &str) -> (u16, Value) {
    if line.starts_with("POST") {
        return status(409, "AlreadyExists", "pods \"d-x\" already exists");
    }
    let mut pod = object("pod-uid", "7");
    pod["metadata"]["namespace"] = "ns".into();
    pod["metadata"]["labels"] = json!({ "a": "b", HASH_LABEL: "h" });
    pod["metadata"]["ownerReferences"] = owned_by("DaemonSet", owner);
    pod["spec"] = json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }
        ] }
    } } });
    (200, pod)
}

fn named(node: &str, name: &str) -> Write {
    match create(node) {
        Write::CreatePod(new) => Write::CreatePod(NewPod { name: Some(name.into()), ..new }),
        other => other,
    }
}

fn name_of(write: &Write) -> Option<&str> {
    match write {
        Write::CreatePod(new) => new.name.as_ref().map(|name| name.as_str()),
        _ => None,
    }
}

/// C30, C35: a pod is created under a generated name, beside generateName. The name is reported,
/// and the next attempt uses it again.
#[tokio::test]
async fn a_creation_carries_a_name() {
    let mut server = Server::new(|_, _| (201, object("u", "9")));
    let results = server.results(vec![create("n1")]).await;
    assert!(is_written(&results[0].outcome, "u", 9), "{results:?}");
    let names = server.names();
    assert_eq!(name_of(&results[0].write), Some(names[0].as_str()));
    assert!(names[0].starts_with("d-") && names[0].len() == 7, "{names:?}");
    assert_eq!(server.created.lock().unwrap()[0]["metadata"]["generateName"], "d-");
    let mut lost = Server::new(|_, _| (LOST, Value::Null));
    let results = lost.results(vec![named("n1", "d-again")]).await;
    assert_eq!(
        (lost.names(), name_of(&results[0].write)),
        (vec!["d-again".to_owned()], Some("d-again"))
    );
}

/// C35: a taken name means success if an earlier request created our pod on the node.
#[tokio::test]
async fn a_name_of_our_own_pod_means_success() {
    let mut server = Server::new(|line, _| taken(line, "ds-uid", "n1"));
    let results = server.results(vec![named("n1", "d-x")]).await;
    assert!(is_written(&results[0].outcome, "pod-uid", 7), "{results:?}");
    assert_eq!(server.seen(), [PODS, "GET /api/v1/namespaces/ns/pods/d-x"]);
}

/// C35: if our own pod with the name is being deleted, the creation is retried with that name.
#[tokio::test]
async fn a_name_of_a_terminating_pod_is_kept() {
    let mut server = Server::new(|line, _| {
        let (code, mut pod) = taken(line, "ds-uid", "n1");
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        (code, pod)
    });
    let results = server.results(vec![named("n1", "d-x")]).await;
    assert_eq!(class(&results[0].outcome), Class::Failed, "{results:?}");
    assert_eq!((server.names(), name_of(&results[0].write)), (vec!["d-x".to_owned()], Some("d-x")));
}

/// C35: a name of another pod, or of our pod on another node, is replaced by a new one.
#[tokio::test]
async fn a_name_of_another_pod_is_replaced() {
    let scripts: [Script; 3] = [
        |line, before| match (line, before) {
            (PODS, 1) => (201, object("u", "9")),
            _ => taken(line, "another", "n1"),
        },
        |line, before| match (line, before) {
            (PODS, 1) => (201, object("u", "9")),
            _ => taken(line, "ds-uid", "n2"),
        },
        |line, before| match (line, before) {
            (PODS, 0) => taken(line, "ds-uid", "n1"),
            (PODS, _) => (201, object("u", "9")),
            _ => {
                let mut theirs = object("theirs", "7");
                theirs["metadata"]["ownerReferences"] = owned_by("StatefulSet", "s");
                (200, theirs)
            }
        },
    ];
    for script in scripts {
        let mut server = Server::new(script);
        let results = server.results(vec![named("n1", "d-x")]).await;
        assert!(is_written(&results[0].outcome, "u", 9), "{results:?}");
        let names = server.names();
        assert_eq!((names.len(), names[0].as_str()), (2, "d-x"));
        assert_ne!(names[1], "d-x");
        assert_eq!(name_of(&results[0].write), Some(names[1].as_str()));
    }
    let mut all_taken = Server::new(|line, _| taken(line, "another", "n1"));
    let outcomes = all_taken.execute(vec![create("n1")]).await;
    assert_eq!(class(&outcomes[0]), Class::Failed, "{outcomes:?}");
    assert_eq!(all_taken.names().len(), 8);
}

/// C35: a name whose pod has just been deleted is used again.
#[tokio::test]
async fn a_name_that_is_free_again_is_used() {
    let mut server = Server::new(|line, before| match (line, before) {
        (PODS, 0) => status(409, "AlreadyExists", "no"),
        (PODS, _) => (201, object("u", "9")),
        _ => status(404, "NotFound", "no"),
    });
    let results = server.results(vec![named("n1", "d-x")]).await;
    assert!(is_written(&results[0].outcome, "u", 9), "{results:?}");
    assert_eq!(server.names(), ["d-x", "d-x"]);
}

/// C35: a taken name whose pod can't be read is kept and sent again.
#[tokio::test]
async fn a_name_whose_pod_can_t_be_read_is_kept() {
    let scripts: [Script; 4] = [
        |line, _| match line {
            PODS => status(409, "AlreadyExists", "no"),
            _ => (LOST, Value::Null),
        },
        |line, _| match line {
            PODS => status(409, "AlreadyExists", "no"),
            _ => status(403, "Forbidden", "no"),
        },
        |line, _| match line {
            PODS => status(409, "AlreadyExists", "no"),
            _ => status(500, "", "etcdserver: request timed out"),
        },
        |line, _| match line {
            PODS => status(409, "AlreadyExists", "no"),
            _ => (200, "<html>".into()),
        },
    ];
    for script in scripts {
        let mut server = Server::new(script);
        let results = server.results(vec![named("n1", "d-x")]).await;
        assert_eq!(class(&results[0].outcome), Class::Unknown, "{results:?}");
        assert_eq!(name_of(&results[0].write), Some("d-x"));
        assert_eq!(server.names(), ["d-x"]);
    }
}

/// C35: a conflict about anything but the name shows that no pod was created; an answer without a
/// UID does not.
#[tokio::test]
async fn a_conflict_about_anything_but_the_name_has_failed() {
    let mut server = Server::new(|_, _| status(409, "Conflict", "quota changed"));
    let outcomes = server.execute(vec![create("n1")]).await;
    assert_eq!(class(&outcomes[0]), Class::Failed, "{outcomes:?}");
    assert_eq!(server.seen(), [PODS]);
    let mut empty = Server::new(|_, _| (201, json!({})));
    let outcomes = empty.execute(vec![create("n1")]).await;
    assert_eq!(class(&outcomes[0]), Class::Unknown, "{outcomes:?}");
}

/// C63, C35: a write that the fence stopped may have been sent before.
#[tokio::test]
async fn a_write_that_the_fence_stopped_is_unknown() {
    let mut server = Server::new(|_, _| (201, object("u", "9")));
    let api = Api::new(server.client.clone(), Fence::closed(Environment::default()), None);
    server.executor.api = api;
    let outcomes = server.execute(vec![create("n1"), Write::DeletePod(pod())]).await;
    assert_eq!(outcomes.iter().map(class).collect::<Vec<_>>(), [Class::Unknown, Class::Unknown]);
    assert!(server.seen().is_empty());
}
