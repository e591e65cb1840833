//! Changes of pods in place: the requests that are sent, and what their answers mean.

use everynode_core::api::{CHANGING_ANNOTATION, Timestamp};
use everynode_core::plan::NewChange;

use super::*;

const GET: &str = "GET /api/v1/namespaces/ns/pods/p";
const PATCH: &str = "PATCH /api/v1/namespaces/ns/pods/p";
const DRY_RUN: &str = "PATCH /api/v1/namespaces/ns/pods/p/resize?dryRun=All";
const RESIZE: &str = "PATCH /api/v1/namespaces/ns/pods/p/resize";

fn template(image: &str, cpu: &str) -> String {
    let resources = json!({ "requests": { "cpu": cpu } });
    json!({ "spec": { "containers": [{ "name": "c", "image": image, "resources": resources }] } })
        .to_string()
}

/// A change of the image from `i:1` and of the CPU from `100m`.
fn change(image: &str, cpu: &str) -> Vec<Write> {
    vec![Write::ChangePod(NewChange {
        pod: pod(),
        hash: "h2".into(),
        from: template("i:1", "100m").into(),
        to: template(image, cpu).into(),
        tag: None,
        r#override: None,
        since: Timestamp::from_seconds(60),
    })]
}

/// The running pod of the first template.
fn live() -> Value {
    json!({
        "metadata": { "name": "p", "uid": "pod-uid", "resourceVersion": "7" },
        "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
        "status": { "phase": "Running", "observedGeneration": 1, "containerStatuses": [
            { "name": "c", "containerID": "id-1", "restartCount": 0 },
        ] },
    })
}

/// The pod once its change has begun.
fn begun() -> Value {
    let statement = json!({ "to": "h2", "since": "1970-01-01T00:01:00Z" }).to_string();
    let annotations = json!({ "annotations": { CHANGING_ANNOTATION: statement } });
    changed(live(), json!({ "metadata": annotations }))
}

fn version(version: &str) -> (u16, Value) {
    (200, object("pod-uid", version))
}

/// A server at which everything succeeds.
fn accepts(line: &str, _: usize) -> (u16, Value) {
    match line {
        GET => (200, live()),
        PATCH => version("8"),
        DRY_RUN => (200, live()),
        RESIZE => version("9"),
        other => panic!("{other}"),
    }
}

fn refusal(code: u16, reason: &str, message: &str) -> (u16, Value) {
    (code, json!({ "kind": "Status", "code": code, "reason": reason, "message": message }))
}

/// The refusal of a request for which the right is missing.
fn no_right(line: &str) -> (u16, Value) {
    let (verb, resource) = match line {
        GET => ("get", "pods"),
        PATCH => ("patch", "pods"),
        _ => ("patch", "pods/resize"),
    };
    let message = format!(
        "pods \"p\" is forbidden: User \"system:serviceaccount:e:e\" cannot {verb} resource \
         \"{resource}\" in API group \"\" in the namespace \"ns\""
    );
    refusal(403, "Forbidden", &message)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    Written,
    Gone,
    CannotChange,
    Begun,
    Unknown,
    Failed,
}

fn class(outcome: &Outcome) -> Class {
    match outcome {
        Outcome::Written { .. } => Class::Written,
        Outcome::Gone => Class::Gone,
        Outcome::CannotChange { .. } => Class::CannotChange,
        Outcome::Begun { .. } => Class::Begun,
        Outcome::Unknown { .. } => Class::Unknown,
        Outcome::Failed { .. } => Class::Failed,
        other => panic!("{other:?}"),
    }
}

/// The outcome of a change of image and CPU, and the requests.
async fn outcome(script: Script) -> (Outcome, Vec<String>) {
    let mut server = Server::new(script);
    let mut outcomes = server.execute(change("i:2", "200m")).await;
    assert_eq!(outcomes.len(), 1);
    (outcomes.remove(0), server.seen())
}

/// G56: a dry run asks whether the resources may change; then the pod is changed, then its
/// resources. Only what differs is sent.
#[tokio::test]
async fn a_pod_is_changed_after_a_dry_run_and_then_resized() {
    for (image, cpu, requests, written) in [
        ("i:2", "200m", &[DRY_RUN, PATCH, RESIZE][..], 9),
        ("i:1", "200m", &[DRY_RUN, PATCH, RESIZE], 9),
        ("i:2", "100m", &[GET, PATCH], 8),
        ("i:2", "0.1", &[GET, PATCH], 8),
    ] {
        let mut server = Server::new(accepts);
        let outcomes = server.execute(change(image, cpu)).await;
        assert!(is_written(&outcomes[0], "pod-uid", written), "{image} {cpu}: {outcomes:?}");
        assert_eq!(server.seen(), requests, "{image} {cpu}");
    }
}

/// G56: a controller that starts sends the requests again that may not have had an effect.
#[tokio::test]
async fn a_change_that_has_begun_is_only_resized() {
    let script: Script = |line, before| match line {
        GET | DRY_RUN => (200, begun()),
        _ => accepts(line, before),
    };
    let (written, seen) = outcome(script).await;
    assert!(is_written(&written, "pod-uid", 9), "{written:?}");
    assert_eq!(seen, [DRY_RUN, RESIZE]);
    let mut server = Server::new(script);
    let outcomes = server.execute(change("i:2", "100m")).await;
    assert!(is_written(&outcomes[0], "pod-uid", 7), "{outcomes:?}");
    assert_eq!(server.seen(), [GET]);
    // Only a pod whose change has not begun is left as it is.
    let (outcome, seen) = outcome(|line, _| match line {
        GET => (200, begun()),
        _ => refusal(422, "Invalid", "no"),
    })
    .await;
    let is_stated = matches!(&outcome, Outcome::CannotChange { written: Some(_), .. });
    assert!(is_stated, "{outcome:?}");
    assert_eq!(seen, [DRY_RUN, GET, RESIZE]);
}

/// G56: a pod that cannot be changed is left as it is.
#[tokio::test]
async fn nothing_is_sent_to_a_pod_that_cannot_be_changed() {
    let other = json!({ "to": "h3", "since": "1970-01-01T00:01:00Z" }).to_string();
    let other = json!({ "metadata": { "annotations": { CHANGING_ANNOTATION: other } } });
    let image = json!({ "spec": { "containers": [{ "name": "c", "image": "theirs" }] } });
    for (difference, message) in [
        (json!({ "status": { "phase": "Pending" } }), "it does not run"),
        (json!({ "status": { "observedGeneration": null } }), "its kubelet does not state"),
        (image, "the image of container c is not that of its template"),
        (other, "another change of it is under way"),
    ] {
        static POD: Mutex<Value> = Mutex::new(Value::Null);
        *POD.lock().unwrap() = changed(live(), difference);
        let (outcome, seen) = outcome(|_, _| (200, POD.lock().unwrap().clone())).await;
        assert!(
            matches!(&outcome, Outcome::CannotChange { message: it, .. }
                if it.starts_with(message)),
            "{message}: {outcome:?}"
        );
        assert_eq!(seen, [DRY_RUN]);
    }
}

/// Answers to the reading of a pod.
fn answers_to_get() -> Vec<(Script, Class)> {
    vec![
        (|_, _| refusal(404, "NotFound", "pods \"p\" not found"), Class::Gone),
        (
            |line, _| match line {
                GET => (200, changed(live(), json!({ "metadata": { "uid": "other" } }))),
                _ => refusal(409, "Conflict", "the UID in the precondition is another"),
            },
            Class::Gone,
        ),
        (|line, _| no_right(line), Class::Failed),
        (|_, _| refusal(403, "Forbidden", "no"), Class::Failed),
        (|_, _| refusal(500, "InternalError", "no"), Class::Failed),
        (|_, _| (LOST, Value::Null), Class::Failed),
    ]
}

/// Answers a request from its "METHOD /path?query".
type Answer = fn(&str) -> (u16, Value);

/// Answers to a change or resize of a pod.
fn answers_to_patch() -> Vec<(Answer, Class)> {
    vec![
        (|_| refusal(404, "NotFound", "pods \"p\" not found"), Class::Gone),
        (
            |_| refusal(404, "NotFound", "the server could not find the requested resource"),
            Class::CannotChange,
        ),
        (|_| (404, "404 page not found".into()), Class::CannotChange),
        (|_| refusal(405, "MethodNotAllowed", "no"), Class::CannotChange),
        (|_| refusal(400, "BadRequest", "no"), Class::CannotChange),
        (
            |_| refusal(422, "Invalid", "Pod \"p\" is invalid: Pod QOS Class may not change"),
            Class::CannotChange,
        ),
        (
            |_| refusal(403, "Forbidden", "pods \"p\" is forbidden: exceeded quota: q"),
            Class::CannotChange,
        ),
        (
            |_| refusal(403, "", "admission webhook \"a.b\" denied the request: no"),
            Class::CannotChange,
        ),
        (no_right, Class::Failed),
        (|_| refusal(409, "Conflict", "the object has been modified"), Class::Failed),
        (
            |_| refusal(500, "InternalError", "failed calling webhook \"a.b\": timeout"),
            Class::Failed,
        ),
        (|_| refusal(401, "Unauthorized", "Unauthorized"), Class::Failed),
        (|_| (LOST, Value::Null), Class::Failed),
    ]
}

/// G56: whoever cannot read a pod does not know that it cannot be changed; one that is gone, or is
/// another by now, is gone.
#[tokio::test]
async fn a_pod_that_cannot_be_read_is_not_changed() {
    for (index, (script, expected)) in answers_to_get().into_iter().enumerate() {
        let (outcome, seen) = outcome(script).await;
        assert_eq!(class(&outcome), expected, "{index}: {outcome:?}");
        assert_eq!(seen, [DRY_RUN, GET], "{index}");
    }
}

/// G56: a refusal means that the pod cannot be changed, unless a right is missing, or another
/// request may succeed; nothing is sent after it. A resize that a dry run refuses changes no pod.
#[tokio::test]
async fn a_refusal_ends_the_change() {
    static ANSWER: Mutex<Option<Answer>> = Mutex::new(None);
    let at_dry_run: Script = |line, before| match line {
        DRY_RUN => ANSWER.lock().unwrap().unwrap()(line),
        _ => accepts(line, before),
    };
    let at_patch: Script = |line, before| match line {
        PATCH => ANSWER.lock().unwrap().unwrap()(line),
        _ => accepts(line, before),
    };
    let at_resize: Script = |line, before| match line {
        RESIZE => ANSWER.lock().unwrap().unwrap()(line),
        _ => accepts(line, before),
    };
    for (index, (answer, expected)) in answers_to_patch().into_iter().enumerate() {
        *ANSWER.lock().unwrap() = Some(answer);
        for (script, requests) in [
            (at_dry_run, &[DRY_RUN, GET][..]),
            (at_patch, &[DRY_RUN, PATCH]),
            (at_resize, &[DRY_RUN, PATCH, RESIZE]),
        ] {
            let (outcome, seen) = outcome(script).await;
            let last = requests[requests.len() - 1];
            let (status, _) = answer(last);
            let expected = match (last, expected) {
                // The pod states the change already.
                (RESIZE, Class::Failed) => Class::Begun,
                (PATCH, Class::Failed) if status == LOST => Class::Unknown,
                (_, expected) => expected,
            };
            assert_eq!(class(&outcome), expected, "{index}: {outcome:?}");
            assert_eq!(seen, requests, "{index}");
        }
    }
}

/// G56: the message names the right that is missing.
#[tokio::test]
async fn a_missing_right_is_named() {
    let (outcome, _) = outcome(|line, before| match line {
        DRY_RUN => no_right(line),
        _ => accepts(line, before),
    })
    .await;
    let Outcome::Failed { message } = outcome else { panic!("{outcome:?}") };
    assert!(message.starts_with("change pod p: "), "{message}");
    assert!(message.contains("cannot patch resource \"pods/resize\""), "{message}");
}
