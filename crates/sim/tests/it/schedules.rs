//! Many random schedules, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use everynode_sim::checker::{Coverage, Section};
use everynode_sim::runner;
use everynode_sim::schedule::Policies;

/// Number of schedules, always the same ones, so that no change fails by chance. `make night` plays
/// others.
const SCHEDULES: u64 = 20;
const UNPOISONED: &str = "no thread panics while it has the lock";
const FAILURES_MAX: usize = 3;
/// This number of schedules is enough for some object with invalid bytes.
const SCHEDULES_MIN: u64 = 20;
/// This number of schedules is enough for all faults in rollouts.
const COVERAGE_MIN: u64 = 1_000;
/// Least share of the deletions and creations of pods that are judged, in percent.
const JUDGED_MIN: u64 = 90;
/// Least number of times in a schedule, on average, that a replica with nothing to do is judged.
const IDLE_MIN: u64 = 20;
/// Least number of Kubernetes Events in a schedule, on average, that are judged.
const EVENTS_MIN: u64 = 5;
/// This number of schedules is enough for a failed rollout that is rolled back.
const ROLL_BACK_MIN: u64 = 500;
/// A full budget, a full `maxSurge` and a pod that the controller has bound must be among the
/// schedules.
const REQUIRED: [(Section, &str); 3] = [
    (Section::Budgets, "full"),
    (Section::Surges, "full"),
    (Section::Others, "pod bound by the controller"),
];
/// The records of guarded rollouts that must be among the schedules.
const RECORDS: [&str; 9] = [
    "Baking",
    "Complete",
    "Complete PromotedInFull",
    "Failed Aborted",
    "Failed NodesFailed",
    "Superseded",
    "Superseded PromotedInFull",
    "Updating",
    "Updating PromotedInFull",
];
/// The faults that must be among the schedules, also in the middle of a rollout.
const FAULTS: [&str; 27] = [
    "5xx after the write",
    "API server restarted",
    "admission",
    "clock of the leader set",
    "connection to another API server",
    "events repeated",
    "late bookmark",
    "line cut off",
    "line that is not JSON",
    "list cut off",
    "list or watch refused",
    "pod changed by admission",
    "log compacted",
    "watch answered with 410",
    "watch closed",
    "watch error",
    "answer lost",
    "leader crashed",
    "leader cut off",
    "leader stopped",
    "lease of a node expired",
    "read failed",
    "requests forbidden",
    "stalled watch",
    "write lost",
    "write refused",
    "write took effect late",
];

/// The number in an environment variable.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// C4, C34, C60, C61, C62, C63: no fault between replicas and API server leads to a violation of a
/// property. Objects with bytes that are not UTF-8 are among the faults, and each is reported.
/// `EVERYNODE_SCHEDULES` is the number of schedules, `EVERYNODE_SEED` the first seed.
#[test]
fn no_schedule_violates_a_property() {
    let count = number("EVERYNODE_SCHEDULES").unwrap_or(SCHEDULES);
    let Played { invalid, reported, coverage } = play(count, Policies::Sometimes);
    println!("{invalid} objects had bytes that are not UTF-8");
    assert!(invalid > 0 || count < SCHEDULES_MIN, "no object had invalid bytes");
    // An answer that is lost, or that a crashed replica would have read, is not reported.
    assert!(reported > 0 || invalid == 0, "none of {invalid} objects was reported");
    if count >= COVERAGE_MIN {
        let required = REQUIRED.into_iter();
        let records = RECORDS.into_iter().map(|record| (Section::Records, record));
        let faults = FAULTS.into_iter().map(|fault| (Section::FaultsInRollouts, fault));
        for (section, kind) in required.chain(records).chain(faults) {
            assert!(coverage.number(section, kind) > 0, "{section:?} lack {kind}: {coverage}");
        }
    }
}

/// G18, G19, G20: the same with an installation beside the built-in controller, which everynode
/// without policies plays. A fifth of the number of schedules.
#[test]
fn no_schedule_beside_the_built_in_controller_violates_a_property() {
    let count = number("EVERYNODE_SCHEDULES").unwrap_or(SCHEDULES) / 5;
    let Played { coverage, .. } = play(count, Policies::Beside);
    let rolled_back = coverage.number(Section::Others, "DaemonSet rolled back");
    assert!(rolled_back > 0 || count < ROLL_BACK_MIN, "nothing was rolled back: {coverage}");
}

/// The results of the schedules of a test.
struct Played {
    /// Number of objects with bytes that are not UTF-8.
    invalid: usize,
    /// Number of reports about them.
    reported: usize,
    coverage: Coverage,
}

/// Plays this number of schedules. Fails if one violates a property, or if too few writes of pods
/// are judged.
fn play(count: u64, policies: Policies) -> Played {
    let first = number("EVERYNODE_SEED").unwrap_or(0);
    let end = first + count;
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    let (invalid, reported) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let coverage = Mutex::new(Coverage::default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || failures.lock().expect(UNPOISONED).len() >= FAILURES_MAX {
                        return;
                    }
                    match runner::run(seed, policies, None) {
                        Ok(world) => {
                            invalid.fetch_add(world.read_report.invalid_objects, Ordering::Relaxed);
                            reported.fetch_add(world.read_report.problems.len(), Ordering::Relaxed);
                            coverage.lock().expect(UNPOISONED).merge(&world.checks.coverage);
                        }
                        Err(failure) => {
                            failures.lock().expect(UNPOISONED).push(failure.to_string())
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect(UNPOISONED);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let (invalid, reported) = (invalid.into_inner(), reported.into_inner());
    let coverage = coverage.into_inner().expect(UNPOISONED);
    println!("{coverage}");
    assert!(coverage.judged_percent(Section::Deletions) >= JUDGED_MIN, "{coverage}");
    assert!(coverage.judged_percent(Section::Creations) >= JUDGED_MIN, "{coverage}");
    let idle = coverage.number(Section::Others, "replica with nothing to do");
    assert!(idle >= count * IDLE_MIN, "{coverage}");
    assert!(coverage.number(Section::Others, "event") >= count * EVENTS_MIN, "{coverage}");
    Played { invalid, reported, coverage }
}
