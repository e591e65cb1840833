//! Tests of the checkers: they must catch deliberate bugs.

use std::sync::Mutex;

use everynode_sim::checker::Property;
use everynode_sim::mutation::Mutation;
use everynode_sim::scenario::SCENARIOS;
use everynode_sim::schedule::{Policies, Schedule};
use everynode_sim::shrink;
use everynode_sim::world::{InjectedFault, World};

/// Maximum number of random schedules that are played for each bug.
const SCHEDULES_MAX: u64 = 200;

/// Plays the scenarios without a fault, then with the fault at each write that reveals the bug,
/// then random schedules.
fn plays(mutation: Mutation) -> impl Iterator<Item = (String, World)> {
    let plain = SCENARIOS
        .iter()
        .map(move |scenario| (scenario.name.to_owned(), scenario.play(None, Some(mutation))));
    let with_fault = injected_fault_for(mutation).into_iter().flat_map(move |injected_fault| {
        SCENARIOS.iter().flat_map(move |scenario| {
            let writes = scenario.play(None, None).writes;
            (1..=writes).map(move |write| {
                let world = scenario.play(Some((write, injected_fault)), Some(mutation));
                (format!("{}, {injected_fault:?} at write {write}", scenario.name), world)
            })
        })
    });
    let policies = match mutation {
        Mutation::Guarded(_) => Policies::Always,
        Mutation::Beside(_) => Policies::Beside,
        _ => Policies::Sometimes,
    };
    let random = (0..SCHEDULES_MAX).map(move |seed| {
        (format!("seed {seed}"), Schedule::from_seed(seed, policies).play(Some(mutation), false))
    });
    plain.chain(with_fault).chain(random)
}

/// Returns the fault that reveals a bug which otherwise shows only in rare cases.
fn injected_fault_for(mutation: Mutation) -> Option<InjectedFault> {
    match mutation {
        Mutation::DropUidPrecondition => Some(InjectedFault::TakeName),
        Mutation::UnansweredCreationIsRefused
        | Mutation::AnotherName
        | Mutation::UnansweredDeletionIsRefused => Some(InjectedFault::LoseAnswer),
        _ => None,
    }
}

fn next<T>(remaining: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    remaining.lock().expect("no thread panics while it takes one").next()
}

/// The number of plays until the checker of this property catches the bug, and the last play.
fn caught(mutation: Mutation, property: Property) -> Option<String> {
    let ((by, _), plays) = plays(mutation).zip(1..).find(|((_, world), _)| {
        world.violation.as_ref().is_some_and(|violation| violation.property == property)
    })?;
    Some(format!("{plays}: {by}"))
}

/// C13, C21, C22, C23, C24, C30, C34, C42, C44, C45, C52–C54, C60, C61, C70, C80, G6, G16,
/// G18–G20: the checker of the violated property catches every deliberate bug, in one of the
/// scenarios or within 200 random schedules.
#[test]
fn every_deliberate_bug_is_caught() {
    let remaining = Mutex::new(Mutation::all());
    let missed = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((mutation, property)) = next(&remaining) {
                    match caught(mutation, property) {
                        Some(by) => println!("{mutation:?}: {property:?} after {by}"),
                        None => missed.lock().unwrap().push((mutation, property)),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

/// Shrinking a long schedule that a deliberate bug breaks keeps only what is needed to break it.
#[test]
fn a_failing_schedule_is_shrunk() {
    let (mutation, property) = (Mutation::LeavePods, Property::ExpectationLapse);
    let fails = |schedule: &Schedule| {
        let violation = schedule.play(Some(mutation), false).violation;
        violation.is_some_and(|violation| violation.property == property)
    };
    let long = (0..SCHEDULES_MAX)
        .map(|seed| Schedule::from_seed(seed, Policies::Sometimes))
        .filter(|schedule| schedule.steps.len() > 15);
    let failing = long.into_iter().find(fails).expect("one of them fails");
    let small = shrink::shrink(&failing, property, Some(mutation));
    assert!(fails(&small), "{}", small.to_line());
    assert!(small.steps.len() <= 2, "{}", small.to_line());
    assert_eq!(small.faults, everynode_sim::fault::Faults::default());
    assert_eq!(Schedule::parse(&small.to_line()).unwrap(), small);
}
