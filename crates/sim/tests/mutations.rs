//! The checkers, checked: deliberate bugs, each of which has to be caught.

use everynode_sim::mutation::Mutation;
use everynode_sim::scenario::SCENARIOS;
use everynode_sim::schedule;

/// So many schedules have to be enough for each bug.
const SCHEDULES_MAX: u64 = 150;

/// How many schedules it takes.
fn caught_after(mutation: Mutation) -> Option<(u64, String)> {
    for (number, scenario) in (1..).zip(SCENARIOS) {
        if let Some(violation) = scenario.play_with(mutation).violation {
            return Some((number, format!("{:?}", violation.property)));
        }
    }
    (0..SCHEDULES_MAX).find_map(|seed| {
        let world = schedule::play(seed, Some(mutation), false);
        world.violation.map(|violation| (seed + 1, format!("{:?}", violation.property)))
    })
}

/// C22, C23, C30, C34, C42, C52, C54, C60, C70: every deliberate bug is caught within 150 schedules.
#[test]
fn every_deliberate_bug_is_caught() {
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        match caught_after(mutation) {
            Some((schedules, property)) => {
                println!("{mutation:?}: {property} after {schedules} schedules")
            }
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
