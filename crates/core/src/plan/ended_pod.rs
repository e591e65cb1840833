//! The words of the event for a pod that is deleted because it has ended. They say how long the
//! next one of its node is kept, which no object states.

use std::fmt;
use std::time::Duration;

use crate::api::{NodeName, PodName};

pub use crate::backoff::DELAY_MAX as ENDED_POD_DELAY_MAX;

const ON_NODE: &str = " on node ";
const NEXT_AFTER: &str = "; if the next one ends, too, it is replaced ";

pub(super) fn write_note(
    f: &mut fmt::Formatter<'_>,
    (pod, node): (&PodName, &NodeName),
    has: &str,
    delay: Duration,
) -> fmt::Result {
    let seconds = delay.as_secs();
    write!(f, "pod {pod}{ON_NODE}{node} {has}; it is deleted and then replaced")?;
    write!(f, "{NEXT_AFTER}{seconds} s after this one at the earliest")
}

/// The node in the note of such an event, and how long after the event the next pod of that node is
/// kept if it ends, too; `None` for any other text (C24).
pub fn backoff_in_note(note: &str) -> Option<(NodeName, Duration)> {
    let (_, rest) = note.split_once(ON_NODE)?;
    let (node, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.split_once(NEXT_AFTER)?;
    let (seconds, _) = rest.split_once(' ')?;
    Some((node.into(), Duration::from_secs(seconds.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Notice;

    /// C24: the event tells when the next pod of the node is replaced.
    #[test]
    fn the_event_tells_of_the_back_off() {
        let (pod, node) = ("agent-x7k2p".into(), NodeName::from("node-1"));
        let delay = Duration::from_secs(64);
        let note = Notice::FailedDaemonPod { pod, node: node.clone(), delay }.to_string();
        assert_eq!(
            note,
            "pod agent-x7k2p on node node-1 failed; it is deleted and then replaced; if the next \
             one ends, too, it is replaced 64 s after this one at the earliest"
        );
        assert_eq!(backoff_in_note(&note), Some((node, delay)));
        assert_eq!(backoff_in_note("Found failed daemon pod default/a on node n, will try"), None);
    }
}
