//! Which event of a rollout's course a change of its record is (G49). Pure functions.

use crate::api::{
    Attribution, CourseEvent, CourseEventKind as Kind, OrderVerb, RolloutRecord, Timestamp,
    WaveName,
};
use crate::plan::Transition;

/// The event that a transition to this record is; `None` if an order had no effect. `wave` is the
/// wave that the record is at.
pub(super) fn event(
    transition: &Transition,
    record: &RolloutRecord,
    wave: Option<WaveName>,
    at: Timestamp,
) -> Option<CourseEvent> {
    let event = |kind, wave| CourseEvent { at, kind, wave, attribution: Attribution::default() };
    Some(match transition {
        Transition::Adopted { .. } => event(Kind::Adopted, None),
        Transition::Begun { wave, .. } => event(Kind::Begun, wave.clone()),
        Transition::WaveUpdated { wave } => event(Kind::WaveUpdated, wave.clone()),
        Transition::WaveBegun { wave } => event(Kind::WaveBegun, wave.clone()),
        Transition::NodesFailed { .. }
        | Transition::NodesLost { .. }
        | Transition::NoProgress { .. }
        | Transition::CheckFailed { .. } => {
            let cause = record.reason.as_ref().map(ToString::to_string).unwrap_or_default();
            let attribution = Attribution::new("", &cause);
            CourseEvent { attribution, ..event(Kind::Failed, wave) }
        }
        Transition::Completed { .. } => event(Kind::Completed, None),
        Transition::Superseded { .. } => event(Kind::Superseded, wave),
        Transition::Ordered(order) => {
            let ordered = match &order.verb {
                OrderVerb::Approve(named) => event(Kind::Approved, Some(named.clone())),
                OrderVerb::Promote(named) => event(Kind::Promoted, Some(named.clone())),
                OrderVerb::PromoteFull => event(Kind::PromotedInFull, None),
                OrderVerb::Abort => event(Kind::Aborted, wave),
                OrderVerb::Retry => event(Kind::Retried, wave),
            };
            CourseEvent { attribution: order.attribution.clone(), ..ordered }
        }
        Transition::OrderIgnored { .. } => return None,
    })
}

/// The event that the template was replaced with that of the base, beside the built-in controller.
pub(super) const fn going_back(at: Timestamp) -> CourseEvent {
    let attribution = Attribution { user: None, reason: None };
    CourseEvent { at, kind: Kind::GoingBack, wave: None, attribution }
}
