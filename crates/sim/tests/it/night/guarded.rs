//! Guarded rollouts whose leader crashes after any write: how far they get, and what that costs.

use crate::scenario::{KILLER, SPOILED_CONFIG_MAP, WAVES};
use everynode_sim::checker::Section;
use everynode_sim::world::InjectedFault;

use crate::guarded::{contents, images, reached_by, record, scenario};

/// Maximum number of writes of records for each wave, and for all other nodes.
const RECORDS_MAX: u64 = 4;

/// G13 to G15: a template that stops the nodes on which it runs reaches as many as may be
/// unavailable and as may fail, wherever the leader crashes.
#[test]
fn a_template_that_stops_its_nodes_reaches_few() {
    let scenario = scenario(KILLER);
    let writes = scenario.play(None, None).writes;
    for write in 0..=writes {
        let world = scenario.play(Some((write, InjectedFault::CrashLeader)), None);
        assert_eq!(world.violation, None, "after write {write}");
        let reached = images(&world).iter().filter(|image| *image == "image:2").count();
        assert!(reached <= 2, "after write {write}: {:?}", images(&world));
        assert_eq!(record(&world)["phase"], "Failed", "after write {write}");
    }
}

/// G9: a leader that crashes after any write of a guarded rollout repeats no wave: the records of
/// all leaders together are at most four for each wave.
#[test]
fn a_crash_repeats_no_wave() {
    let scenario = scenario("guarded rollout");
    let writes = scenario.play(None, None).writes;
    for write in 0..=writes {
        let world = scenario.play(Some((write, InjectedFault::CrashLeader)), None);
        assert_eq!(world.violation, None, "after write {write}");
        let records = world.checks.coverage.total(Section::Records);
        assert!(records <= RECORDS_MAX * (WAVES + 1), "after write {write}: {records} records");
    }
}

/// G9, G58: the same holds for a bad content of a ConfigMap, and all nodes get back the content
/// before.
#[test]
fn a_bad_content_reaches_the_canary_only() {
    let scenario = scenario(SPOILED_CONFIG_MAP);
    let writes = scenario.play(None, None).writes;
    for write in 0..=writes {
        let world = scenario.play(Some((write, InjectedFault::CrashLeader)), None);
        assert_eq!(world.violation, None, "after write {write}");
        assert_eq!(contents(&world), ["1"; 3], "after write {write}");
        assert!(reached_by(&world, "2") <= 1, "after write {write}");
    }
}
