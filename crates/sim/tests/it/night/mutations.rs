//! Tests of the checkers: they must catch deliberate bugs.

use std::sync::Mutex;

use crate::scenario::SCENARIOS;
use everynode_sim::checker::Property;
use everynode_sim::mutation::Mutation;
use everynode_sim::schedule::{Policies, Schedule};
use everynode_sim::shrink;
use everynode_sim::world::{InjectedFault, World};

/// Maximum number of random schedules that are played for each bug.
const SCHEDULES_MAX: u64 = 400;

/// Plays something with a deliberate bug, or without one.
type Play = Box<dyn Fn(Option<Mutation>) -> World>;

/// The scenarios without a fault, then with the fault at each write that reveals the bug, then
/// random schedules.
fn plays(mutation: Mutation) -> impl Iterator<Item = (String, Play)> {
    let plain = SCENARIOS.iter().map(|scenario| {
        let play: Play = Box::new(|mutation| scenario.play(None, mutation));
        (scenario.name.to_owned(), play)
    });
    let with_fault = injected_fault_for(mutation).into_iter().flat_map(move |injected_fault| {
        SCENARIOS.iter().flat_map(move |scenario| {
            let writes = scenario.play(None, None).writes;
            (1..=writes).map(move |write| {
                let fault = Some((write, injected_fault));
                let play: Play = Box::new(move |mutation| scenario.play(fault, mutation));
                (format!("{}, {injected_fault:?} at write {write}", scenario.name), play)
            })
        })
    });
    let policies = match mutation {
        Mutation::Guarded(_) | Mutation::ConfigMap(_) => Policies::Always,
        Mutation::Beside(_) => Policies::Beside,
        _ => Policies::Sometimes,
    };
    let random = (0..SCHEDULES_MAX).map(move |seed| {
        let schedule = Schedule::from_seed(seed, policies);
        let play: Play = Box::new(move |mutation| schedule.play(mutation, false));
        (format!("seed {seed}"), play)
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

/// The number of plays until the checker of this property catches the bug, the last play, and what
/// the checker says. A play that violates the property without the bug, too, does not count.
fn caught(mutation: Mutation, property: Property) -> Option<String> {
    plays(mutation).zip(1..).find_map(|((by, play), plays)| {
        let violated = |mutation| {
            let violation = play(mutation).violation;
            violation.filter(|violation| violation.property == property)
        };
        let violation = violated(Some(mutation)).filter(|_| violated(None).is_none())?;
        Some(format!("{plays}: {by}: {}", violation.message))
    })
}

/// The bugs that are inserted: all, or those whose names `EVERYNODE_BUGS` lists.
fn bugs() -> impl Iterator<Item = (Mutation, Property)> {
    let names = std::env::var("EVERYNODE_BUGS").ok();
    Mutation::all().filter(move |(mutation, _)| {
        names.as_ref().is_none_or(|names| names.split(',').any(|name| name == mutation.name()))
    })
}

/// C13, C21, C22, C23, C24, C30, C34, C42, C44, C45, C52–C54, C58, C60, C61, C70, C80, G5, G6, G15,
/// G16, G18–G20, G33, G39, G40, G42, G45, G46: the checker of the violated property catches every
/// deliberate bug, in one of the scenarios or within 400 random schedules.
#[test]
fn every_deliberate_bug_is_caught() {
    let remaining = Mutex::new(bugs());
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
    let small = shrink::shrink(&failing, property, Some(mutation)).schedule;
    assert!(fails(&small), "{}", small.to_line());
    assert!(small.steps.len() <= 2, "{}", small.to_line());
    assert_eq!(small.faults, everynode_sim::fault::Faults::default());
    assert_eq!(Schedule::parse(&small.to_line()).unwrap(), small);
}
