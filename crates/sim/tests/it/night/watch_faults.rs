//! Faults of watches, and missing rights, in every scenario.

use crate::scenario::SCENARIOS;
use everynode_sim::checker::Section;
use everynode_sim::fault::Faults;

/// Plays every scenario with these faults, which end with its steps. Each converges, and some have
/// the fault of this name.
fn converge(faults: Faults, name: &str) {
    let mut count = 0;
    for scenario in SCENARIOS {
        let world = scenario.play_with_faults(faults);
        assert_eq!(world.violation, None, "{}", scenario.name);
        count += world.checks.coverage.number(Section::Faults, name);
    }
    assert!(count > 0, "no scenario has the fault {name:?}");
}

/// C1: requests to continue a watch are answered with 410, so that the replica lists again. Watches
/// break off so that there are such requests.
#[test]
fn a_watch_that_is_answered_with_410_is_replaced_by_a_list() {
    converge(Faults { cut: 200, expire: 500, ..Faults::default() }, "watch answered with 410");
}

/// C1: after a line that is not JSON, the watch continues from the change before it.
#[test]
fn a_line_that_is_not_json_hides_no_change() {
    converge(Faults { bad_line: 300, ..Faults::default() }, "line that is not JSON");
}

/// C1: after a line that is cut off, the watch continues from the change before it.
#[test]
fn a_line_that_is_cut_off_hides_no_change() {
    converge(Faults { cut_line: 300, ..Faults::default() }, "line cut off");
}

/// C1, C35: a replica without rights for a minute continues afterwards.
#[test]
fn a_minute_without_rights_is_survived() {
    converge(Faults { forbid: 50, ..Faults::default() }, "requests forbidden");
}
