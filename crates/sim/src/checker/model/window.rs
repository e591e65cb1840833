//! The windows of a policy (G5), by the text of the rule: a window opens when the clock of its zone
//! first shows `from` or a later time of that day, and closes when it first shows `to`.

use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Span};
use serde::Deserialize;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A window.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub(super) struct Window {
    days: Vec<String>,
    from: i64,
    to: i64,
    zone: TimeZone,
}

impl From<Value> for Window {
    fn from(window: Value) -> Self {
        let minutes = |time: &Value, default: &str| {
            let (hour, minute) =
                time.as_str().unwrap_or(default).split_once(':').unwrap_or_default();
            hour.parse::<i64>().unwrap_or(0) * 60 + minute.parse::<i64>().unwrap_or(0)
        };
        let days = window["days"].as_array();
        let zone = window["timeZone"].as_str().unwrap_or("UTC");
        Self {
            days: match days {
                Some(days) => days.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                None => DAYS.map(str::to_owned).to_vec(),
            },
            from: minutes(&window["from"], "00:00"),
            to: minutes(&window["to"], "24:00"),
            zone: TimeZoneDatabase::bundled().get(zone).unwrap_or(TimeZone::UTC),
        }
    }
}

impl Window {
    /// True if it is open at a time.
    pub(super) fn is_open(&self, at: Timestamp) -> bool {
        let Ok(at) = jiff::Timestamp::from_millisecond(at.0) else { return false };
        let shown = self.latest_shown(at);
        let ends_next_day = i64::from(self.to <= self.from);
        // One that opened on an earlier day may still be open.
        (0..=2).any(|days| {
            let Ok(date) = shown.date().checked_sub(Span::new().days(days)) else { return false };
            let day = DAYS[date.weekday().to_monday_zero_offset().unsigned_abs() as usize];
            let has_shown = |minutes| {
                shown >= date.at(0, 0, 0, 0).saturating_add(SignedDuration::from_mins(minutes))
            };
            self.days.iter().any(|it| it == day)
                && has_shown(self.from)
                && !has_shown(self.to + ends_next_day * 24 * 60)
        })
    }

    /// The latest time that the clock has shown: the present one, or that before it was set back.
    fn latest_shown(&self, at: jiff::Timestamp) -> DateTime {
        let set = self.zone.preceding(at).next().map(|transition| transition.timestamp());
        let before = set.and_then(|set| set.checked_sub(SignedDuration::from_nanos(1)).ok());
        let shown = self.zone.to_datetime(at);
        before.map_or(shown, |before| shown.max(self.zone.to_datetime(before)))
    }
}
