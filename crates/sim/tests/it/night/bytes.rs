//! Bytes that are not UTF-8 in all objects of every scenario.

use crate::scenario::SCENARIOS;
use everynode_controller::metrics::ReasonLabels;
use everynode_sim::fault::Faults;

/// C1, C4: every version of every object has such bytes in texts that no decision reads. Each is
/// counted, and every scenario has the writes that it has without them.
#[test]
fn bytes_in_all_objects_are_reported_and_stop_nothing() {
    for scenario in SCENARIOS {
        let world = scenario.play_with_faults(Faults { invalid_utf8: 1000, ..Faults::default() });
        assert_eq!(world.violation, None, "{}", scenario.name);
        assert_eq!(world.writes, scenario.play(None, None).writes, "{}", scenario.name);
        let invalid_objects = world.read_report.invalid_objects;
        assert!(invalid_objects > 0, "{}", scenario.name);
        // Of many problems only the first ones are logged.
        let reason = "Undecodable";
        let counted = world.metrics.problems.get_or_create(&ReasonLabels { reason }).get();
        assert_eq!(counted, invalid_objects as u64, "{}", scenario.name);
    }
}
