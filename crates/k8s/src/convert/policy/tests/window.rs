//! Windows of a policy, and the pace.

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
