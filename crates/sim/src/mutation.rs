//! Deliberate bugs, put in where the simulation touches the controller: each has to be caught by a checker.

use bytes::Bytes;
use everynode_core::name::{ResourceVersion, RevisionHash};
use everynode_core::plan::{Outcome, Plan, Write, WriteResult};
use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET, Kind, NODE, POD};
use everynode_sandbox::store::{Action, Change, Object};
use serde_json::{Value, json};

use crate::network::Request;

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// What was written is not waited for (C60).
    SkipExpectations,
    /// A terminating pod counts as gone (C22).
    TerminatingIsGone,
    /// One more than maxUnavailable (C52).
    BudgetOffByOne,
    /// Ready counts as available (C54).
    ForgetMinReadySeconds,
    /// Pods of others are taken for ours (C21).
    IgnoreOwner,
    /// A pod gets the hash of no revision (C30).
    WrongHash,
    /// Revisions are deleted instead of renumbered (C42).
    DeleteInsteadOfRaise,
    /// The status is not written (C70).
    SkipStatus,
    /// The status is always found different (C70).
    StatusNeverRight,
    /// Revisions are always found numbered too low (C42).
    RevisionNeverRight,
    /// Deletions of pods go unseen.
    LoseDeletions,
    /// Changes of nodes go unseen (C16).
    LoseNodeChanges,
    /// Pods that must go are left (C23).
    LeavePods,
    /// Pods are counted ready that are not (C70).
    CountUnready,
}

/// What a watch shows of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    AsItIs,
    Hidden,
    Deleted,
}

impl Mutation {
    pub const ALL: [Self; 14] = [
        Self::SkipExpectations,
        Self::TerminatingIsGone,
        Self::BudgetOffByOne,
        Self::ForgetMinReadySeconds,
        Self::IgnoreOwner,
        Self::WrongHash,
        Self::DeleteInsteadOfRaise,
        Self::SkipStatus,
        Self::StatusNeverRight,
        Self::RevisionNeverRight,
        Self::LoseDeletions,
        Self::LoseNodeChanges,
        Self::LeavePods,
        Self::CountUnready,
    ];

    pub fn sees(mutation: Option<Self>, kind: &Kind, change: &Change) -> Seen {
        match mutation {
            Some(Self::TerminatingIsGone)
                if kind.kind == POD.kind && change.object.is_terminating() =>
            {
                Seen::Deleted
            }
            Some(Self::LoseDeletions)
                if kind.kind == POD.kind && change.action == Action::Deleted =>
            {
                Seen::Hidden
            }
            Some(Self::LoseNodeChanges)
                if kind.kind == NODE.kind && change.action == Action::Modified =>
            {
                Seen::Hidden
            }
            Some(_) | None => Seen::AsItIs,
        }
    }

    /// An object as the replica reads it.
    pub fn json(self, kind: &Kind, object: &Object) -> Bytes {
        let mut value = object.value().clone();
        match self {
            Self::BudgetOffByOne if kind.kind == DAEMON_SET.kind => {
                let budget =
                    &mut value["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
                if let Some(number) = budget.as_i64().filter(|number| *number > 0) {
                    *budget = json!(number + 1);
                }
            }
            Self::ForgetMinReadySeconds if kind.kind == DAEMON_SET.kind => {
                value["spec"]["minReadySeconds"] = json!(0);
            }
            Self::StatusNeverRight if kind.kind == DAEMON_SET.kind => {
                let ready = value["status"]["numberReady"].as_i64().unwrap_or(0);
                value["status"]["numberReady"] = json!(ready + 1);
            }
            Self::IgnoreOwner if kind.kind == POD.kind => own(&mut value),
            Self::RevisionNeverRight if kind.kind == CONTROLLER_REVISION.kind => {
                value["revision"] = json!(0);
            }
            Self::CountUnready if kind.kind == POD.kind => {
                for condition in value["status"]["conditions"].as_array_mut().into_iter().flatten()
                {
                    condition["status"] = json!("True");
                }
            }
            _ => return object.json(),
        }
        value.to_string().into()
    }

    /// A plan as it is executed.
    pub fn plan(self, plan: &mut Plan) {
        for write in &mut plan.writes {
            match (self, &mut *write) {
                (Self::WrongHash, Write::CreatePod(new)) => new.hash = RevisionHash::new("none"),
                (Self::DeleteInsteadOfRaise, Write::RaiseRevision { revision, .. }) => {
                    *write = Write::DeleteRevision(revision.clone());
                }
                _ => {}
            }
        }
    }

    /// A result as it is reported.
    pub fn result(self, result: &mut WriteResult) {
        if self != Self::SkipExpectations {
            return;
        }
        if let Outcome::Written { resource_version, .. } = &mut result.outcome {
            *resource_version = ResourceVersion(0);
            if let Write::DeletePod(_) | Write::DeleteRevision(_) = result.write {
                result.outcome = Outcome::Skipped;
            }
        }
    }

    /// A request as it is sent; false: it is not sent, but said to be done.
    pub fn request(self, request: &mut Request) -> bool {
        let is_delete = request.method == http::Method::DELETE;
        match self {
            Self::SkipStatus if request.path.ends_with("/status") => return false,
            Self::LeavePods if is_delete && request.path.contains("/pods/") => return false,
            _ => {}
        }
        true
    }
}

/// Makes every ReplicaSet's pod a DaemonSet's: the one that its label names.
fn own(pod: &mut Value) {
    let uid = pod["metadata"]["annotations"]["sim/daemonset-uid"].clone();
    if let Some(owner) = pod["metadata"]["ownerReferences"].get_mut(0)
        && owner["kind"] == "ReplicaSet"
        && uid.is_string()
    {
        owner["kind"] = json!("DaemonSet");
        owner["uid"] = uid;
    }
}
