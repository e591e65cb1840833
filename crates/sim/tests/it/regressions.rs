//! Schedules that once violated a property, shrunk. The comments of each file describe the bug, and
//! the file names the deliberate bug that causes it again, if one outside of the core can. It
//! contains a schedule, or names a scenario and the fault at one of its writes.

use std::path::Path;

use crate::scenario::{SCENARIOS, Scenario};
use everynode_sim::mutation::Mutation;
use everynode_sim::schedule::Schedule;
use everynode_sim::world::{InjectedFault, World};

pub(crate) enum Play {
    Schedule(Schedule),
    Scenario(&'static Scenario, (u64, InjectedFault)),
}

pub(crate) struct Regression {
    pub name: String,
    pub bug: Option<Bug>,
    pub play: Play,
}

/// A deliberate bug that causes the violation again.
pub(crate) struct Bug {
    pub mutation: Mutation,
    /// The name of the violated property.
    pub violates: String,
}

impl Play {
    fn read(text: &str) -> Option<Self> {
        if let Some(line) = text.lines().find(|line| line.starts_with('{')) {
            return Schedule::parse(line).ok().map(Self::Schedule);
        }
        let scenario =
            SCENARIOS.iter().find(|scenario| Some(scenario.name) == field(text, "scenario "))?;
        let write = field(text, "answer lost to write ")?.parse().ok()?;
        Some(Self::Scenario(scenario, (write, InjectedFault::LoseAnswer)))
    }

    pub(crate) fn play(&self, mutation: Option<Mutation>) -> World {
        match self {
            Self::Schedule(schedule) => schedule.play(mutation, false),
            Self::Scenario(scenario, injected_fault) => {
                scenario.play(Some(*injected_fault), mutation)
            }
        }
    }
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

fn read(path: &Path) -> Regression {
    let text = std::fs::read_to_string(path).expect("the file is readable");
    let name = path.file_name().expect("the path has a file name").to_string_lossy().into_owned();
    let bug = field(&text, "mutation ").map(|mutation| Bug {
        mutation: Mutation::from_name(mutation).expect("the mutation exists"),
        violates: field(&text, "violates ").expect("a deliberate bug has a property").to_owned(),
    });
    Regression {
        bug,
        play: Play::read(&text)
            .unwrap_or_else(|| panic!("{name} contains no schedule and no scenario")),
        name,
    }
}

/// All recorded schedules.
pub(crate) fn all() -> Vec<Regression> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let files = std::fs::read_dir(directory).expect("the directory exists");
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        read(&file.expect("the file is readable").path())
    };
    let all: Vec<Regression> = files.map(read).collect();
    assert!(!all.is_empty(), "the directory contains no file");
    all
}

/// C34, C52, C60: no recorded schedule violates a property.
#[test]
fn no_recorded_schedule_violates_a_property() {
    for Regression { name, play, .. } in all() {
        assert_eq!(play.play(None).violation, None, "{name}");
    }
}
