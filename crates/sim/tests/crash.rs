//! Exhaustive tests: a fault at each single write of each scenario.

use everynode_sim::scenario::SCENARIOS;
use everynode_sim::world::InjectedFault;

fn exhaust(injected_fault: InjectedFault) {
    let mut failures = Vec::new();
    for scenario in SCENARIOS {
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
