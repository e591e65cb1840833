//! Executes plans against scripted servers and checks the outcome of each write.

mod change;
mod images;
mod unanswered;

use std::sync::Mutex;

use everynode_core::api::{AdmissionChange, HASH_LABEL, ResourceVersion};
use everynode_core::plan::{NewPod, PodReference, RevisionReference, ScheduleBy};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::environment::Environment;
use crate::lease::Fence;
use crate::outage_log::OutageLog;
use crate::recorder;
use serde_json::Value;

/// Answers a request from its "METHOD /path?query" and the number of earlier requests of that kind.
type Script = fn(&str, usize) -> (u16, Value);

struct Server {
    client: Client,
    executor: Executor,
    events: mpsc::Receiver<Event>,
    seen: Arc<Mutex<Vec<String>>>,
    /// The bodies of the POSTs.
    created: Arc<Mutex<Vec<Value>>>,
}

/// The pod that was sent, with these members; null removes one. So does a mutating webhook.
fn changed(mut pod: Value, change: Value) -> Value {
    let Value::Object(members) = change else { return change };
    if !pod.is_object() {
        pod = json!({});
    }
    for (key, value) in members {
        if value.is_null() {
            pod.as_object_mut().unwrap().remove(&key);
        } else {
            pod[&key] = changed(pod[&key].take(), value);
        }
    }
    pod
}

/// Used instead of a status: the connection is lost.
const LOST: u16 = 0;

impl Server {
    fn new(script: Script) -> Self {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let created: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (log, bodies) = (seen.clone(), created.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri());
            let (log, bodies) = (log.clone(), bodies.clone());
            async move {
                let sent = request.into_body().collect().await.unwrap().to_bytes();
                if line.starts_with("POST") {
                    bodies.lock().unwrap().push(serde_json::from_slice(&sent).unwrap());
                }
                let mut log = log.lock().unwrap();
                let before = log.iter().filter(|l| **l == line).count();
                log.push(line.clone());
                let (status, mut body) = script(&line, before);
                if status == LOST {
                    return Err(tower::BoxError::from("connection reset"));
                }
                if line.starts_with(PODS) && matches!(status, 200 | 201) {
                    body = changed(serde_json::from_slice(&sent).unwrap(), body);
                }
                let body = Body::from(body.to_string().into_bytes());
                Ok(Response::builder().status(status).body(body)?)
            }
        });
        let client = Client::new(service, "default");
        let (sender, events) = mpsc::channel(1024);
        let stop = CancellationToken::new();
        let (recorder, _) = recorder::recorder(
            client.clone(),
            "test".to_owned(),
            OutageLog::default(),
            Environment::default(),
            stop.clone(),
        );
        let api = Api::new(client.clone(), Fence::open(), None);
        let metrics = Arc::new(Metrics::new());
        let names = Arc::new(PodNames::seeded(1));
        let executor = Executor { api, events: sender, recorder, metrics, names, stop };
        Self { client, executor, events, seen, created }
    }

    /// Executes these writes and returns their outcomes in the order in which they were reported.
    async fn execute(&mut self, writes: Vec<Write>) -> Vec<Outcome> {
        self.results(writes).await.into_iter().map(|result| result.outcome).collect()
    }

    async fn results(&mut self, writes: Vec<Write>) -> Vec<WriteResult> {
        let plan = Plan { writes, ..Plan::default() };
        self.executor.clone().execute(plan, raw()).await;
        let mut results = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Written { result, .. } => results.push(result),
                Event::Executed { .. } => return results,
                other => panic!("{other:?}"),
            }
        }
        panic!("the end of the execution was not reported");
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The names of the pods that were to be created.
    fn names(&self) -> Vec<String> {
        let created = self.created.lock().unwrap();
        created.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn raw() -> Arc<RawDaemonSet> {
    let json = json!({
        "metadata": { "name": "d", "namespace": "ns", "uid": "ds-uid", "resourceVersion": "5" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
            },
        },
    });
    convert::daemon_set(json.to_string().as_bytes(), None).unwrap().raw
}

fn create(node: &str) -> Write {
    Write::CreatePod(NewPod {
        name: None,
        node: node.into(),
        hash: "h".into(),
        template_generation: None,
        template: None,
        r#override: None,
        schedule_by: ScheduleBy::Scheduler,
    })
}

fn pod() -> PodReference {
    PodReference { name: "p".into(), uid: Uid::new("pod-uid"), node: None }
}

fn object(uid: &str, version: &str) -> Value {
    json!({ "metadata": { "name": "x", "uid": uid, "resourceVersion": version } })
}

/// The `ownerReferences` of an object that this controller owns.
fn owned_by(kind: &str, uid: &str) -> Value {
    let api_version = "apps/v1";
    json!([
        { "apiVersion": api_version, "kind": kind, "name": "d", "uid": uid, "controller": true }
    ])
}

fn refused(reason: &str) -> Value {
    json!({ "kind": "Status", "reason": reason, "message": "no" })
}

fn is_written(outcome: &Outcome, uid: &str, version: u64) -> bool {
    match outcome {
        Outcome::Written { uid: u, resource_version } => {
            u.to_string() == uid && resource_version.0 == version
        }
        _ => false,
    }
}

const PODS: &str = "POST /api/v1/namespaces/ns/pods";
const DAEMON_SET: &str = "GET /apis/apps/v1/namespaces/ns/daemonsets/d";

/// C28, C29: creations are sent in batches of 1, 2, 4 …; a batch with a failure is finished and
/// is the last.
#[tokio::test]
async fn a_batch_with_a_failure_is_the_last() {
    let mut server = Server::new(|_, before| match before {
        1 => (403, refused("Forbidden")),
        _ => (201, object("u", "9")),
    });
    let outcomes = server.execute((0..10).map(|i| create(&format!("n{i}"))).collect()).await;
    let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|o| is(o)).count();
    assert_eq!(count(|o| matches!(o, Outcome::Written { .. })), 2);
    assert_eq!(count(|o| matches!(o, Outcome::Failed { .. })), 1);
    assert_eq!(count(|o| matches!(o, Outcome::Skipped)), 7);
    assert_eq!(server.seen().len(), 3);
}

/// C28: a batch in which admission has changed a pod is the last; the outcome shows what was
/// changed.
#[tokio::test]
async fn a_batch_with_a_pod_that_admission_has_changed_is_the_last() {
    let changes: [(Script, AdmissionChange); 5] = [
        (
            |_, _| (201, pod_with(json!({ "labels": { "a": null } }), json!({}))),
            AdmissionChange::Labels,
        ),
        (
            |_, _| (201, pod_with(json!({ "labels": { HASH_LABEL: null } }), json!({}))),
            AdmissionChange::RevisionLabels,
        ),
        (
            |_, _| {
                (
                    201,
                    pod_with(json!({ "ownerReferences": owned_by("StatefulSet", "s") }), json!({})),
                )
            },
            AdmissionChange::Controller,
        ),
        (
            |_, _| (201, pod_with(json!({}), json!({ "nodeName": "n2" }))),
            AdmissionChange::Node(Some("n2".into())),
        ),
        (
            |_, _| (201, pod_with(json!({}), json!({ "affinity": null }))),
            AdmissionChange::Node(None),
        ),
    ];
    for (script, change) in changes {
        let mut server = Server::new(script);
        let outcomes = server.execute(vec![create("n1"), create("n3")]).await;
        let resource_version = ResourceVersion(9);
        let expected = Outcome::Changed { uid: "u".into(), resource_version, change };
        assert_eq!(outcomes, [expected, Outcome::Skipped]);
    }
    let mut harmless = Server::new(|_, _| {
        (201, pod_with(json!({ "labels": { "x": "y" }, "annotations": { "x": "y" } }), json!({})))
    });
    let outcomes = harmless.execute(vec![create("n1"), create("n3")]).await;
    assert!(outcomes.iter().all(|outcome| is_written(outcome, "u", 9)), "{outcomes:?}");
}

/// A pod that a webhook has changed.
fn pod_with(mut metadata: Value, spec: Value) -> Value {
    metadata["uid"] = "u".into();
    metadata["resourceVersion"] = "9".into();
    json!({ "metadata": metadata, "spec": spec })
}

/// C28: a creation that a terminating namespace refuses is no failure, and is not repeated.
#[tokio::test]
async fn a_terminating_namespace_is_no_failure() {
    let mut server = Server::new(|_, _| {
        let mut status = refused("Forbidden");
        status["details"] = json!({ "causes": [{ "reason": "NamespaceTerminating" }] });
        (403, status)
    });
    let outcomes = server.execute(vec![create("n1"), create("n2"), create("n3")]).await;
    assert_eq!(outcomes[0], Outcome::NamespaceTerminating);
    assert_eq!(outcomes[1..], [Outcome::Skipped, Outcome::Skipped]);
    assert_eq!(server.seen(), [PODS]);
}

/// C28, C61: a deletion has succeeded if it is answered NotFound, or refused because another pod
/// has the name; one that is refused for another reason has failed.
#[tokio::test]
async fn a_deletion_of_a_missing_pod_succeeds() {
    let mut gone = Server::new(|_, _| (404, refused("NotFound")));
    assert_eq!(gone.execute(vec![Write::DeletePod(pod())]).await, [Outcome::Gone]);
    let mut replaced = Server::new(|line, _| match line.starts_with("DELETE") {
        true => (409, refused("Conflict")),
        false => (200, object("another-uid", "9")),
    });
    assert_eq!(replaced.execute(vec![Write::DeletePod(pod())]).await, [Outcome::Gone]);
    let mut forbidden = Server::new(|_, _| (403, refused("Forbidden")));
    let outcomes = forbidden.execute(vec![Write::DeletePod(pod())]).await;
    assert!(matches!(outcomes[..], [Outcome::Failed { .. }]), "{outcomes:?}");
}

/// C29: a failed write does not hold up others.
#[tokio::test]
async fn a_failure_does_not_hold_up_other_writes() {
    let mut server = Server::new(|line, _| match line.contains("/pods/p") {
        true => (500, refused("InternalError")),
        false => (200, object("u", "9")),
    });
    let other = PodReference { name: "q".into(), ..pod() };
    let writes = vec![Write::DeletePod(pod()), Write::DeletePod(other), create("n1")];
    let outcomes = server.execute(writes).await;
    assert_eq!(outcomes.iter().filter(|o| is_written(o, "u", 9)).count(), 2);
}

/// C21: a live read confirms once, before adoption, that the DaemonSet exists and stays.
#[tokio::test]
async fn adoption_is_confirmed_live() {
    let mut server = Server::new(|line, _| match line {
        DAEMON_SET => (200, object("ds-uid", "5")),
        _ => (200, object("pod-uid", "9")),
    });
    let other = PodReference { name: "q".into(), ..pod() };
    let outcomes = server.execute(vec![Write::AdoptPod(pod()), Write::AdoptPod(other)]).await;
    assert!(outcomes.iter().all(|outcome| is_written(outcome, "pod-uid", 9)), "{outcomes:?}");
    assert_eq!(server.seen().iter().filter(|line| *line == DAEMON_SET).count(), 1);
    let replaced: Script = |_, _| (200, object("new-uid", "5"));
    let going: Script = |_, _| {
        let mut going = object("ds-uid", "5");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        (200, going)
    };
    for script in [replaced, going] {
        let mut server = Server::new(script);
        let outcomes = server.execute(vec![Write::AdoptPod(pod())]).await;
        assert!(matches!(outcomes[..], [Outcome::Failed { .. }]), "{outcomes:?}");
        assert_eq!(server.seen(), [DAEMON_SET]);
    }
}

/// C43: if a revision's name is taken, the stored revision and the live collision count are read.
#[tokio::test]
async fn a_taken_revision_name_is_read_live() {
    let mut server = Server::new(|line, _| match line {
        DAEMON_SET => {
            let mut live = object("ds-uid", "8");
            live["status"] = json!({ "collisionCount": 2 });
            (200, live)
        }
        line if line.starts_with("POST") => (409, refused("AlreadyExists")),
        _ => (200, object("rev-uid", "7")),
    });
    let new = NewRevision {
        name: "d-h".into(),
        hash: "h".into(),
        number: 1,
        collision_count: None,
        overrides: None,
        copies: None,
    };
    let outcomes = server.execute(vec![Write::CreateRevision(new)]).await;
    match &outcomes[..] {
        [Outcome::RevisionExists { revision: Some(revision), collision_count }] => {
            assert_eq!(revision.uid, Uid::new("rev-uid"));
            assert_eq!(*collision_count, Some(2));
        }
        other => panic!("{other:?}"),
    }
}

/// C43: a revision's name is taken, too, if another kind owns the stored revision.
#[tokio::test]
async fn a_revision_name_of_another_kind_is_taken() {
    let mut server = Server::new(|line, _| match line {
        DAEMON_SET => (200, object("ds-uid", "8")),
        line if line.starts_with("POST") => (409, refused("AlreadyExists")),
        _ => {
            let mut theirs = object("rev-uid", "7");
            theirs["metadata"]["ownerReferences"] = owned_by("StatefulSet", "s");
            (200, theirs)
        }
    });
    let new = NewRevision {
        name: "d-h".into(),
        hash: "h".into(),
        number: 1,
        collision_count: None,
        overrides: None,
        copies: None,
    };
    let outcomes = server.execute(vec![Write::CreateRevision(new)]).await;
    let expected = Outcome::RevisionExists { revision: None, collision_count: None };
    assert_eq!(outcomes, [expected]);
}

/// C61, C70: a status that conflicts is sent once more with the live version; then it has failed.
#[tokio::test]
async fn a_status_conflict_is_retried_once() {
    let status = || {
        vec![Write::UpdateStatus {
            resource_version: ResourceVersion(5),
            status: everynode_core::api::Status::default(),
            ends_rollout: false,
        }]
    };
    let mut once = Server::new(|line, before| match (line, before) {
        (DAEMON_SET, _) => (200, object("ds-uid", "8")),
        (_, 0) => (409, refused("Conflict")),
        _ => (200, object("ds-uid", "9")),
    });
    assert!(is_written(&once.execute(status()).await[0], "ds-uid", 9));
    let mut always = Server::new(|line, _| match line {
        DAEMON_SET => (200, object("ds-uid", "8")),
        _ => (409, refused("Conflict")),
    });
    assert!(matches!(always.execute(status()).await[..], [Outcome::Failed { .. }]));
    assert_eq!(always.seen().len(), 3);
}

/// C21, C61: releasing, labelling or adopting an object that is gone is reported as such.
#[tokio::test]
async fn writes_to_missing_objects_report_them_gone() {
    let mut server = Server::new(|line, _| match line {
        DAEMON_SET => (200, object("ds-uid", "5")),
        _ => (404, refused("NotFound")),
    });
    let revision = || RevisionReference {
        name: "r".into(),
        uid: Uid::new("rev-uid"),
        resource_version: ResourceVersion(3),
    };
    let writes = vec![
        Write::AdoptPod(pod()),
        Write::ReleasePod(pod()),
        Write::RaiseRevision { revision: revision(), number: 4, template_generation: Some(2) },
        Write::DeleteRevision(revision()),
    ];
    let outcomes = server.execute(writes).await;
    assert_eq!(outcomes, [Outcome::Gone, Outcome::Gone, Outcome::Gone, Outcome::Gone]);
}

/// C44, C61: a revision that has changed since it was read is neither deleted nor taken for gone.
#[tokio::test]
async fn a_revision_that_has_changed_is_not_deleted() {
    let mut server = Server::new(|line, _| match line.starts_with("DELETE") {
        true => (409, refused("Conflict")),
        false => (200, object("rev-uid", "9")),
    });
    let revision = RevisionReference {
        name: "r".into(),
        uid: Uid::new("rev-uid"),
        resource_version: ResourceVersion(3),
    };
    let outcomes = server.execute(vec![Write::DeleteRevision(revision)]).await;
    assert!(matches!(outcomes[..], [Outcome::Failed { .. }]), "{outcomes:?}");
    let path = "/apis/apps/v1/namespaces/ns/controllerrevisions/r";
    assert_eq!(server.seen(), [format!("DELETE {path}"), format!("GET {path}")]);
}

/// C62: once the controller stops, no write is sent, and all writes are reported.
#[tokio::test]
async fn no_write_is_sent_after_the_stop() {
    let mut server = Server::new(|_, _| (201, object("u", "9")));
    server.executor.stop.cancel();
    let outcomes = server.execute(vec![create("n1"), Write::DeletePod(pod())]).await;
    assert_eq!(outcomes, [Outcome::Skipped, Outcome::Skipped]);
    assert!(server.seen().is_empty());
}

fn base(uid: &str) -> Write {
    Write::RollBack {
        resource_version: ResourceVersion(7),
        base: RevisionReference {
            name: "d-old".into(),
            uid: Uid::new(uid),
            resource_version: ResourceVersion(3),
        },
        attempt: "hash 60".into(),
    }
}

/// G20: the template of the stored revision is restored with one PATCH of the DaemonSet. A
/// refusal, and a revision that is another one by now, change nothing.
#[tokio::test]
async fn a_roll_back_reads_the_revision_and_patches_the_daemon_set() {
    let mut server = Server::new(|line, before| match line.split_once(' ').unwrap() {
        ("GET", _) => (200, json!({ "metadata": { "uid": "r-1" }, "data": { "spec": {} } })),
        ("PATCH", _) if before == 0 => (
            200,
            json!({ "metadata": { "name": "d", "uid": "u",
            "resourceVersion": "9" } }),
        ),
        _ => (403, json!({ "code": 403, "reason": "Forbidden", "message": "cannot patch" })),
    });
    let outcomes = server.execute(vec![base("r-1")]).await;
    assert!(matches!(&outcomes[..], [Outcome::Written { .. }]), "{outcomes:?}");
    let paths: Vec<String> = server.seen();
    assert!(paths[0].starts_with("GET /apis/apps/v1/namespaces/"), "{paths:?}");
    assert!(paths[1].starts_with("PATCH /apis/apps/v1/namespaces/"), "{paths:?}");
    assert!(paths[0].ends_with("/controllerrevisions/d-old"), "{paths:?}");
    let outcomes = server.execute(vec![base("r-1")]).await;
    assert!(
        matches!(&outcomes[..], [Outcome::Failed { message }]
            if message.starts_with("roll back to d-old: ") && message.contains("cannot patch")),
        "{outcomes:?}"
    );
    let outcomes = server.execute(vec![base("another")]).await;
    assert!(
        matches!(&outcomes[..], [Outcome::Failed { message }]
            if message.starts_with("roll back to d-old: the revision is deleted")),
        "{outcomes:?}"
    );
    assert_eq!(server.seen().len(), 5);
}

/// A base that is deleted is not the DaemonSet: the core must not wait for the DaemonSet's
/// deletion.
#[tokio::test]
async fn a_roll_back_to_a_deleted_revision_fails() {
    let mut server = Server::new(|_, _| {
        (404, json!({ "code": 404, "reason": "NotFound", "message": "not found" }))
    });
    let outcomes = server.execute(vec![base("r-1")]).await;
    assert!(
        matches!(&outcomes[..], [Outcome::Failed { message }]
            if message == "roll back to d-old: the revision is deleted"),
        "{outcomes:?}"
    );
    assert_eq!(server.seen().len(), 1);
}
