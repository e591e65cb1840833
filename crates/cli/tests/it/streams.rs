//! Standard output and standard error that are full, closed, or not read: commands fail with an
//! exit code.

use std::fs::{File, OpenOptions};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::program::PROGRAM;

/// The destination of a stream.
#[derive(Clone, Copy, Debug)]
enum Stream {
    Null,
    /// A full disk.
    Full,
    /// A pipe whose reader has closed it.
    Unread,
}

impl Stream {
    fn open(self) -> Result<Stdio> {
        Ok(match self {
            Stream::Null => Stdio::null(),
            Stream::Full => full()?.into(),
            Stream::Unread => std::io::pipe()?.1.into(),
        })
    }
}

fn full() -> Result<File> {
    OpenOptions::new().write(true).open("/dev/full").context("open /dev/full")
}

/// C63, S1: output to a full device is an error of the command, never a panic; output to a closed
/// pipe is no error
#[test]
fn a_command_whose_output_is_full_fails_with_an_error() -> Result<()> {
    use Stream::{Full, Null, Unread};
    let settled = ["sandbox", "--nodes=1", "--exit-when-settled", "--timeout=50s"];
    let no_config = ["run", "--kubeconfig=/nowhere"];
    let cases: [(&[&str], Stream, Stream, i32); 13] = [
        (&["version"], Full, Null, 1),
        (&["version"], Full, Full, 1),
        (&["version"], Unread, Null, 0),
        (&["--help"], Full, Null, 1),
        (&["--help"], Unread, Null, 0),
        (&["completion", "bash"], Full, Null, 1),
        (&["completion", "bash"], Unread, Null, 0),
        (&["nonsense"], Null, Full, 2),
        (&["nonsense"], Null, Unread, 2),
        (&no_config, Null, Full, 1),
        (&no_config, Full, Unread, 1),
        (&settled, Full, Null, 1),
        (&settled, Null, Full, 0),
    ];
    for (arguments, stdout, stderr, expected) in cases {
        let status = Command::new(PROGRAM)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout.open()?)
            .stderr(stderr.open()?)
            .status()?;
        ensure!(
            status.code() == Some(expected),
            "{arguments:?} with {stdout:?} and {stderr:?} ends with {status}"
        );
    }
    Ok(())
}

/// S1: a kubeconfig that can't be written is reported, and a path that is not a regular file is not
/// replaced
#[test]
fn a_kubeconfig_that_cant_be_written_is_reported() -> Result<()> {
    let arguments = ["sandbox", "--kubeconfig-out=/dev/full", "--exit-when-settled"];
    let output = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{}: {stderr}", output.status);
    ensure!(stderr.contains("write kubeconfig /dev/full: it is not a regular file"), "{stderr}");
    full()?;
    Ok(())
}

/// S12: a sandbox that may open few files works, and takes fewer connections
#[test]
fn a_sandbox_with_few_files_works() -> Result<()> {
    let command = format!("ulimit -n 64 && exec {PROGRAM} sandbox --nodes 2 --exit-when-settled");
    let output = Command::new("sh").args(["-c", &command]).stdin(Stdio::null()).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {stderr}", output.status);
    ensure!(stderr.is_empty(), "{stderr}");
    Ok(())
}
