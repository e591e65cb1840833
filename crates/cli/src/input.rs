//! Reads the files that arguments name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Maximum size of a file, and of standard input. It holds 15,000 nodes of 30 KiB.
const BYTES_MAX: u64 = 512 << 20;

/// A file of the command line.
#[derive(Clone, Debug)]
pub(crate) struct InputFile {
    /// The file's name in messages.
    pub name: String,
    pub text: String,
}

/// Reads a file; `-` is standard input. Waits for the writer of a pipe, as kubectl does.
///
/// # Errors
/// If the file can't be read, is too large, or is not UTF-8.
pub(crate) fn read(path: &Path) -> anyhow::Result<InputFile> {
    if path == Path::new("-") {
        let name = "standard input".to_owned();
        let text = limited(std::io::stdin(), BYTES_MAX).with_context(|| name.clone())?;
        return Ok(InputFile { name, text });
    }
    let name = path.display().to_string();
    let text = open(path).and_then(|file| limited(file, BYTES_MAX));
    let text = text.with_context(|| format!("read {name}"))?;
    Ok(InputFile { name, text })
}

/// Reads files, and those of directories that kubectl reads, too, by name.
///
/// # Errors
/// If one can't be read, or a directory has none.
pub(crate) fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<InputFile>> {
    if paths.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        bail!("standard input (-) can be read only once");
    }
    Ok(paths.iter().map(|path| files(path)).collect::<anyhow::Result<Vec<_>>>()?.concat())
}

/// Reads the output of `kubectl kustomize` for a directory.
///
/// # Errors
/// If kubectl can't be run, or fails.
pub(crate) fn kustomized(directory: &Path) -> anyhow::Result<InputFile> {
    let name = format!("kubectl kustomize {}", directory.display());
    let output = Command::new("kubectl").arg("kustomize").arg(directory).output();
    let output = output.with_context(|| format!("run {name}, which --kustomize needs"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let text = String::from_utf8(output.stdout).context("it is not UTF-8");
    Ok(InputFile { text: text.with_context(|| name.clone())?, name })
}

/// The extensions of the files of a directory that kubectl applies.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

fn files(path: &Path) -> anyhow::Result<Vec<InputFile>> {
    if !path.is_dir() {
        return Ok(vec![read(path)?]);
    }
    let name = path.display();
    let entries = std::fs::read_dir(path).with_context(|| format!("read {name}"))?;
    let paths: Result<Vec<PathBuf>, _> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.with_context(|| format!("read {name}"))?;
    paths.retain(|path| {
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        EXTENSIONS.contains(&extension) && !path.is_dir()
    });
    paths.sort();
    if paths.is_empty() {
        bail!("{name} contains no file that ends with .{}", EXTENSIONS.join(", ."));
    }
    paths.iter().map(|path| read(path)).collect()
}

fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::open(path)?;
    // Don't read what is too large anyway.
    check_size(file.metadata()?.len(), BYTES_MAX)?;
    Ok(file)
}

fn limited(input: impl Read, bytes_max: u64) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = input.take(bytes_max + 1).read_to_end(&mut bytes)?;
    check_size(read as u64, bytes_max)?;
    String::from_utf8(bytes).context("it is not UTF-8")
}

fn check_size(bytes: u64, bytes_max: u64) -> anyhow::Result<()> {
    if bytes > bytes_max {
        bail!("it is larger than {} MiB", bytes_max >> 20);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_read_up_to_its_limit() {
        let cause = |text: anyhow::Result<String>| text.unwrap_err().to_string();
        assert_eq!(cause(limited(std::io::repeat(0), 5 << 20)), "it is larger than 5 MiB");
        assert_eq!(limited(&b"12345"[..], 5).unwrap(), "12345");
        assert_eq!(cause(limited(&b"\xff"[..], 5)), "it is not UTF-8");
    }

    #[test]
    fn a_large_file_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10 << 30).unwrap();
        let error = read(file.path()).err().unwrap();
        assert_eq!(
            format!("{error:#}"),
            format!("read {}: it is larger than 512 MiB", file.path().display())
        );
    }
}
