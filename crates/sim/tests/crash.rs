//! Exhaustive tests: a fault at each single write of each scenario.

use everynode_sim::scenario::{SCENARIOS, Scenario};
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

/// Every combination of this failure of a write with failures of what is read after it, in some of
/// the scenarios each: in every fourth one without a failure of watches, else in every sixteenth.
fn combine(write: WriteFailure) {
    let watches = [None].into_iter().chain(WatchFailure::ALL.map(Some));
    let combinations = watches.flat_map(|watches| [(false, watches), (true, watches)]);
    for (index, (fails_next_get, watches)) in combinations.enumerate() {
        let one_in = if watches.is_none() { 4 } else { 16 };
        let some = SCENARIOS.iter().skip(index % one_in).step_by(one_in);
        let combined = CombinedFault { write, fails_next_get, watches };
        exhaust_in(some, InjectedFault::Combined(combined));
    }
}

/// C60, C61: each write is refused, and what is read after it is late, incomplete or old.
#[test]
fn a_refused_write_and_failing_reads_converge() {
    combine(WriteFailure::Refused);
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
