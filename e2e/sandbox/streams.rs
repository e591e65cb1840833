//! Standard error that is full or not read: a controller keeps working.

use std::fs::OpenOptions;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::separate_process::bare;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::process::Process;

/// C62: a controller that can't log keeps working
#[tokio::test]
async fn a_controller_that_cannot_log_keeps_working() -> Result<()> {
    let world = bare(2).await?;
    let full = OpenOptions::new().write(true).open("/dev/full").context("open /dev/full")?;
    let unread = std::io::pipe()?.1;
    for (name, stderr) in [("full", Stdio::from(full)), ("unread", unread.into())] {
        let arguments = ["run", "--leader-elect=false", "--log-level=debug"];
        let directory = world.directory.path();
        let mut controller =
            Process::everynode_with_stderr(directory, &arguments, &world.kubeconfig, stderr)?;
        world.roll_out(&daemon_set(name)).await.context(name)?;
        world.patch_daemon_set(name, image_patch(NEXT_IMAGE)).await?;
        world.settled(name).await?;
        controller.check_running()?;
        let (status, _) = controller.terminate().await?;
        ensure!(status.success(), "{name}: {status}");
    }
    Ok(())
}
