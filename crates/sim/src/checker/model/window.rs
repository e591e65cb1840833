//! The windows of a policy (G5), by the text of the rule: a window opens when the clock of its zone
//! first shows `from` or a later time of that day, and closes when it first shows `to`.

use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;
use jiff::civil::{Date, DateTime};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Span};

/// More than UTC differs from any zone, before or after a clock is set.
const AROUND_HOURS: i64 = 15;
/// Clocks are set at whole quarters of an hour.
const STEP_MINUTES: i64 = 15;

/// A window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    days: Vec<String>,
    from: i64,
    to: i64,
    zone: TimeZone,
}

impl Window {
    pub(super) fn parse(window: &Value) -> Self {
        let minutes = |time: &Value, default: &str| {
            let (hour, minute) =
                time.as_str().unwrap_or(default).split_once(':').unwrap_or_default();
            hour.parse::<i64>().unwrap_or(0) * 60 + minute.parse::<i64>().unwrap_or(0)
        };
        let all = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let days = window["days"].as_array();
        let zone = window["timeZone"].as_str().unwrap_or("UTC");
        Self {
            days: match days {
                Some(days) => days.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                None => all.map(str::to_owned).to_vec(),
            },
            from: minutes(&window["from"], "00:00"),
            to: minutes(&window["to"], "24:00"),
            zone: TimeZoneDatabase::bundled().get(zone).unwrap_or(TimeZone::UTC),
        }
    }

    /// Whether it is open at a time.
    pub(super) fn is_open(&self, at: Timestamp) -> bool {
        let Ok(at) = jiff::Timestamp::from_millisecond(at.0) else { return false };
        let today = self.zone.to_datetime(at).date();
        // One that opened on an earlier day may still be open.
        [-2, -1, 0, 1].into_iter().any(|days| {
            let Ok(date) = today.checked_add(Span::new().days(days)) else { return false };
            let ends_next_day = i64::from(self.to <= self.from);
            let is_of_day = self.days.contains(&date.strftime("%a").to_string());
            is_of_day
                && self.first_shown(date, self.from) <= at
                && at < self.first_shown(date, self.to + ends_next_day * 24 * 60)
        })
    }

    /// When the clock first shows that this many minutes of the day have passed, or more.
    fn first_shown(&self, date: Date, minutes: i64) -> jiff::Timestamp {
        let shown: DateTime = date.at(0, 0, 0, 0);
        let shown = shown.saturating_add(SignedDuration::from_mins(minutes));
        let shows = |at: &jiff::Timestamp| self.zone.to_datetime(*at) >= shown;
        let utc = shown.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp());
        let utc = utc.unwrap_or(jiff::Timestamp::MAX);
        let quarters = -AROUND_HOURS * 60 / STEP_MINUTES..=AROUND_HOURS * 60 / STEP_MINUTES;
        let around = quarters.filter_map(|quarter| {
            utc.checked_add(SignedDuration::from_mins(quarter * STEP_MINUTES)).ok()
        });
        // In between, no clock is set: the first quarter that shows it began at the earliest one
        // quarter before.
        let Some(first) = around.into_iter().find(shows) else { return jiff::Timestamp::MAX };
        let minutes = (1..=STEP_MINUTES)
            .rev()
            .filter_map(|before| first.checked_sub(SignedDuration::from_mins(before)).ok());
        minutes.into_iter().find(shows).unwrap_or(first)
    }
}
