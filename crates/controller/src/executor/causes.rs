//! Reads what the pods state by which a rollout has failed, for its record (G35).

use std::sync::Arc;

use everynode_core::api::{FailedNode, FailureCause, RecordReason, RolloutRecord};
use everynode_k8s::convert;
use futures::future::join_all;

use super::{Execution, request};
use crate::api::Server;

impl<S: Server> Execution<'_, S> {
    /// Adds to the record of a rollout that has just failed what its pods state: they are gone
    /// later. A pod that cannot be read leaves what decisions know of it.
    pub(super) async fn state_causes(&self, record: &mut Arc<RolloutRecord>) {
        let reason = record.reason.as_ref();
        let Some(failed) = reason.and_then(RecordReason::failed_nodes) else { return };
        let causes = join_all(failed.first.iter().map(|failed| self.cause(failed))).await;
        let record = Arc::make_mut(record);
        if let Some(RecordReason::NodesFailed(nodes) | RecordReason::NodesLost(nodes)) =
            &mut record.reason
        {
            for (failed, cause) in nodes.first.iter_mut().zip(causes) {
                failed.cause = cause.unwrap_or_else(|| failed.cause.clone());
            }
        }
    }

    async fn cause(&self, failed: &FailedNode) -> Option<FailureCause> {
        let FailureCause::Observed { .. } = failed.cause else { return None };
        let path = request::pod(&self.raw.key.namespace, failed.pod.as_ref()?);
        match self.executor.api.get(&path).await {
            Ok(pod) => convert::pod_cause(&pod).map(|text| FailureCause::stated(&text)),
            Err(error) => {
                tracing::debug!("{path}, by which the rollout has failed: {error}");
                None
            }
        }
    }
}
