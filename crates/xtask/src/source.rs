//! The tree as the checks read it: files in a fixed order, and what in a file is code and what is test.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// One text file of the project.
pub struct Source {
    /// From the root of the repository, with `/` between its parts.
    pub path: String,
    pub text: String,
}

impl Source {
    /// Lines of the program proper: before the file's own `mod tests`.
    pub fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = if self.is_test() { 0 } else { self.first_test_line() };
        self.lines().take(end)
    }

    /// Lines that exist for tests only.
    pub fn tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let start = if self.is_test() { 0 } else { self.first_test_line() };
        self.lines().skip(start)
    }

    /// Lines with their numbers, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Is all of the file test code?
    pub fn is_test(&self) -> bool {
        let inside = |folder: &str| {
            self.path.starts_with(&format!("{folder}/"))
                || self.path.contains(&format!("/{folder}/"))
        };
        inside("e2e") || inside("tests") || self.path.ends_with("/tests.rs")
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn first_test_line(&self) -> usize {
        let inline = |line: &str| line.starts_with("mod tests {") || line.starts_with("mod test {");
        self.text.lines().position(inline).unwrap_or(usize::MAX)
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All text files under the given folders, ordered by path.
pub fn read(root: &Path, folders: &[&str]) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for folder in folders {
        let walk = walkdir::WalkDir::new(root.join(folder)).sort_by_file_name();
        for entry in walk.into_iter().filter_entry(|entry| entry.file_name() != "__pycache__") {
            let entry = entry.with_context(|| format!("{folder} can't be listed"))?;
            if entry.file_type().is_file() {
                sources.extend(read_file(root, entry.path())?);
            }
        }
    }
    Ok(sources)
}

/// Nothing for a file that is not text.
fn read_file(root: &Path, path: &Path) -> anyhow::Result<Option<Source>> {
    let bytes = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    Ok(String::from_utf8(bytes).ok().map(|text| Source { path: relative, text }))
}
