//! The official Python client: runs the scripts of e2e/python in the environment that make creates.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::world::World;
use crate::world::command::python;

/// S4, S5, S6, S7, S8: list, watch, patch and delete as in the Python client's examples
#[tokio::test]
async fn the_python_clients_examples_run_unchanged() -> Result<()> {
    let world = World::cluster(3).await?;
    let python = python()?;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut names: Vec<_> = std::fs::read_dir(&scripts)?.collect::<Result<_, _>>()?;
    names.retain(|entry| entry.path().extension().is_some_and(|extension| extension == "py"));
    names.sort_by_key(std::fs::DirEntry::file_name);
    ensure!(!names.is_empty(), "no scripts in {}", scripts.display());
    for script in names {
        let mut command = Command::new(&python);
        command.arg(script.path()).arg(&world.namespace);
        let name = script.file_name();
        world.finish(command, "").await?.ok().with_context(|| format!("{}", name.display()))?;
    }
    Ok(())
}
