//! S11 as users see it: the objects that remain after a deletion.

use crate::json::json;

use super::*;
use crate::kinds::{CONFIG_MAP, CONTROLLER_REVISION, DAEMON_SET, POD, SECRET, SERVICE_ACCOUNT};
use crate::store::Options;

const NOW: Timestamp = Timestamp::from_seconds(1_767_225_600);

struct Fixture {
    registry: Registry,
    collector: GarbageCollector,
}

impl Fixture {
    fn new(window: usize) -> Self {
        let registry = Registry::new(&Options { seed: 1, window, ..Options::default() }, NOW);
        Self { registry, collector: GarbageCollector::default() }
    }

    fn create(&mut self, kind: &'static Kind, namespace: &str, object: Value) -> Arc<Object> {
        self.registry.create(kind, namespace, object, &WriteOptions::at(NOW)).expect("it is valid")
    }

    /// A DaemonSet `ds` with two bound pods, one unbound pod, and a revision.
    fn daemon_set(&mut self, namespace: &str) -> Arc<Object> {
        let template = json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        });
        let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
        let owner =
            self.create(&DAEMON_SET, namespace, json!({"metadata": {"name": "ds"}, "spec": spec}));
        let owners = json!([reference(&owner)]);
        for (name, node) in [("p1", "n1"), ("p2", "n2"), ("p3", "")] {
            let mut pod = template.clone();
            pod["metadata"]["name"] = json!(name);
            pod["metadata"]["ownerReferences"] = owners.clone();
            if !node.is_empty() {
                pod["spec"]["nodeName"] = json!(node);
            }
            self.create(&POD, namespace, pod);
        }
        let revision = json!({
            "metadata": {"name": "r", "ownerReferences": owners}, "revision": 1, "data": {},
        });
        self.create(&CONTROLLER_REVISION, namespace, revision);
        owner
    }

    fn delete(&mut self, kind: &'static Kind, namespace: &str, name: &str, policy: Option<&str>) {
        let delete = DeleteOptions {
            propagation_policy: policy.and_then(PropagationPolicy::parse),
            ..DeleteOptions::default()
        };
        self.registry
            .delete(kind, namespace, name, &delete, &WriteOptions::at(NOW))
            .expect("it is there");
    }

    fn collect(&mut self) {
        for _ in 0..1000 {
            if !self.collector.step(&mut self.registry, NOW, 2) {
                return;
            }
        }
        panic!("the collector does not come to rest");
    }

    /// Simulates the kubelet: removes pods that are terminating.
    fn end_pods(&mut self) {
        let ending: Vec<_> = self
            .registry
            .store()
            .iter(&POD, None)
            .filter(|pod| pod.is_terminating())
            .cloned()
            .collect();
        for pod in ending {
            let now = DeleteOptions::now();
            self.registry
                .delete(&POD, pod.namespace(), pod.name(), &now, &WriteOptions::at(NOW))
                .expect("it is there");
        }
    }

    /// The names of the objects in a namespace; a `!` marks those that are being deleted.
    fn left(&self, namespace: &str) -> String {
        let names: Vec<String> = [&DAEMON_SET, &POD, &CONTROLLER_REVISION, &CONFIG_MAP]
            .into_iter()
            .flat_map(|kind| self.registry.store().iter(kind, Some(namespace)))
            .map(|object| {
                let mark = if object.is_terminating() { "!" } else { "" };
                format!("{}{mark}", object.name())
            })
            .collect();
        names.join(" ")
    }
}

fn reference(owner: &Object) -> Value {
    json!({
        "apiVersion": owner.value()["apiVersion"], "kind": owner.value()["kind"],
        "name": owner.name(), "uid": owner.uid(), "controller": true, "blockOwnerDeletion": true,
    })
}

/// S11: background deletion removes the owner first and then its dependents; bound pods keep their
/// grace period.
#[test]
fn background_deletion_takes_the_owner_first() {
    let mut fixture = Fixture::new(100);
    fixture.daemon_set("default");
    fixture.collect();
    assert_eq!(fixture.left("default"), "ds p1 p2 p3 r");
    fixture.delete(&DAEMON_SET, "default", "ds", None);
    assert_eq!(fixture.left("default"), "p1 p2 p3 r");
    fixture.collect();
    assert_eq!(fixture.left("default"), "p1! p2!");
    fixture.end_pods();
    fixture.collect();
    assert_eq!(fixture.left("default"), "");
}

/// S11: in foreground deletion the owner stays until the last blocking dependent is gone.
#[test]
fn foreground_deletion_takes_the_owner_last() {
    let mut fixture = Fixture::new(100);
    fixture.daemon_set("default");
    fixture.delete(&DAEMON_SET, "default", "ds", Some("Foreground"));
    fixture.collect();
    assert_eq!(fixture.left("default"), "ds! p1! p2!");
    fixture.end_pods();
    fixture.collect();
    assert_eq!(fixture.left("default"), "");
}

/// S11: foreground deletion deletes all dependents and waits only for those that block.
#[test]
fn a_nonblocking_dependent_does_not_delay_its_owner() {
    let mut fixture = Fixture::new(100);
    let owner = fixture.daemon_set("default");
    let mut owners = json!([reference(&owner)]);
    owners[0]["blockOwnerDeletion"] = json!(false);
    let metadata =
        json!({"name": "lax", "ownerReferences": owners, "finalizers": ["example.dev/wait"]});
    fixture.create(&CONFIG_MAP, "default", json!({"metadata": metadata}));
    fixture.collect();
    fixture.delete(&DAEMON_SET, "default", "ds", Some("Foreground"));
    fixture.collect();
    assert_eq!(fixture.left("default"), "ds! p1! p2! lax!");
    fixture.end_pods();
    fixture.collect();
    assert_eq!(fixture.left("default"), "lax!");
}

/// S11: orphaned dependents stay, without the owner's reference.
#[test]
fn orphaning_leaves_the_dependents() {
    let mut fixture = Fixture::new(100);
    fixture.daemon_set("default");
    fixture.delete(&DAEMON_SET, "default", "ds", Some("Orphan"));
    fixture.collect();
    assert_eq!(fixture.left("default"), "p1 p2 p3 r");
    assert!(
        fixture
            .registry
            .store()
            .iter(&POD, None)
            .all(|pod| pod.owner_references().next().is_none())
    );
}

/// S11: an owner with the same name and another UID is a different object, and an owner of an
/// unknown kind is left alone.
#[test]
fn owners_are_distinguished_by_uid() {
    let mut fixture = Fixture::new(100);
    let owner = fixture.create(&CONFIG_MAP, "default", json!({"metadata": {"name": "owner"}}));
    let mut absent = reference(&owner);
    absent["uid"] = json!("11111111-2222-4333-8444-555555555555");
    let unknown = json!({"apiVersion": "apps/v1", "kind": "Fleet", "name": "x", "uid": "u"});
    for (name, owners) in [
        ("kept", json!([reference(&owner)])),
        ("lost", json!([absent])),
        (
            "one-left",
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()},
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u2"}]),
        ),
        ("unknown", json!([unknown])),
    ] {
        let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
        fixture.create(&CONFIG_MAP, "default", object);
    }
    fixture.collect();
    assert_eq!(fixture.left("default"), "kept one-left owner unknown");
    let one_left =
        fixture.registry.store().find(&CONFIG_MAP, "default", "one-left").expect("it is there");
    assert_eq!(one_left.owner_references().count(), 1);
}

/// S11: a deleted namespace is emptied, with the grace periods of its pods, and then removed.
#[test]
fn a_deleted_namespace_is_emptied() {
    let mut fixture = Fixture::new(100);
    fixture.create(&NAMESPACE, "", json!({"metadata": {"name": "team"}}));
    fixture.daemon_set("team");
    fixture.create(&CONFIG_MAP, "team", json!({"metadata": {"name": "cm"}}));
    fixture.delete(&NAMESPACE, "", "team", None);
    fixture.collect();
    assert_eq!(fixture.left("team"), "p1! p2!");
    assert!(fixture.registry.store().find(&NAMESPACE, "", "team").is_some());
    fixture.end_pods();
    fixture.collect();
    assert!(fixture.registry.store().find(&NAMESPACE, "", "team").is_none());
}

/// S7, S11: a collector that missed changes finds the work that it missed.
#[test]
fn the_collector_recovers_from_missed_changes() {
    let mut fixture = Fixture::new(3);
    fixture.daemon_set("default");
    fixture.collect();
    fixture.delete(&DAEMON_SET, "default", "ds", None);
    for index in 0..5 {
        let name = format!("ds-{index}");
        fixture.create(&CONFIG_MAP, "default", json!({"metadata": {"name": name}}));
        let daemon_set = json!({
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"b": "c"}},
                "template": {
                    "metadata": {"labels": {"b": "c"}},
                    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
                },
            },
        });
        fixture.create(&DAEMON_SET, "default", daemon_set);
    }
    fixture.collect();
    fixture.end_pods();
    fixture.collect();
    assert_eq!(fixture.registry.store().count(&POD), 0);
    assert_eq!(fixture.registry.store().count(&CONTROLLER_REVISION), 0);
}

/// S11: with a delay, a deleted namespace keeps its content until the delay has passed.
#[test]
fn a_deleted_namespace_keeps_its_content_for_the_delay() {
    let mut fixture = Fixture::new(1_000);
    fixture.collector = GarbageCollector::new(2_000);
    fixture.create(&NAMESPACE, "", json!({"metadata": {"name": "team"}}));
    fixture.create(&CONFIG_MAP, "team", json!({"metadata": {"name": "settings"}}));
    fixture.delete(&NAMESPACE, "", "team", None);
    fixture.collect();
    let due = Timestamp(NOW.0 + 2_000);
    assert_eq!(fixture.collector.next(), Some(due));
    assert!(fixture.registry.store().find(&CONFIG_MAP, "team", "settings").is_some());
    while fixture.collector.step(&mut fixture.registry, due, 10) {}
    assert_eq!(fixture.collector.next(), None);
    assert!(fixture.registry.store().find(&CONFIG_MAP, "team", "settings").is_none());
    assert!(fixture.registry.store().find(&NAMESPACE, "", "team").is_none());
}

/// S11, S13: the token of a service account goes with the account, and one of an account that does
/// not exist goes at once. Other Secrets stay.
#[test]
fn tokens_go_with_their_service_account() {
    let mut fixture = Fixture::new(100);
    fixture.create(&SERVICE_ACCOUNT, "default", json!({"metadata": {"name": "agent"}}));
    let token = |name: &str, account: &str| {
        json!({
            "metadata": {
                "name": name,
                "annotations": {"kubernetes.io/service-account.name": account},
            },
            "type": "kubernetes.io/service-account-token",
        })
    };
    let mut plain = token("plain", "agent");
    plain["type"] = json!("Opaque");
    let mut older = token("older", "agent");
    older["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!("other");
    for secret in [token("token", "agent"), token("early", "missing"), plain, older] {
        fixture.create(&SECRET, "default", secret);
    }
    fixture.collect();
    let names = |fixture: &Fixture| -> Vec<String> {
        let secrets = fixture.registry.store().iter(&SECRET, None);
        secrets.map(|secret| secret.name().to_owned()).collect()
    };
    assert_eq!(names(&fixture), ["older", "plain", "token"]);
    fixture.delete(&SERVICE_ACCOUNT, "default", "agent", None);
    fixture.collect();
    assert_eq!(names(&fixture), ["older", "plain"]);
}
