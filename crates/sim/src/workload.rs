//! What people and machines do to a cluster, drawn from the world's chance.

mod daemon_set;
mod node;
mod pod;

use everynode_sandbox::kind::Kind;
use everynode_sandbox::status::Status;
use everynode_sandbox::store::DeleteOptions;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::world::World;

pub const NAMESPACE: &str = "default";

pub use daemon_set::impersonate_revision;
pub use daemon_set::manifest;
pub use pod::impersonate;

/// What somebody does after a pause. Everything else about it is drawn from its own chance, so that it stays what it
/// is when others are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub pause_ms: i64,
    pub act: Act,
    pub chance: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    DaemonSet,
    Node,
    Pod,
    /// The leader crashes.
    Crash,
    /// The leader can't renew its lease.
    Depose,
    Nothing,
}

impl Step {
    pub fn some(rng: &mut Pcg64Mcg) -> Self {
        let pause_ms = match rng.random_range(0..10) {
            0..5 => rng.random_range(0..200),
            5..9 => rng.random_range(200..4_000),
            _ => rng.random_range(4_000..60_000),
        };
        let act = match rng.random_range(0..100) {
            0..36 => Act::DaemonSet,
            36..62 => Act::Node,
            62..93 => Act::Pod,
            93..95 => Act::Crash,
            95..97 => Act::Depose,
            _ => Act::Nothing,
        };
        Self { pause_ms, act, chance: rng.next_u64() }
    }

    /// Lets time pass, and does it.
    pub fn take(self, world: &mut World) {
        world.run_for(self.pause_ms);
        if world.violation.is_some() {
            return;
        }
        let rng = &mut Pcg64Mcg::seed_from_u64(self.chance);
        match self.act {
            Act::DaemonSet => daemon_set::act(world, rng),
            Act::Node => node::act(world, rng),
            Act::Pod => pod::act(world, rng),
            Act::Crash => world.crash(),
            Act::Depose => world.depose(),
            Act::Nothing => {}
        }
        world.settle();
    }
}

/// Makes everything able to come to rest: nodes up, pods able to become ready.
pub fn heal(world: &mut World) {
    node::heal(world);
    pod::heal(world);
    world.settle();
}

impl World {
    /// One of the objects of a kind.
    fn any(&self, kind: &'static Kind, rng: &mut Pcg64Mcg) -> Option<Value> {
        let count = self.cluster.store().count(kind);
        if count == 0 {
            return None;
        }
        let index = rng.random_range(0..count);
        self.cluster.store().iter(kind, None).nth(index).map(|object| object.value().clone())
    }

    /// Changes an object; whoever loses a race tries something else.
    fn edit(&mut self, kind: &'static Kind, object: Value) {
        let (name, namespace) = place(&object);
        let options = self.at();
        let done = self.registry().update(kind, &namespace, &name, object, &options);
        self.note("edits", kind, &name, done.err());
    }

    fn create(&mut self, kind: &'static Kind, object: Value) {
        let (name, namespace) = place(&object);
        let options = self.at();
        let done = self.registry().create(kind, &namespace, object, &options);
        self.note("creates", kind, &name, done.err());
    }

    fn delete(&mut self, kind: &'static Kind, object: &Value, delete: &DeleteOptions) {
        let (name, namespace) = place(object);
        let options = self.at();
        let done = self.registry().delete(kind, &namespace, &name, delete, &options);
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
        let (name, namespace) = place(pod);
        let pod = self.checks.truth.pod(&namespace, &name);
        if let Some(node) = pod.and_then(|pod| pod.target_node_name()).map(ToString::to_string) {
            self.disturb_node(&node);
        }
    }

    fn note_labels(&mut self, pod: &Value) {
        let now = self.now;
        self.checks.relabel(pod["metadata"]["uid"].as_str().unwrap_or_default(), now);
    }
}

fn place(object: &Value) -> (String, String) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("name"), text("namespace"))
}

fn pick<T: Clone>(rng: &mut Pcg64Mcg, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())].clone()
}

fn owner(uid: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": true}])
}
