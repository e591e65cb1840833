//! The recorded schedules, each with the deliberate bug that it was recorded for.

use crate::regressions::{Bug, Regression, all};

/// C34, C52, C60: the checkers still see each bug in its schedule.
#[test]
fn every_recorded_schedule_fails_with_its_bug() {
    for Regression { name, bug, play } in all() {
        let Some(Bug { mutation, violates }) = bug else { continue };
        let property = play.play(Some(mutation)).violation.map(|violation| violation.property);
        let property = property.map(|property| format!("{property:?}"));
        assert_eq!(property, Some(violates), "{name} with {mutation:?}");
    }
}
