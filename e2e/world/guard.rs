//! Guarded and paused rollouts: what the controller states of them, and which pods they have.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::process::Command;

use super::command::Output;
use super::manifest::{daemon_set, with};
use super::pod::is_available;
use super::process::everynode_program;
use super::{World, eventually};

/// The annotation of a DaemonSet that holds a policy.
pub(crate) const POLICY: &str = "everynode.dev/rollout-policy";

/// A DaemonSet whose rollouts this policy guards, of which two nodes may be unavailable at a time.
pub(crate) fn guarded(name: &str, policy: &str) -> Value {
    let annotations = json!({ "metadata": { "annotations": { POLICY: policy } } });
    let strategy = json!({ "spec": { "updateStrategy": { "rollingUpdate": {
        "maxUnavailable": 2 } } } });
    with(with(daemon_set(name), annotations), strategy)
}

impl World {
    /// Runs a command of `everynode` in the test's namespace.
    pub(crate) async fn everynode(&self, arguments: &[&str]) -> Result<Output> {
        self.everynode_with_input(arguments, "").await
    }

    pub(crate) async fn everynode_with_input(
        &self,
        arguments: &[&str],
        input: &str,
    ) -> Result<Output> {
        let mut command = Command::new(everynode_program());
        command.args(arguments).args(["--namespace", &self.namespace]);
        self.finish(command, input).await
    }

    /// Sets the policy of a DaemonSet; null removes it.
    pub(crate) async fn set_policy(&self, name: &str, policy: Value) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { POLICY: policy } } });
        self.patch_daemon_set(name, patch).await.map(drop)
    }

    /// Waits until the condition `Progressing` has this reason.
    pub(crate) async fn reaches(&self, name: &str, reason: &str) -> Result<()> {
        let what = format!("the rollout states {reason}");
        eventually(&what, async || self.stated(name, reason).await).await
    }

    /// Fails unless the condition `Progressing` has this reason, and the newest spec is observed.
    pub(crate) async fn stated(&self, name: &str, reason: &str) -> Result<()> {
        let conditions = self.conditions(name).await?;
        ensure!(conditions["Progressing"] == reason, "{conditions}");
        let daemon_set = self.daemon_sets().get(name).await?;
        let observed = daemon_set.status.unwrap_or_default().observed_generation;
        ensure!(observed == daemon_set.metadata.generation, "generation {observed:?} is observed");
        Ok(())
    }

    /// The reasons of the DaemonSet's conditions by their types.
    pub(crate) async fn conditions(&self, name: &str) -> Result<Value> {
        let status = self.daemon_sets().get(name).await?.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default().into_iter();
        Ok(conditions.map(|condition| (condition.type_, json!(condition.reason))).collect())
    }

    /// The number of pods by image.
    pub(crate) async fn images(&self, name: &str) -> Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for pod in self.pods_of(name).await? {
            *counts.entry(image_of(&pod)).or_default() += 1;
        }
        Ok(counts)
    }

    /// Fails unless each node that should run a pod has one that is available, and no other one.
    pub(crate) async fn all_available(&self, name: &str) -> Result<()> {
        let ds = self.daemon_sets().get(name).await?;
        let min_ready_seconds = ds.spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        let pods = self.pods_of(name).await?;
        let available = pods.iter().filter(|pod| is_available(pod, min_ready_seconds)).count();
        let desired = usize::try_from(ds.status.unwrap_or_default().desired_number_scheduled)?;
        ensure!(available == desired && pods.len() == desired, "{available} of {desired}");
        Ok(())
    }
}

/// The image of the pod's first container.
pub(crate) fn image_of(pod: &Pod) -> String {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|container| container.image.clone()).next().unwrap_or_default()
}
