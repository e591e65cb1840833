//! The events of the event loop, as one closed enum.

use everynode_core::api::{CheckAnswer, ConfigMap, DaemonSetKey, Namespace, Uid};
use everynode_core::plan::{CheckQuestion, WriteResult};
use everynode_k8s::convert::PolicyReference;

use crate::observation::{Observation, OrphanPods};
use crate::watch::Change;

/// An input of the event loop.
#[derive(Debug)]
pub enum Event {
    /// A watch reports a change.
    Observed(Observation),
    /// The outcome of one write of a plan. Each write is reported exactly once.
    Written {
        /// The DaemonSet that the plan was made for.
        key: DaemonSetKey,
        /// Its UID: the key may belong to a successor by now.
        uid: Uid,
        /// The write with its outcome.
        result: WriteResult,
    },
    /// All writes of a plan have been reported.
    Executed {
        /// The DaemonSet that the plan was made for.
        key: DaemonSetKey,
        /// True if the plan held only a status and repeated deletions, because the watches had not
        /// yet shown earlier writes.
        was_waiting: bool,
    },
    /// The watch of the ConfigMaps of a namespace reports a change.
    ConfigMapsObserved {
        /// The namespace.
        namespace: Namespace,
        /// The change.
        change: Change<ConfigMap>,
    },
    /// A watch has connected to the server, for the first time or again.
    Connected,
    /// The orphan pods that a new DaemonSet may adopt, listed live.
    OrphansListed(OrphanPods),
    /// The status of a policy object was written, or could not be.
    PolicyStatusWritten {
        /// The policy object.
        reference: PolicyReference,
        /// Why it failed.
        result: Result<(), String>,
    },
    /// The answer to a check of a plan. Each question is answered exactly once.
    CheckAnswered {
        /// The question.
        question: Box<CheckQuestion>,
        /// The answer.
        answer: CheckAnswer,
    },
}

impl From<Observation> for Event {
    fn from(observation: Observation) -> Self {
        Self::Observed(observation)
    }
}
