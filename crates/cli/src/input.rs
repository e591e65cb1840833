//! Reads the files that arguments name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

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
