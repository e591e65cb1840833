//! A DaemonSet with its revisions.

use std::collections::BTreeMap;

use everynode_core::api::TEMPLATE_GENERATION_ANNOTATION;
use everynode_insight::history::{
    self, ChangeCause, RevisionEntry, RevisionNotFound, Stated, StoredRevision,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::Value;

use super::{Cluster, Error, Resource, Selection, parsed};
use crate::args::DaemonSetName;

/// A DaemonSet with its revisions, as read from the cluster.
pub(crate) struct DaemonSetRevisions {
    pub daemon_set: DaemonSet,
    /// The pod template as the server sent it, with the fields that our types lack.
    pub template: Value,
    revisions: Vec<StoredRevision>,
    cause: Option<ChangeCause>,
}

impl DaemonSetRevisions {
    /// Reads a DaemonSet of the cluster's namespace, and its revisions.
    ///
    /// # Errors
    /// If one of them can't be read.
    pub(crate) async fn read(cluster: &Cluster, name: &DaemonSetName) -> Result<Self, Error> {
        let json = cluster.daemon_set_json(name).await?;
        let daemon_set: DaemonSet = parsed(Resource::DaemonSets, json.get())?;
        let mut value: Value = parsed(Resource::DaemonSets, json.get())?;
        let selection = Selection::selected_by(&daemon_set);
        let revisions = cluster.list_as(Resource::ControllerRevisions, &selection).await?;
        let cause = ChangeCause::of(&value["metadata"]);
        Ok(Self { daemon_set, template: value["spec"]["template"].take(), revisions, cause })
    }

    /// The history of the DaemonSet. `pods` maps revision hashes to numbers of pods.
    pub(crate) fn entries(&self, pods: Option<&BTreeMap<String, usize>>) -> Vec<RevisionEntry> {
        let uid = self.daemon_set.metadata.uid.as_deref().unwrap_or_default();
        let annotations = self.daemon_set.metadata.annotations.as_ref();
        let generation = annotations.and_then(|all| all.get(TEMPLATE_GENERATION_ANNOTATION));
        let stated = Stated {
            uid,
            template: &self.template,
            template_generation: generation.map(String::as_str),
            cause: self.cause.as_ref(),
        };
        history::history(&stated, self.revisions.clone(), pods)
    }

    /// The revision with this number, or the one before the current one.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn target(&self, number: Option<i64>) -> Result<RevisionEntry, RevisionNotFound> {
        let entries = self.entries(None);
        match number {
            Some(number) => history::numbered(&entries, number),
            None => history::previous(&entries),
        }
        .cloned()
    }
}
