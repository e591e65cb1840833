//! The course of a rollout in its record (G49).

use std::sync::Arc;

use everynode_core::api::{Attribution, Course, CourseEvent, CourseEventKind};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{is_default, time, time_text};

/// A course. Parts that cannot be read are left out: they decide nothing, and a later version may
/// know more events.
#[derive(Serialize, Deserialize)]
pub(super) struct WireCourse {
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "events")]
    course: Vec<WireEvent>,
    /// The number of events that are left out.
    #[serde(
        default,
        rename = "courseOmitted",
        skip_serializing_if = "is_default",
        deserialize_with = "number"
    )]
    omitted: usize,
}

#[derive(Serialize, Deserialize)]
struct WireEvent {
    at: String,
    event: CourseEventKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    wave: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
}

fn events<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<WireEvent>, D::Error> {
    let Value::Array(events) = Value::deserialize(from)? else { return Ok(Vec::new()) };
    Ok(events.into_iter().filter_map(|event| serde_json::from_value(event).ok()).collect())
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let number = Value::deserialize(from)?.as_u64();
    Ok(number.and_then(|number| number.try_into().ok()).unwrap_or_default())
}

impl From<&Course> for WireCourse {
    fn from(course: &Course) -> Self {
        let event = |event: &CourseEvent| WireEvent {
            at: time_text(event.at),
            event: event.kind,
            wave: event.wave.as_ref().map(|wave| wave.as_str().into()),
            user: event.attribution.user.clone(),
            reason: event.attribution.reason.clone(),
        };
        Self { course: course.events.iter().map(event).collect(), omitted: course.omitted }
    }
}

impl From<WireCourse> for Course {
    fn from(wire: WireCourse) -> Self {
        let mut course = Self { events: Vec::new(), omitted: wire.omitted };
        wire.course.into_iter().filter_map(read).for_each(|event| course.push(event));
        course
    }
}

fn read(wire: WireEvent) -> Option<CourseEvent> {
    let WireEvent { at, event, wave, user, reason } = wire;
    let [user, reason] = [user, reason].map(Option::unwrap_or_default);
    Some(CourseEvent {
        at: time(&at).ok()?,
        kind: event,
        wave: wave.map(|wave| (&*wave).into()),
        attribution: Attribution::new(&user, &reason),
    })
}
