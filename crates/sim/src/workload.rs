//! What people and machines do to a cluster, drawn from the world's chance.

mod daemon_set;
mod node;
mod pod;

use everynode_core::time::Timestamp;
use everynode_sandbox::kind::Kind;
use everynode_sandbox::store::{DeleteOptions, Object, Status};
use rand::RngExt;
use serde_json::{Value, json};

use crate::truth;
use crate::world::World;

pub const NAMESPACE: &str = "default";

pub use daemon_set::manifest;

/// One thing, at random.
pub fn act(world: &mut World) {
    match world.rng.random_range(0..100) {
        0..35 => daemon_set::act(world),
        35..60 => node::act(world),
        60..90 => pod::act(world),
        90..94 => world.crash_or_depose(),
        _ => {}
    }
    world.settle();
}

/// Makes everything able to come to rest: nodes up, pods able to become ready.
pub fn heal(world: &mut World) {
    node::heal(world);
    pod::heal(world);
    world.settle();
}

impl World {
    fn crash_or_depose(&mut self) {
        if self.rng.random_ratio(1, 2) {
            self.crash();
        } else {
            self.depose();
        }
    }

    /// One of the objects of a kind.
    fn any(&mut self, kind: &'static Kind) -> Option<Value> {
        let count = self.cluster.store().count(kind);
        if count == 0 {
            return None;
        }
        let index = self.rng.random_range(0..count);
        self.cluster.store().iter(kind, None).nth(index).map(|object| object.value().clone())
    }

    /// Changes an object; whoever loses a race tries something else.
    fn edit(&mut self, kind: &'static Kind, object: Value) {
        let (name, namespace) = place(&object);
        let options = self.at();
        let done = self.store().update(kind, &namespace, &name, object, &options);
        self.note("edits", kind, &name, done.err());
    }

    fn create(&mut self, kind: &'static Kind, object: Value) {
        let (name, namespace) = place(&object);
        let options = self.at();
        let done = self.store().create(kind, &namespace, object, &options);
        self.note("creates", kind, &name, done.err());
    }

    fn delete(&mut self, kind: &'static Kind, object: &Value, delete: &DeleteOptions) {
        let (name, namespace) = place(object);
        let options = self.at();
        let done = self.store().delete(kind, &namespace, &name, delete, &options);
        self.note("deletes", kind, &name, done.err());
    }

    fn note(&mut self, verb: &str, kind: &Kind, name: &str, refused: Option<Status>) {
        let refused = refused.map_or(String::new(), |status| format!(": refused, {status}"));
        self.say(|| format!("somebody {verb} {} {name}{refused}", kind.kind));
    }

    /// The node is no longer only ours to change.
    fn disturb_node(&mut self, node: &str) {
        let now = self.now;
        self.checks.disturb(node, now);
    }

    fn disturb_pod(&mut self, pod: &Value) {
        if let Some(node) = node_of(pod) {
            self.disturb_node(&node);
        }
    }
}

fn node_of(pod: &Value) -> Option<String> {
    truth::pod(&Object::new(pod.clone()))?.target_node_name().map(ToString::to_string)
}

fn place(object: &Value) -> (String, String) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("name"), text("namespace"))
}

/// When the chaos ends.
pub fn run(world: &mut World, actions: u32) {
    for _ in 0..actions {
        let pause = match world.rng.random_range(0..10) {
            0..5 => world.rng.random_range(0..200),
            5..9 => world.rng.random_range(200..4_000),
            _ => world.rng.random_range(4_000..60_000),
        };
        world.run_until(Timestamp(world.now.0 + pause));
        if world.violation.is_some() {
            return;
        }
        act(world);
    }
}

fn pick<T: Clone>(world: &mut World, choices: &[T]) -> T {
    choices[world.rng.random_range(0..choices.len())].clone()
}

fn owner(uid: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": true}])
}
