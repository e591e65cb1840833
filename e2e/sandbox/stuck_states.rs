//! The ways in which a DaemonSet gets stuck: what `top`, `status`, `explain` and `watch` say of
//! each, word for word, and that they agree.
//!
//! Each file of `stuck_states/` is one state, a session in the form of [`super::conversation`]. The
//! commands of everynode see the cluster as it will be in twenty minutes if nothing happens, so
//! that what lasts long has lasted long. `EVERYNODE_UPDATE=replace` writes answers and page;
//! `EVERYNODE_STATES=crash,oom` runs only the states whose names contain one of these. The head of
//! the file has the row of docs/stuck.md:
//!
//! | | |
//! |---|---|
//! | first line | the state in a few words |
//! | `group` | the section of docs/stuck.md |
//! | `made` | how the sandbox is brought into it, where that is not what a cluster does |
//! | `sandbox` | the arguments of a sandbox of its own; without them it shares one of three nodes |
//! | `only` | the commands that name the cause, if not all do |
//! | `state` | the word in the column STATE of `top` |
//! | `cause` | what all commands name |
//! | `says` | what a component says of it, or the numbers behind it, in all commands |
//! | `nodes` | the number of nodes; 0 if the cause is not one of nodes |
//! | `next` | the next step that all commands name |
//! | `means` | what the cause means, for the reader of docs/stuck.md |

mod head;
mod page;
mod session;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, stream};
use jiff::SignedDuration;

use crate::world::older::OlderCluster;
use crate::world::{Setup, World};
use head::Head;
use session::Session;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sandbox/stuck_states");

/// How much later the commands see the cluster.
const LATER: SignedDuration = SignedDuration::from_mins(20);
/// Maximum number of sessions at a time in one sandbox.
const SESSIONS_MAX: usize = 6;
/// Maximum time for a state to come about, and for a command to name it.
const DEADLINE: Duration = Duration::from_secs(25);

/// C28, C32, C54: the states that need nothing of the nodes
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_agree_on_each_cause() -> Result<()> {
    let states = states(|head| head.sandbox.is_empty())?;
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    let older = OlderCluster::start(world.client.clone(), LATER).await?;
    let sessions = states.iter().map(|path| hold(&world, &older, path));
    let results: Vec<Result<()>> = stream::iter(sessions).buffered(SESSIONS_MAX).collect().await;
    all(results)
}

/// C13, C16, C52, C56: the states of nodes and controllers
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_agree_on_the_causes_of_nodes_and_controllers() -> Result<()> {
    let states = states(|head| !head.sandbox.is_empty())?;
    let mut results = Vec::new();
    for path in &states {
        let head = Head::read(path)?;
        let arguments: Vec<&str> = head.sandbox.split_whitespace().collect();
        let (nodes, arguments) = arguments.split_first().context("it is not empty")?;
        let setup = Setup { nodes: nodes.parse()?, controller: true, arguments };
        let world = World::sandbox(setup).await?;
        let older = OlderCluster::start(world.client.clone(), LATER).await?;
        results.push(hold(&world, &older, path).await);
    }
    all(results)
}

/// The files of the states whose heads are wanted, in the order of their names.
fn states(wanted: impl Fn(&Head) -> bool) -> Result<Vec<PathBuf>> {
    let only = std::env::var("EVERYNODE_STATES").ok();
    let is_meant = |path: &Path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        only.as_ref().is_none_or(|only| only.split(',').any(|part| name.contains(part)))
    };
    let mut states = Vec::new();
    for entry in std::fs::read_dir(FOLDER)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "txt")
            && is_meant(&path)
            && wanted(&Head::read(&path)?)
        {
            states.push(path);
        }
    }
    states.sort();
    Ok(states)
}

async fn hold(world: &World, older: &OlderCluster, path: &Path) -> Result<()> {
    Session::open(world, older, path).await?.hold().await
}

fn all(results: Vec<Result<()>>) -> Result<()> {
    let failed: Vec<String> =
        results.into_iter().filter_map(|result| Some(format!("{:#}", result.err()?))).collect();
    ensure!(failed.is_empty(), "{} states\n\n{}", failed.len(), failed.join("\n\n"));
    Ok(())
}
