//! Writes that users and other components make to the simulated cluster.

use everynode_sandbox::json::Value;
use everynode_sandbox::kind::Kind;
use everynode_sandbox::status::Status;
use everynode_sandbox::store::DeleteOptions;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::World;

impl World {
    /// The stored object with a name.
    pub fn stored(&self, kind: &'static Kind, namespace: &str, name: &str) -> Option<Value> {
        Some(self.cluster.store().find(kind, namespace, name)?.value().clone())
    }

    /// All stored objects of a kind.
    pub fn all(&self, kind: &'static Kind) -> Vec<Value> {
        self.cluster.store().iter(kind, None).map(|object| object.value().clone()).collect()
    }

    /// Returns a random object of a kind.
    pub(crate) fn random_object(&self, kind: &'static Kind, rng: &mut Pcg64Mcg) -> Option<Value> {
        let count = self.cluster.store().count(kind);
        if count == 0 {
            return None;
        }
        let index = rng.random_range(0..count);
        self.cluster.store().iter(kind, None).nth(index).map(|object| object.value().clone())
    }

    /// Updates an object. A refused update is recorded and not retried.
    pub fn update(&mut self, kind: &'static Kind, object: Value) {
        let (name, namespace) = name_and_namespace(&object);
        let options = self.write_options();
        let done = self.registry().update(kind, &namespace, &name, object, &options);
        self.log_write("edits", kind, &name, done.err());
    }

    /// Updates the status of an object. A refused update is recorded and not retried.
    pub fn update_status(&mut self, kind: &'static Kind, object: Value) {
        let (name, namespace) = name_and_namespace(&object);
        let options = self.write_options();
        let done = self.registry().update_status(kind, &namespace, &name, object, &options);
        self.log_write("sets the status of", kind, &name, done.err());
    }

    /// Creates an object. A refused creation is recorded and not retried.
    pub fn create(&mut self, kind: &'static Kind, object: Value) {
        let (name, namespace) = name_and_namespace(&object);
        let options = self.write_options();
        let done = self.registry().create(kind, &namespace, object, &options);
        self.log_write("creates", kind, &name, done.err());
    }

    /// Deletes an object. A refused deletion is recorded and not retried.
    pub fn delete(&mut self, kind: &'static Kind, object: &Value, delete: &DeleteOptions) {
        let (name, namespace) = name_and_namespace(object);
        let options = self.write_options();
        let done = self.registry().delete(kind, &namespace, &name, delete, &options);
        self.log_write("deletes", kind, &name, done.err());
    }

    /// Adds a write to the transcript.
    pub fn log_write(&mut self, verb: &str, kind: &Kind, name: &str, refused: Option<Status>) {
        let refused = refused.map_or(String::new(), |status| format!(": refused, {status}"));
        self.log(|| format!("somebody {verb} {} {name}{refused}", kind.kind));
    }
}

/// Returns the name and the namespace of an object.
pub(crate) fn name_and_namespace(object: &Value) -> (String, String) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("name"), text("namespace"))
}
