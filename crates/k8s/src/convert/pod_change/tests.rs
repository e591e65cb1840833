//! Checks what pods state of their changes in place, in JSON and in protobuf.

use std::collections::BTreeMap;

use everynode_core::api::{ChangeState, Pod, Readiness, ResourceVersion, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::convert::{Interner, PodObject, pod, pod_of_protobuf};

/// A container status: name, ID, restarts, and since when it runs; waiting if that is `None`.
type Container = (&'static str, &'static str, i32, Option<i64>);

/// A pod as its kubelet states it.
#[derive(Clone, Debug)]
struct Stated {
    changing: Option<Value>,
    restarts: Option<&'static str>,
    /// `metadata.generation` and `status.observedGeneration`; zero if there is none.
    generations: (i64, i64),
    /// Types, statuses and reasons.
    conditions: Vec<(&'static str, &'static str, &'static str)>,
    containers: Vec<Container>,
    sidecars: Vec<Container>,
}

/// A change of the image of container `a` that the kubelet has done.
fn done() -> Stated {
    Stated {
        changing: Some(changing(&["a"], false)),
        restarts: None,
        generations: (2, 2),
        conditions: Vec::new(),
        containers: vec![("a", "a-2", 1, Some(100)), ("b", "b-1", 0, Some(10))],
        sidecars: Vec::new(),
    }
}

/// The statement that these containers start anew, whose IDs ended with `-1` before.
fn changing(containers: &[&str], resizes: bool) -> Value {
    let containers: BTreeMap<_, _> =
        containers.iter().map(|name| (*name, format!("{name}-1"))).collect();
    let since = "1970-01-01T00:01:00Z";
    let text = json!({ "to": "h2", "since": since, "containers": containers, "resizes": resizes });
    text.to_string().into()
}

fn time(seconds: i64) -> String {
    crate::record::time_text(Timestamp::from_seconds(seconds))
}

/// The annotation of a pod with these restarts, which was changed at no stated time.
fn changed_text(restarts: &str) -> String {
    format!(r#"{{"since":"","restarts":{restarts}}}"#)
}

impl Stated {
    fn annotations(&self) -> BTreeMap<&'static str, String> {
        let changing = self.changing.as_ref().and_then(Value::as_str).map(str::to_owned);
        let changing = changing.map(|text| (CHANGING_ANNOTATION, text));
        let restarts = self.restarts.map(|text| (CHANGED_ANNOTATION, changed_text(text)));
        changing.into_iter().chain(restarts).collect()
    }

    fn json(&self) -> Value {
        let statuses = |containers: &[Container]| -> Value {
            let status = |(name, id, restarts, since): &Container| {
                let state = match since {
                    Some(since) => json!({ "running": { "startedAt": time(*since) } }),
                    None => json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
                };
                json!({ "name": name, "containerID": id, "restartCount": restarts, "state": state })
            };
            containers.iter().map(status).collect()
        };
        let condition = |(kind, status, reason): &(&str, &str, &str)| {
            json!({ "type": kind, "status": status, "reason": reason,
                "lastTransitionTime": time(50) })
        };
        let mut pod = json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": "u",
                "resourceVersion": "7", "annotations": self.annotations() },
            "spec": {},
            "status": {
                "phase": "Running",
                "conditions": self.conditions.iter().map(condition).collect::<Value>(),
                "containerStatuses": statuses(&self.containers),
                "initContainerStatuses": statuses(&self.sidecars),
            },
        });
        let (generation, observed) = self.generations;
        if generation != 0 {
            pod["metadata"]["generation"] = generation.into();
        }
        if observed != 0 {
            pod["status"]["observedGeneration"] = observed.into();
        }
        pod
    }

    fn protobuf(&self) -> Bytes {
        let mut metadata = Vec::new();
        field(&mut metadata, 1, b"p");
        field(&mut metadata, 3, b"ns");
        field(&mut metadata, 5, b"u");
        field(&mut metadata, 6, b"7");
        number(&mut metadata, 7, self.generations.0);
        for (key, value) in self.annotations() {
            field(&mut metadata, 12, &strings(&[(1, key), (2, &value)]));
        }
        let mut status = strings(&[(1, "Running")]);
        for (kind, is, reason) in &self.conditions {
            let mut condition = strings(&[(1, kind), (2, is), (5, reason)]);
            field(&mut condition, 4, &seconds(50));
            field(&mut status, 2, &condition);
        }
        let lists = [(8, &self.containers), (10, &self.sidecars)];
        for (tag, container) in
            lists.into_iter().flat_map(|(tag, all)| all.iter().map(move |it| (tag, it)))
        {
            field(&mut status, tag, &container_of_protobuf(container));
        }
        number(&mut status, 17, self.generations.1);
        let mut pod = Vec::new();
        field(&mut pod, 1, &metadata);
        field(&mut pod, 2, &[]);
        field(&mut pod, 3, &status);
        pod.into()
    }

    /// The pod, of which both encodings say the same.
    fn pod(&self) -> Pod {
        let interner = &mut Interner::default();
        let of_json = pod(self.json().to_string().as_bytes(), interner).unwrap();
        let of_protobuf = pod_of_protobuf(&self.protobuf(), interner).unwrap();
        let (PodObject::Pod(of_json), PodObject::Pod(of_protobuf)) = (of_json, of_protobuf) else {
            panic!("{self:?}");
        };
        assert_eq!(of_json.change, of_protobuf.change, "{self:?}");
        assert_eq!(of_json.restarts, of_protobuf.restarts, "{self:?}");
        assert_eq!(of_json.readiness, of_protobuf.readiness, "{self:?}");
        *of_json
    }

    fn state(&self) -> Option<ChangeState> {
        self.pod().change.map(|change| change.state)
    }
}

fn container_of_protobuf((name, id, restarts, since): &Container) -> Vec<u8> {
    let mut state = Vec::new();
    match since {
        Some(since) => {
            let mut running = Vec::new();
            field(&mut running, 1, &seconds(*since));
            field(&mut state, 2, &running);
        }
        None => field(&mut state, 1, &strings(&[(1, "CrashLoopBackOff")])),
    }
    let mut container = strings(&[(1, name), (8, id)]);
    field(&mut container, 2, &state);
    number(&mut container, 5, (*restarts).into());
    container
}

fn seconds(seconds: i64) -> Vec<u8> {
    let mut time = Vec::new();
    number(&mut time, 1, seconds);
    time
}

fn strings(fields: &[(u32, &str)]) -> Vec<u8> {
    let mut message = Vec::new();
    fields.iter().for_each(|(tag, text)| field(&mut message, *tag, text.as_bytes()));
    message
}

/// Appends a field of bytes.
fn field(message: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    prost::encoding::bytes::encode(tag, &bytes.to_vec(), message);
}

/// Appends a field with an integer.
fn number(message: &mut Vec<u8>, tag: u32, number: i64) {
    prost::encoding::int64::encode(tag, &number, message);
}

/// G56: a change is done once the kubelet has seen its generation, and the containers that it
/// states run anew.
#[test]
fn a_change_is_done_once_its_containers_run_anew() {
    use ChangeState::{Done, UnderWay};
    let anew = ("a", "a-2", 1, Some(100));
    let other = ("b", "b-1", 0, Some(10));
    let of_two = changing(&["a", "b"], false);
    let none = changing(&[], false);
    for (change, generations, containers, sidecars, expected) in [
        (changing(&["a"], false), (2, 2), vec![anew, other], vec![], Done),
        (changing(&["a"], false), (2, 3), vec![anew, other], vec![], Done),
        // The kubelet has not seen the change.
        (changing(&["a"], false), (3, 2), vec![anew, other], vec![], UnderWay),
        (changing(&["a"], false), (2, 0), vec![anew, other], vec![], UnderWay),
        (changing(&["a"], false), (0, 0), vec![anew, other], vec![], UnderWay),
        // The container has not been restarted.
        (changing(&["a"], false), (2, 2), vec![("a", "a-1", 0, Some(10)), other], vec![], UnderWay),
        // It was restarted, and waits.
        (changing(&["a"], false), (2, 2), vec![("a", "a-2", 1, None), other], vec![], UnderWay),
        (changing(&["a"], false), (2, 2), vec![other], vec![], UnderWay),
        (of_two.clone(), (2, 2), vec![anew, other], vec![], UnderWay),
        (of_two, (2, 2), vec![anew], vec![("b", "b-2", 1, Some(100))], Done),
        (none.clone(), (2, 2), vec![other], vec![], Done),
        (none, (2, 1), vec![other], vec![], UnderWay),
    ] {
        let changing = Some(change);
        let stated = Stated { changing, generations, containers, sidecars, ..done() };
        assert_eq!(stated.state(), Some(expected), "{stated:?}");
    }
}

/// G56: a resize is under way while it is in progress or pending; the kubelet says whether its node
/// can ever have the resources.
#[test]
fn a_resize_is_done_once_it_is_neither_pending_nor_in_progress() {
    use ChangeState::{Done, ResizeDeferred, ResizeFails, ResizeInfeasible, UnderWay};
    let resize = changing(&[], true);
    for (change, generations, conditions, expected) in [
        (
            &resize,
            (2, 2),
            vec![("PodResizePending", "True", "Deferred")],
            ResizeDeferred { since: Timestamp(50_000) },
        ),
        (&resize, (2, 2), vec![("PodResizePending", "True", "Infeasible")], ResizeInfeasible),
        (&resize, (2, 2), vec![("PodResizeInProgress", "True", "")], UnderWay),
        (
            &resize,
            (2, 2),
            vec![("PodResizeInProgress", "True", "Error")],
            ResizeFails { since: Timestamp(50_000) },
        ),
        (
            &resize,
            (2, 2),
            vec![("PodResizeInProgress", "True", ""), ("PodResizePending", "True", "Deferred")],
            ResizeDeferred { since: Timestamp(50_000) },
        ),
        (&resize, (2, 2), vec![("PodResizePending", "False", "Infeasible")], Done),
        (&resize, (2, 2), vec![("Ready", "True", "")], Done),
        // What is pending is an earlier resize.
        (&resize, (3, 2), vec![("PodResizePending", "True", "Infeasible")], UnderWay),
        // It is not this change that resizes.
        (&changing(&[], false), (2, 2), vec![("PodResizePending", "True", "Deferred")], Done),
        // The container whose image changes, too, runs before.
        (&changing(&["b"], true), (2, 2), vec![], UnderWay),
    ] {
        let changing = Some(change.clone());
        let stated = Stated { changing, generations, conditions, ..done() };
        assert_eq!(stated.state(), Some(expected), "{stated:?}");
    }
}

/// G56: a pod states to which revision it is changed, and since when, at one version of it; a
/// malformed statement is none.
#[test]
fn a_pod_states_the_revision_to_which_it_is_changed() {
    let change = done().pod().change.unwrap();
    assert_eq!((change.to.hash.as_str(), change.since), ("h2", Timestamp::from_seconds(60)));
    assert_eq!(change.version, ResourceVersion(7));
    for malformed in ["", "h2", "{", "[]", "null", r#"{"to":"h2"}"#, r#"{"to":1,"since":""}"#] {
        let stated = Stated { changing: Some(malformed.into()), ..done() };
        assert_eq!(stated.state(), None, "{malformed}");
    }
    let minimal = r#"{"to":"h2","since":"soon"}"#;
    let change = Stated { changing: Some(minimal.into()), ..done() }.pod().change.unwrap();
    assert_eq!((change.state, change.since), (ChangeState::Done, Timestamp(0)));
    assert_eq!(Stated { changing: None, ..done() }.state(), None);
}

/// C25, G56: a pod that was changed in place is as old as before.
#[test]
fn a_change_in_place_makes_no_pod_younger() {
    let changed = |since: &str| format!(r#"{{"since":"{since}"}}"#);
    for (created, changed, creation_timestamp) in [
        (Some(10), Some(changed(&time(100))), 100),
        (Some(10), Some(changed(&time(5))), 10),
        (Some(10), Some(changed("soon")), 10),
        (Some(10), None, 10),
        (None, Some(changed(&time(100))), 100),
    ] {
        let mut json = Stated { changing: None, ..done() }.json();
        if let Some(created) = created {
            json["metadata"]["creationTimestamp"] = time(created).into();
        }
        if let Some(changed) = &changed {
            json["metadata"]["annotations"] = json!({ CHANGED_ANNOTATION: changed });
        }
        let stated = pod(json.to_string().as_bytes(), &mut Interner::default()).unwrap();
        let PodObject::Pod(pod) = stated else { panic!("{json}") };
        let expected = Timestamp::from_seconds(creation_timestamp);
        assert_eq!(pod.creation_timestamp, expected, "{json}");
        assert_eq!(pod.created(), created.map_or(expected, Timestamp::from_seconds), "{json}");
    }
}

/// G56: restarts count without those before the change, and those that it causes.
#[test]
fn restarts_count_from_the_change_on() {
    let count = |name, restarts| (name, "id", restarts, Some(10));
    for (restarts, containers, sidecars, expected) in [
        (None, vec![count("a", 3), count("b", 1)], vec![], 3),
        (Some(r#"{"a":3,"b":1}"#), vec![count("a", 3), count("b", 1)], vec![], 0),
        (Some(r#"{"a":3,"b":1}"#), vec![count("a", 3), count("b", 3)], vec![], 2),
        // It has yet to be restarted.
        (Some(r#"{"a":3}"#), vec![count("a", 2)], vec![], 0),
        (Some(r#"{"a":3}"#), vec![count("a", 3)], vec![count("s", 1)], 1),
        (Some(r#"{"a":3,"s":1}"#), vec![count("a", 4)], vec![count("s", 5)], 4),
        (Some(r#"{"a":0}"#), vec![count("a", 1000)], vec![], 255),
        (Some(r#"{"a":"3"}"#), vec![count("a", 3)], vec![], 3),
        (Some("3"), vec![count("a", 3)], vec![], 3),
    ] {
        for changing in [None, done().changing] {
            let (containers, sidecars) = (containers.clone(), sidecars.clone());
            let stated = Stated { changing, restarts, containers, sidecars, ..done() };
            assert_eq!(stated.pod().restarts, expected, "{stated:?}");
        }
    }
}

/// G56: a pod that was changed is ready since its last container has started: a container that
/// starts anew within a second may not make it unready.
#[test]
fn a_changed_pod_is_ready_since_its_last_container_has_started() {
    let ready = ("Ready", "True", "");
    let since = |seconds| Readiness::ReadySince(Timestamp::from_seconds(seconds));
    let at = |since| vec![("a", "a-2", 1, since), ("b", "b-1", 0, Some(10))];
    for (changing, restarts, conditions, containers, expected) in [
        (done().changing, None, vec![ready], at(Some(100)), since(100)),
        (None, Some("{}"), vec![ready], at(Some(100)), since(100)),
        (done().changing, None, vec![ready], at(Some(40)), since(50)),
        (done().changing, None, vec![ready], at(None), since(50)),
        (done().changing, None, vec![("Ready", "False", "")], at(Some(100)), Readiness::NotReady),
        (done().changing, None, vec![], at(Some(100)), Readiness::NotReady),
        // It was never changed.
        (None, None, vec![ready], at(Some(100)), since(50)),
    ] {
        let stated = Stated { changing, restarts, conditions, containers, ..done() };
        assert_eq!(stated.pod().readiness, expected, "{stated:?}");
    }
}
