//! The windows of a rollout policy: when it replaces pods (G5).
//!
//! A time zone is data here, and the time an argument.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::api::Timestamp;
use crate::api::schema::{self, rule};

/// The database that is part of the program, whatever the machine has.
static TIME_ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// How many days ahead the next window is looked for. Each window opens once a week, unless the
/// clock skips it.
const DAYS_AHEAD: usize = 15;

/// The `windows` of a policy. Without any, a rollout goes on at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Windows(Vec<Window>);

/// One of the `windows`: on these days, from one time to another.
///
/// If the second time is not later than the first, it is one of the next day. A time that the
/// zone's clock skips on a day is the moment at which it skips it; of a time that it shows twice,
/// the first one counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.from) ? self.from : '00:00') != (has(self.to) ? self.to : '24:00')",
    "message": rule::DIFFERENT_TIMES,
}]))]
pub struct Window {
    /// The days on which the window opens.
    #[schemars(schema_with = "days", extend("default" = Days::NAMES))]
    pub days: Days,
    /// When it opens, by the clock of its time zone.
    #[schemars(schema_with = "schema::opening", extend("default" = "00:00"))]
    pub from: TimeOfDay,
    /// When it closes, on the next day if that is before it opens; another time than `from`.
    #[schemars(schema_with = "schema::closing", extend("default" = "24:00"))]
    pub to: TimeOfDay,
    /// A name of the IANA database, written as there, such as `America/New_York`.
    #[serde(rename = "timeZone", deserialize_with = "read_time_zone")]
    #[schemars(schema_with = "schema::time_zone", extend(
        "default" = "UTC",
        "x-kubernetes-validations" = [{ "message": rule::TIME_ZONE }],
    ))]
    pub zone: TimeZone,
}

/// Days of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Days(u8);

/// A time of a day, to the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TimeOfDay {
    minutes: u16,
}

/// The state of windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// One is, and one remains open until this time.
    Open {
        /// By the wall clock.
        until: Timestamp,
    },
    /// None is before this time.
    Closed(Opening),
}

/// When the next window opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The time by the wall clock.
    pub at: Timestamp,
    /// The time zone of the window.
    pub zone: TimeZone,
}

/// The times between which a window is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    from: jiff::Timestamp,
    to: jiff::Timestamp,
    /// The index of the window.
    window: usize,
}

impl Days {
    /// All days.
    pub const ALL: Self = Self(0b111_1111);
    /// The names of the days in policies, Monday first.
    pub const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

    /// The days with these numbers; Monday is 0.
    pub fn from_numbers(numbers: &BTreeSet<u8>) -> Self {
        Self(numbers.iter().fold(0, |days, number| days | 1 << number) & Self::ALL.0)
    }

    fn contains(self, day: Weekday) -> bool {
        self.0 & 1 << day.to_monday_zero_offset() != 0
    }
}

impl TryFrom<Vec<String>> for Days {
    type Error = &'static str;

    fn try_from(names: Vec<String>) -> Result<Self, Self::Error> {
        let number =
            |name| (0..).zip(Self::NAMES).find_map(|(n, known)| (known == name).then_some(n));
        let numbers: Option<BTreeSet<u8>> = names.into_iter().map(number).collect();
        numbers.map(|numbers| Self::from_numbers(&numbers)).ok_or("it is no day")
    }
}

fn days(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": Days::NAMES.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": Days::NAMES },
    })
}

impl TryFrom<String> for TimeOfDay {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let time = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            Self::new(hour.parse().ok()?, minute.parse().ok()?)
        };
        time(&text).ok_or("it is no time of a day")
    }
}

/// The time zone with exactly this name, of the database that is part of the program.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    TIME_ZONES.get(name).ok().filter(|zone| zone.iana_name() == Some(name))
}

fn read_time_zone<'de, D: Deserializer<'de>>(from: D) -> Result<TimeZone, D::Error> {
    time_zone(&String::deserialize(from)?).ok_or_else(|| D::Error::custom(rule::TIME_ZONE))
}

impl TimeOfDay {
    /// The end of a day, `24:00`.
    pub const MIDNIGHT: Self = Self { minutes: 24 * 60 };

    /// The time `hour:minute`; `None` if there is none, or if it is later than `24:00`.
    pub const fn new(hour: u16, minute: u16) -> Option<Self> {
        match (hour, minute) {
            (0..24, 0..60) | (24, 0) => Some(Self { minutes: hour * 60 + minute }),
            _ => None,
        }
    }

    /// When the zone's clock first shows this time of that day, or a later one.
    fn moment(self, date: Date, zone: &TimeZone) -> Option<jiff::Timestamp> {
        let date = if self == Self::MIDNIGHT { date.tomorrow().ok()? } else { date };
        let minutes = self.minutes % Self::MIDNIGHT.minutes;
        let hour = i8::try_from(minutes / 60).expect("less than 24");
        let minute = i8::try_from(minutes % 60).expect("less than 60");
        let shown = date.at(hour, minute, 0, 0);
        let ambiguous = zone.to_ambiguous_timestamp(shown);
        match ambiguous.offset() {
            AmbiguousOffset::Gap { after, .. } => {
                let before_gap = after.to_timestamp(shown).ok()?;
                zone.following(before_gap)
                    .find(|transition| transition.offset() == after)
                    .map(|transition| transition.timestamp())
            }
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
                ambiguous.earlier().ok()
            }
        }
    }
}

impl Window {
    /// Between which times it is open if it opens on this day; `None` if it does not, or if the
    /// zone's clock skips it.
    fn on(&self, date: Date, window: usize) -> Option<Interval> {
        let last = if self.from < self.to { date } else { date.tomorrow().ok()? };
        let from = self.from.moment(date, &self.zone)?;
        let to = self.to.moment(last, &self.zone)?;
        let opens = self.days.contains(date.weekday()) && from < to;
        opens.then_some(Interval { from, to, window })
    }
}

impl Windows {
    /// These windows.
    pub const fn new(windows: Vec<Window>) -> Self {
        Self(windows)
    }

    /// True if there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The state of the windows at a time of the wall clock; `None` without windows.
    pub fn at(&self, wall: Timestamp) -> Option<WindowState> {
        let last = self.0.last()?;
        let now = to_jiff(wall);
        let mut intervals: Vec<Interval> = Vec::new();
        for (index, window) in self.0.iter().enumerate() {
            // One that opened the day before yesterday may end today where a clock skips a day.
            let today = now.to_zoned(window.zone.clone()).date();
            let first = today.saturating_sub(jiff::SignedDuration::from_hours(2 * 24));
            let days = first.series(jiff::Span::new().days(1)).take(DAYS_AHEAD + 2);
            intervals.extend(days.filter_map(|date| window.on(date, index)));
        }
        intervals.sort();
        let mut until = now;
        for interval in intervals.iter().filter(|interval| interval.to > now) {
            if interval.from > until {
                break;
            }
            until = until.max(interval.to);
        }
        if until > now {
            return Some(WindowState::Open { until: from_jiff(until) });
        }
        let next = intervals.iter().find(|interval| interval.from > now);
        Some(WindowState::Closed(match next {
            Some(next) => {
                let zone = self.0.get(next.window).unwrap_or(last).zone.clone();
                Opening { at: from_jiff(next.from), zone }
            }
            None => {
                let days = jiff::SignedDuration::from_hours(24 * 7);
                let at = from_jiff(now.saturating_add(days).unwrap_or(jiff::Timestamp::MAX));
                Opening { at, zone: last.zone.clone() }
            }
        }))
    }
}

impl WindowState {
    /// When it may change, by the wall clock.
    pub const fn until(&self) -> Timestamp {
        match self {
            Self::Open { until } => *until,
            Self::Closed(opening) => opening.at,
        }
    }

    /// When the next window opens, if none is open.
    pub const fn opening(&self) -> Option<&Opening> {
        match self {
            Self::Open { .. } => None,
            Self::Closed(opening) => Some(opening),
        }
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.minutes / 60, self.minutes % 60)
    }
}

impl fmt::Display for Opening {
    /// The time in UTC, and what the zone's clock shows: `2026-11-25T21:00:00Z (Wed 22:00 in
    /// Europe/Berlin)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = to_jiff(self.at);
        let shown = at.to_zoned(self.zone.clone());
        let zone = self.zone.iana_name().unwrap_or("UTC");
        write!(f, "{at:.0} ({} in {zone})", shown.strftime("%a %H:%M"))
    }
}

/// The time in UTC, in whole seconds: `2026-11-25T21:00:00Z`.
pub(crate) fn utc_text(time: Timestamp) -> String {
    format!("{:.0}", to_jiff(time))
}

fn to_jiff(time: Timestamp) -> jiff::Timestamp {
    let end = if time < Timestamp(0) { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or(end)
}

fn from_jiff(time: jiff::Timestamp) -> Timestamp {
    Timestamp(time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(names: &str) -> Days {
        let numbers = (0..).zip(Days::NAMES).filter(|(_, name)| names.contains(name));
        Days::from_numbers(&numbers.map(|(number, _)| number).collect())
    }

    fn time_of_day(text: &str) -> TimeOfDay {
        let (hour, minute) = text.split_once(':').expect("a time");
        let number = |text: &str| text.parse().expect("a number");
        TimeOfDay::new(number(hour), number(minute)).expect("a time")
    }

    /// A window such as `Mon,Tue 09:00-16:00 Europe/Berlin`.
    fn window(text: &str) -> Window {
        let words: Vec<&str> = text.split(' ').collect();
        let [names, times, zone] = words[..] else { panic!("days, times and zone") };
        let (from, to) = times.split_once('-').expect("two times");
        Window {
            days: if names == "*" { Days::ALL } else { days(names) },
            from: time_of_day(from),
            to: time_of_day(to),
            zone: jiff::tz::TimeZoneDatabase::bundled().get(zone).expect("a time zone"),
        }
    }

    fn wall(text: &str) -> Timestamp {
        from_jiff(text.parse().expect("a time"))
    }

    /// The changes from a time on, such as `open 09:00Z closed 16:00Z`.
    fn changes(windows: &[&str], from: &str, count: usize) -> String {
        let windows = Windows::new(windows.iter().map(|text| window(text)).collect());
        let mut at = wall(from);
        let mut text = Vec::new();
        let mut was_open = false;
        while text.len() < count {
            let state = windows.at(at).expect("there are windows");
            let is_open = state.opening().is_none();
            if is_open != was_open {
                let now = to_jiff(at).strftime("%a %F %H:%MZ");
                text.push(format!("{} {now}", if is_open { "open" } else { "closed" }));
            }
            was_open = is_open;
            assert!(state.until() > at, "{state:?}");
            at = state.until();
        }
        text.join(", ")
    }

    /// G5: a window opens and closes at the times of its zone, daylight saving time or not.
    #[test]
    fn a_window_opens_and_closes_by_the_clock_of_its_zone() {
        for (windows, from, expected) in [
            (
                &["Mon,Tue 09:00-16:00 Europe/Berlin"][..],
                "2026-11-21T00:00:00Z",
                "open Mon 2026-11-23 08:00Z, closed Mon 2026-11-23 15:00Z, \
                 open Tue 2026-11-24 08:00Z, closed Tue 2026-11-24 15:00Z, \
                 open Mon 2026-11-30 08:00Z",
            ),
            (
                &["Mon 09:00-16:00 Europe/Berlin"],
                "2026-07-01T00:00:00Z",
                "open Mon 2026-07-06 07:00Z, closed Mon 2026-07-06 14:00Z",
            ),
            (
                &["Sat,Sun 00:00-24:00 Asia/Kolkata"],
                "2026-11-25T00:00:00Z",
                "open Fri 2026-11-27 18:30Z, closed Sun 2026-11-29 18:30Z, \
                 open Fri 2026-12-04 18:30Z",
            ),
            // Over midnight, on the day on which it begins.
            (
                &["Fri 22:00-04:00 America/New_York"],
                "2026-01-01T00:00:00Z",
                "open Sat 2026-01-03 03:00Z, closed Sat 2026-01-03 09:00Z, \
                 open Sat 2026-01-10 03:00Z",
            ),
            // Windows that touch or overlap are one.
            (
                &["* 22:00-00:00 UTC", "* 00:00-03:00 UTC", "* 02:00-05:00 UTC"],
                "2026-01-01T12:00:00Z",
                "open Thu 2026-01-01 22:00Z, closed Fri 2026-01-02 05:00Z, \
                 open Fri 2026-01-02 22:00Z",
            ),
        ] {
            let count = expected.split(", ").count();
            assert_eq!(changes(windows, from, count), expected, "{windows:?}");
        }
    }

    /// G5: a time that the clock skips is the moment of the jump, and of one that it shows twice
    /// the first counts.
    #[test]
    fn a_time_that_does_not_exist_or_exists_twice_is_one_moment() {
        for (window, from, expected) in [
            // Berlin, 29 March 2026: from 02:00 to 03:00, at 01:00Z.
            (
                "Sun 02:30-04:00 Europe/Berlin",
                "2026-03-28T12:00:00Z",
                "open Sun 2026-03-29 01:00Z, closed Sun 2026-03-29 02:00Z",
            ),
            (
                "Sun 01:00-02:30 Europe/Berlin",
                "2026-03-28T12:00:00Z",
                "open Sun 2026-03-29 00:00Z, closed Sun 2026-03-29 01:00Z",
            ),
            (
                "Sun 02:10-02:50 Europe/Berlin",
                "2026-03-28T12:00:00Z",
                "open Sun 2026-04-05 00:10Z, closed Sun 2026-04-05 00:50Z",
            ),
            // Berlin, 25 October 2026: from 03:00 to 02:00, at 01:00Z.
            (
                "Sun 02:30-02:45 Europe/Berlin",
                "2026-10-24T12:00:00Z",
                "open Sun 2026-10-25 00:30Z, closed Sun 2026-10-25 00:45Z, \
                 open Sun 2026-11-01 01:30Z",
            ),
            (
                "Sun 02:30-04:00 Europe/Berlin",
                "2026-10-24T12:00:00Z",
                "open Sun 2026-10-25 00:30Z, closed Sun 2026-10-25 03:00Z",
            ),
            // New York, 8 March 2026: from 02:00 to 03:00, at 07:00Z; the night is an hour shorter.
            (
                "Sat 22:00-06:00 America/New_York",
                "2026-03-07T12:00:00Z",
                "open Sun 2026-03-08 03:00Z, closed Sun 2026-03-08 10:00Z",
            ),
            // New York, 1 November 2026: from 02:00 to 01:00, at 06:00Z.
            (
                "Sun 01:30-05:00 America/New_York",
                "2026-10-31T12:00:00Z",
                "open Sun 2026-11-01 05:30Z, closed Sun 2026-11-01 10:00Z",
            ),
            // Lord Howe, 4 October 2026: from 02:00 to 02:30, at 15:30Z of the day before.
            (
                "Sun 02:15-03:00 Australia/Lord_Howe",
                "2026-10-02T12:00:00Z",
                "open Sat 2026-10-03 15:30Z, closed Sat 2026-10-03 16:00Z",
            ),
            // Lord Howe, 5 April 2026: from 02:00 to 01:30, at 15:00Z of the day before.
            (
                "Sun 01:45-02:00 Australia/Lord_Howe",
                "2026-04-03T12:00:00Z",
                "open Sat 2026-04-04 14:45Z, closed Sat 2026-04-04 15:30Z",
            ),
            // Apia had no 30 December 2011.
            (
                "Fri 09:00-16:00 Pacific/Apia",
                "2011-12-29T12:00:00Z",
                "open Thu 2012-01-05 19:00Z, closed Fri 2012-01-06 02:00Z",
            ),
        ] {
            let count = expected.split(", ").count();
            assert_eq!(changes(&[window], from, count), expected, "{window}");
        }
    }

    /// G5: without windows a rollout goes on at any time, also with windows that are never closed,
    /// and no time is a panic.
    #[test]
    fn windows_may_always_be_open() {
        assert_eq!(Windows::default().at(Timestamp(0)), None);
        let always = Windows::new(vec![window("* 00:00-24:00 UTC")]);
        for at in ["1970-01-01T00:00:00Z", "2026-11-25T12:00:00Z"] {
            let state = always.at(wall(at)).expect("there are windows");
            assert_eq!(state.opening(), None, "{at}");
        }
        // The clock may show anything.
        for at in [i64::MIN, i64::MAX] {
            assert!(always.at(Timestamp(at)).is_some());
        }
    }

    /// G21: an opening is told by both clocks.
    #[test]
    fn an_opening_names_both_times() {
        let windows = Windows::new(vec![window("Wed 22:00-04:00 Europe/Berlin")]);
        let state = windows.at(wall("2026-11-25T12:00:00Z")).expect("there are windows");
        let text = state.opening().expect("it is closed").to_string();
        assert_eq!(text, "2026-11-25T21:00:00Z (Wed 22:00 in Europe/Berlin)");
    }
}
