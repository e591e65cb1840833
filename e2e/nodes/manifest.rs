//! The DaemonSet of the stories, and changes of it.

use serde_json::{Value, json};

use super::state::AGENT;
use crate::world::guard::POLICY;
use crate::world::manifest::with;

/// The repository of the images that the nodes have. The tags `1`, `2` and `3` are alike; `crash`
/// exits with 1 after 2 seconds, `slow` is ready after 20. `READY_AFTER`, `STOP_AFTER` and
/// `CRASH_AFTER` set such times.
const REPOSITORY: &str = "everynode.test/agent";

/// A DaemonSet that replaces one pod at a time.
pub(crate) fn agent() -> Value {
    let probe = |path: &str| json!({ "path": path, "port": 8080 });
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": AGENT },
        "spec": {
            "selector": { "matchLabels": { "app": AGENT } },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": {
                "maxUnavailable": 1, "maxSurge": 0 } },
            "template": {
                "metadata": { "labels": { "app": AGENT } },
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{
                        "name": "agent",
                        "image": image("1"),
                        "readinessProbe": { "httpGet": probe("/ready"), "periodSeconds": 1 },
                        "livenessProbe": { "httpGet": probe("/alive"), "periodSeconds": 2,
                            "failureThreshold": 2 },
                        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
                    }],
                },
            },
        },
    })
}

pub(crate) fn image(tag: &str) -> String {
    format!("{REPOSITORY}:{tag}")
}

/// Changes of the DaemonSet, as JSON merge patches.
pub(crate) trait Change {
    /// Changes its container.
    fn container(self, patch: Value) -> Value;
    /// Changes the spec of its pods.
    fn pod(self, patch: Value) -> Value;
    /// Changes its own spec.
    fn spec(self, patch: Value) -> Value;
    fn image(self, tag: &str) -> Value;
    /// Sets the environment of the container.
    fn env(self, variables: &[(&str, &str)]) -> Value;
    /// Runs this script before the agent; it has to end with `exec /bin/agent` if that is to run.
    fn script(self, script: &str) -> Value;
    /// Replaces pods by new ones beside the old ones.
    fn surge(self) -> Value;
    /// Guards its rollouts with a policy.
    fn policy(self, policy: &str) -> Value;
    /// Runs another container before the agent; with `restartPolicy: Always` beside it.
    fn init(self, container: Value) -> Value;
}

impl Change for Value {
    fn container(mut self, patch: Value) -> Value {
        let container = &mut self["spec"]["template"]["spec"]["containers"][0];
        *container = with(container.take(), patch);
        self
    }

    fn pod(self, patch: Value) -> Value {
        self.spec(json!({ "template": { "spec": patch } }))
    }

    fn spec(self, patch: Value) -> Value {
        with(self, json!({ "spec": patch }))
    }

    fn image(self, tag: &str) -> Value {
        self.container(json!({ "image": image(tag) }))
    }

    fn env(self, variables: &[(&str, &str)]) -> Value {
        let variables = variables.iter().map(|(name, value)| {
            json!({ "name": name,
            "value": value })
        });
        self.container(json!({ "env": variables.collect::<Vec<_>>() }))
    }

    fn script(self, script: &str) -> Value {
        self.container(json!({ "command": ["sh", "-c", script] }))
    }

    fn surge(self) -> Value {
        self.spec(json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": 1,
            "maxUnavailable": 0 } } }))
    }

    fn policy(self, policy: &str) -> Value {
        with(self, json!({ "metadata": { "annotations": { POLICY: policy } } }))
    }

    fn init(mut self, container: Value) -> Value {
        let containers = &mut self["spec"]["template"]["spec"]["initContainers"];
        let mut all = containers.as_array().cloned().unwrap_or_default();
        let container = with(json!({ "image": image("1") }), container);
        all.push(container);
        *containers = all.into();
        self
    }
}
