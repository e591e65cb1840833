//! The end of a rollout: the DaemonSet's status says so, and its pods agree.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use super::pod::{
    GENERATION_ANNOTATION, GENERATION_LABEL, HASH_LABEL, controller_of, controller_uid,
    is_available, is_terminating, label, name_of, node_of,
};
use super::{World, deadline, within};

impl World {
    /// Waits until the latest spec of the DaemonSet is rolled out on every node.
    pub(crate) async fn settled(&self, name: &str) -> Result<DaemonSet> {
        self.settled_within(deadline(), name).await
    }

    /// The same with another deadline.
    pub(crate) async fn settled_within(&self, deadline: Duration, name: &str) -> Result<DaemonSet> {
        within(deadline, &format!("daemonset {name} rolls out"), async || {
            self.check_rollout(name).await
        })
        .await
    }

    /// Fails unless the latest spec of the DaemonSet is rolled out on every node, according to its
    /// status and to its pods.
    pub(crate) async fn check_rollout(&self, name: &str) -> Result<DaemonSet> {
        let ds = self.daemon_sets().get(name).await?;
        let desired = desired_if_complete(&ds)?;
        let hash = self.current_hash(&ds).await?;
        let uid = ds.metadata.uid.as_deref();
        let mut pods = self.pods_of(name).await?;
        pods.retain(|pod| !is_terminating(pod) && controller_of(pod) == uid);
        let nodes: BTreeSet<String> = pods.iter().map(node_of).collect();
        ensure!(
            pods.len() == desired && nodes.len() == desired,
            "according to its status it has {desired} pods, but there are {} on {nodes:?}",
            pods.len()
        );
        let min_ready_seconds = ds.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        for pod in &pods {
            let name = name_of(pod);
            let available = is_available(pod, min_ready_seconds.unwrap_or(0));
            ensure!(available, "its status does not say that pod {name} is unavailable");
            let updated = is_up_to_date(pod, &ds, &hash);
            ensure!(updated, "its status does not say that pod {name} is of an old revision");
        }
        Ok(ds)
    }

    /// The hash of the DaemonSet's latest revision.
    async fn current_hash(&self, ds: &DaemonSet) -> Result<String> {
        let mut revisions = self.revisions().list(&ListParams::default()).await?.items;
        revisions.retain(|revision| {
            let controller = controller_uid(revision.metadata.owner_references.as_ref());
            controller == ds.metadata.uid.as_deref()
        });
        let current = revisions.into_iter().max_by_key(|revision| revision.revision);
        let labels = current.context("it has no revision")?.metadata.labels;
        labels.and_then(|mut labels| labels.remove(HASH_LABEL)).context("no hash")
    }
}

/// The number of pods that should run; fails unless the status says that they all do.
fn desired_if_complete(ds: &DaemonSet) -> Result<usize> {
    let status = ds.status.clone().unwrap_or_default();
    let desired = status.desired_number_scheduled;
    let is_complete = status.observed_generation >= ds.metadata.generation
        && status.current_number_scheduled == desired
        && status.updated_number_scheduled.unwrap_or(0) == desired
        && status.number_available.unwrap_or(0) == desired
        && status.number_misscheduled == 0
        && desired > 0;
    ensure!(is_complete, "its status is {status:?}");
    Ok(usize::try_from(desired)?)
}

/// True if the pod has the current revision, or the template generation that the DaemonSet carries
/// (C45).
fn is_up_to_date(pod: &Pod, ds: &DaemonSet, hash: &str) -> bool {
    let annotations = ds.metadata.annotations.as_ref();
    let generation = annotations.and_then(|all| all.get(GENERATION_ANNOTATION));
    let has_generation =
        generation.is_some_and(|generation| label(pod, GENERATION_LABEL) == Some(generation));
    label(pod, HASH_LABEL) == Some(hash) || has_generation
}
