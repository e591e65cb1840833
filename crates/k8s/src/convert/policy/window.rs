//! The windows of a rollout policy (G5). Time zones come from the database that is part of the
//! program, whatever the machine has.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use everynode_core::api::{Days, TimeOfDay, Window, Windows};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde_json::Value;

use super::fields::{Errors, Fields};

const WINDOWS_MAX: usize = 16;

static TIME_ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Decodes `windows`.
pub(super) fn windows(fields: &mut Fields<'_>, errors: &mut Errors) -> Windows {
    let path = fields.path("windows");
    let Some(value) = fields.take("windows") else { return Windows::default() };
    let list = value.as_array().ok_or("must be a list");
    let Some(list) = errors.checked(&path, value, list) else { return Windows::default() };
    if list.is_empty() {
        errors.invalid(&path, value, "must have at least 1 item: otherwise none ever opens");
    }
    if list.len() > WINDOWS_MAX {
        errors.too_many(&path, list.len(), WINDOWS_MAX);
    }
    let items = list.iter().take(WINDOWS_MAX).enumerate();
    Windows::new(
        items
            .filter_map(|(index, value)| window(&format!("{path}[{index}]"), value, errors))
            .collect(),
    )
}

fn window(path: &str, value: &Value, errors: &mut Errors) -> Option<Window> {
    let mut fields = Fields::of(path, value, errors)?;
    let window = Window {
        days: days(&mut fields, errors),
        from: fields.read("from", TimeOfDay::START, errors, |value| {
            let time = value.as_str().and_then(time_of_day);
            let time = time.filter(|time| *time != TimeOfDay::MIDNIGHT);
            time.ok_or("must be a time from 00:00 to 23:59")
        }),
        to: fields.read("to", TimeOfDay::MIDNIGHT, errors, |value| {
            let time = value.as_str().and_then(time_of_day);
            time.ok_or("must be a time from 00:00 to 24:00")
        }),
        zone: fields.read("timeZone", TimeZone::UTC, errors, |value| {
            let zone = value.as_str().and_then(time_zone);
            zone.ok_or(
                "must be the name of a time zone of the IANA database, such as Europe/Berlin",
            )
        }),
    };
    if window.from == window.to {
        errors.invalid(path, value, "from and to must be different times");
    }
    fields.finish(errors);
    Some(window)
}

fn days(fields: &mut Fields<'_>, errors: &mut Errors) -> Days {
    let path = fields.path("days");
    let Some(value) = fields.take("days") else { return Days::ALL };
    let list = value.as_array().ok_or("must be a list of days");
    let Some(list) = errors.checked(&path, value, list) else { return Days::ALL };
    if list.is_empty() {
        errors.invalid(&path, value, "must have at least 1 item: otherwise it never opens");
    }
    let mut days = BTreeSet::new();
    for (index, value) in list.iter().take(Days::NAMES.len() + 1).enumerate() {
        let path = format!("{path}[{index}]");
        let day = (0..).zip(Days::NAMES).find(|(_, name)| *name == value);
        let day = day.ok_or("must be one of Mon, Tue, Wed, Thu, Fri, Sat and Sun");
        let Some((number, name)) = errors.checked(&path, value, day) else { continue };
        if !days.insert(number) {
            errors.duplicate(&path, name);
        }
    }
    Days::of(&days)
}

/// A time such as `09:00`.
fn time_of_day(text: &str) -> Option<TimeOfDay> {
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    let (hour, minute) = text.split_once(':')?;
    TimeOfDay::new(number(hour)?, number(minute)?)
}

/// The time zone with exactly this name.
fn time_zone(name: &str) -> Option<TimeZone> {
    TIME_ZONES.get(name).ok().filter(|zone| zone.iana_name() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::super::rollout_policy;

    /// G5: all fields, and their defaults.
    #[test]
    fn windows_are_read() {
        let read = |yaml: &str| rollout_policy(yaml).expect("a valid policy").windows;
        let whole = read("windows: [{}]");
        let days = "days: [Sun, Mon, Tue, Wed, Thu, Fri, Sat]";
        let told = format!("windows: [{{{days}, from: '00:00', to: '24:00', timeZone: UTC}}]");
        assert_eq!(whole, read(&told));
        assert_ne!(whole, read("windows: [{days: [Mon]}]"));
        assert_ne!(whole, read("windows: [{timeZone: Europe/Berlin}]"));
        assert!(read("{}").is_empty() && read("windows: null").is_empty());
        for valid in [
            "[{from: '22:00', to: '06:00', timeZone: America/New_York}, {days: [Sat, Sun]}]",
            "[{from: '22:00', to: '00:00', timeZone: America/Argentina/Buenos_Aires}]",
            "[{timeZone: Etc/GMT+5}, {timeZone: Asia/Calcutta}]",
        ] {
            read(&format!("windows: {valid}"));
        }
        let pace = |yaml: &str| rollout_policy(yaml).expect("a valid policy").pods_per_minute;
        assert_eq!(pace("podsPerMinute: 30").map(std::num::NonZeroU32::get), Some(30));
        assert_eq!(pace("{}"), None);
    }

    /// G4, G5: each field that is wrong gives an error that names the field and the value.
    #[test]
    fn an_error_names_the_field_and_the_value() {
        let zone = "must be the name of a time zone of the IANA database, such as Europe/Berlin";
        for (yaml, expected) in [
            ("windows: []", "windows: Invalid value: []: must have at least 1 item"),
            ("windows: {}", "windows: Invalid value: {}: must be a list"),
            ("windows: [3]", "windows[0]: Invalid value: 3: must be an object"),
            ("windows: [{day: Mon}]", "windows[0].day: unknown field"),
            ("windows: [{days: []}]", "windows[0].days: Invalid value: []: must have at least 1"),
            ("windows: [{days: Mon}]", "windows[0].days: Invalid value: \"Mon\": must be a list"),
            ("windows: [{days: [Mo]}]", "windows[0].days[0]: Invalid value: \"Mo\": must be one"),
            ("windows: [{days: [mon]}]", "windows[0].days[0]: Invalid value: \"mon\""),
            ("windows: [{days: [1]}]", "windows[0].days[0]: Invalid value: 1: must be one"),
            ("windows: [{days: [Mon, Mon]}]", "windows[0].days[1]: Duplicate value: \"Mon\""),
            ("windows: [{from: '9:00'}]", "windows[0].from: Invalid value: \"9:00\": must be a"),
            ("windows: [{from: '24:00'}]", "windows[0].from: Invalid value: \"24:00\""),
            ("windows: [{from: '25:00'}]", "windows[0].from: Invalid value: \"25:00\""),
            ("windows: [{from: '09:60'}]", "windows[0].from: Invalid value: \"09:60\""),
            ("windows: [{from: '+9:00'}]", "windows[0].from: Invalid value: \"+9:00\""),
            ("windows: [{from: 540}]", "windows[0].from: Invalid value: 540: must be a time"),
            ("windows: [{to: '24:01'}]", "windows[0].to: Invalid value: \"24:01\": must be a"),
            ("windows: [{to: '09:00:00'}]", "windows[0].to: Invalid value: \"09:00:00\""),
            ("windows: [{to: '00:00'}]", "from and to must be different times"),
            ("windows: [{from: '09:00', to: '09:00'}]", "windows[0]: Invalid value: {"),
            ("windows: [{timeZone: Mars/Base}]", zone),
            ("windows: [{timeZone: Local}]", zone),
            ("windows: [{timeZone: europe/berlin}]", zone),
            ("windows: [{timeZone: Etc/Unknown}]", zone),
            ("windows: [{timeZone: ../../etc/passwd}]", zone),
            ("windows: [{timeZone: '+02:00'}]", "windows[0].timeZone: Invalid value: \"+02:00\""),
            ("podsPerMinute: 0", "podsPerMinute: Invalid value: 0: must be a number that is"),
            ("podsPerMinute: -1", "podsPerMinute: Invalid value: -1: must be"),
            ("podsPerMinute: 1.5", "podsPerMinute: Invalid value: 1.5: must be"),
            ("podsPerMinute: '3'", "podsPerMinute: Invalid value: \"3\": must be"),
            ("podsPerMinute: 2147483648", "podsPerMinute: Invalid value: 2147483648: must be"),
            ("podsPerMinute: 9223372036854775808", "Invalid value: 9223372036854775808: must be"),
        ] {
            let error = rollout_policy(yaml).expect_err(yaml);
            assert!(error.contains(expected), "{yaml}: {error}");
        }
        let many = format!("windows: [{}]", vec!["{}"; 17].join(", "));
        let error = rollout_policy(&many).expect_err("too many windows");
        assert_eq!(error, "windows: Too many: 17: must have at most 16");
    }
}
