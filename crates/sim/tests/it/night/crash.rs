//! Exhaustive tests: a fault at each single write of each scenario.

use std::collections::BTreeSet;

use crate::scenario::{SCENARIOS, Scenario};
use everynode_sim::world::{CombinedFault, InjectedFault, WatchFailure, WriteFailure};

fn exhaust(injected_fault: InjectedFault) {
    exhaust_in(SCENARIOS.iter(), injected_fault);
}

fn exhaust_in<'a>(scenarios: impl Iterator<Item = &'a Scenario>, injected_fault: InjectedFault) {
    let mut failures = Vec::new();
    for scenario in scenarios {
        if let Err(failure) = scenario.exhaust(injected_fault) {
            failures.push(failure.to_string());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// C62, C34, C44: the leader crashes after each write. Its successor converges without a duplicate
/// pod and without deleting a revision in use.
#[test]
fn a_crash_after_any_write_converges() {
    exhaust(InjectedFault::CrashLeader);
}

/// C63, C62: the leader is fenced after each write and continues to decide for up to 15 s, with a
/// wrong clock, while another one leads.
#[test]
fn two_leaders_after_any_write_converge() {
    exhaust(InjectedFault::FenceLeader);
}

/// C60, C34: watches are stalled after each write.
#[test]
fn stalled_watches_after_any_write_converge() {
    exhaust(InjectedFault::StallWatches);
}

/// C60, C1: the changes after each write are compacted, so that watches must list again.
#[test]
fn a_compacted_log_after_any_write_converges() {
    exhaust(InjectedFault::CompactLog);
}

/// C60, C61: the answer to each write is lost although it took effect.
#[test]
fn a_lost_answer_to_any_write_converges() {
    exhaust(InjectedFault::LoseAnswer);
}

/// C34, C35, C52: each write is answered with a 5xx although it took effect.
#[test]
fn a_server_error_after_any_write_converges() {
    exhaust(InjectedFault::Committed5xx);
}

/// C61, C21, C43: just before each write, a foreign pod or revision takes the name of the object
/// that the write changes or creates.
#[test]
fn a_foreign_object_with_the_name_is_never_written() {
    exhaust(InjectedFault::TakeName);
}

/// C62, C60: after each write the leader is stopped, and its successor lists at an API server that
/// is behind.
#[test]
fn a_successor_at_an_older_server_after_any_write_converges() {
    exhaust(InjectedFault::HandOver);
}

/// Every combination of a failure of a write with failures of what is read after it.
fn combinations() -> Vec<CombinedFault> {
    let watches = || [None].into_iter().chain(WatchFailure::ALL.map(Some));
    let reads = || watches().flat_map(|watches| [(false, watches), (true, watches)]);
    let writes = WriteFailure::ALL.into_iter();
    let combinations = writes.flat_map(|write| {
        reads().map(move |(fails_next_get, watches)| CombinedFault {
            write,
            fails_next_get,
            watches,
        })
    });
    combinations.collect()
}

/// The scenarios in which a combination runs: one in six without a failure of watches, else one in
/// 24. The combinations of all failures of a write are numbered in one sequence, so that
/// each failure of a write has other scenarios.
fn sample(number: usize, combined: CombinedFault) -> impl Iterator<Item = &'static Scenario> {
    let one_in = if combined.watches.is_none() { 6 } else { 24 };
    SCENARIOS.iter().skip(number % one_in).step_by(one_in)
}

/// Every combination of this failure of a write with failures of what is read after it, in a sample
/// of the scenarios. If `EVERYNODE_ALL_COMBINATIONS` is set, in all of them.
fn combine(write: WriteFailure) {
    let is_complete = std::env::var_os("EVERYNODE_ALL_COMBINATIONS").is_some();
    let combinations = combinations().into_iter().enumerate();
    for (number, combined) in combinations.filter(|(_, combined)| combined.write == write) {
        let fault = InjectedFault::Combined(combined);
        if is_complete {
            exhaust(fault);
        } else {
            exhaust_in(sample(number, combined), fault);
        }
    }
}

/// The samples have every scenario, with and without a failure of watches.
#[test]
fn every_scenario_is_in_a_sample() {
    for watches_fail in [false, true] {
        let combinations = combinations().into_iter().enumerate();
        let combinations =
            combinations.filter(|(_, combined)| combined.watches.is_some() == watches_fail);
        let samples = combinations.flat_map(|(number, combined)| sample(number, combined));
        let names: BTreeSet<&str> = samples.map(|scenario| scenario.name).collect();
        let is_missing = |scenario: &&Scenario| !names.contains(scenario.name);
        let missing: Vec<&str> = SCENARIOS.iter().filter(is_missing).map(|s| s.name).collect();
        assert!(missing.is_empty(), "watches fail: {watches_fail}, missing: {missing:?}");
    }
}

/// C60, C61: each write is refused with a 409, and what is read after it is late, incomplete or
/// old.
#[test]
fn a_conflict_and_failing_reads_converge() {
    combine(WriteFailure::Conflict);
}

/// C34, C35, C60: each write is refused with a 500, so its outcome is unknown, and what is read
/// after it is late, incomplete or old.
#[test]
fn a_server_error_instead_of_any_write_and_failing_reads_converge() {
    combine(WriteFailure::InternalError);
}

/// C34, C35, C60: each write is lost before it takes effect, and what is read after it is late,
/// incomplete or old.
#[test]
fn a_lost_write_and_failing_reads_converge() {
    combine(WriteFailure::Lost);
}

/// C34, C35, C52, C60: each write is answered with a 5xx although it took effect, and what is read
/// after it is late, incomplete or old.
#[test]
fn a_server_error_after_any_write_and_failing_reads_converge() {
    combine(WriteFailure::Committed5xx);
}

/// C34, C35, C52, C60: the answer to each write is lost although it took effect, and what is read
/// after it is late, incomplete or old.
#[test]
fn a_lost_answer_to_any_write_and_failing_reads_converge() {
    combine(WriteFailure::AnswerLost);
}

/// C34, C35, C52, C60: each write takes effect after its sender has given it up, and what is read
/// meanwhile is late, incomplete or old.
#[test]
fn a_late_write_and_failing_reads_converge() {
    combine(WriteFailure::LandsLate);
}
