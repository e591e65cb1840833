//! The sandbox as a separate process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_everynode");

/// A running `everynode sandbox`, which ends when dropped.
pub struct Sandbox {
    process: Child,
    kubeconfig: PathBuf,
    _directory: tempfile::TempDir,
}

impl Sandbox {
    /// Returns when all nodes are ready and all DaemonSets rolled out.
    pub fn start(arguments: &[&str]) -> anyhow::Result<Sandbox> {
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        let mut process = Command::new(PROGRAM)
            .args(["sandbox", "--zones=3", "--timeout=10m", "--kubeconfig-out"])
            .arg(&kubeconfig)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(output).lines();
        let settled =
            lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("settled")));
        // Keep reading, so that the sandbox never waits for this process.
        std::thread::spawn(move || lines.for_each(drop));
        let sandbox = Sandbox { process, kubeconfig, _directory: directory };
        ensure!(settled.is_some(), "the sandbox did not start");
        Ok(sandbox)
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// Errors are ignored: the process may have ended already.
pub fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}
