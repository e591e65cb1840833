//! The files that the checks read, in a fixed order, and the lines of a file that are code or test.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// One text file of the project.
pub(crate) struct Source {
    /// From the root of the repository, with `/` between its parts.
    pub path: String,
    pub text: String,
    /// The file exists for tests only.
    pub is_test: bool,
}

impl Source {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), is_test: false }
    }

    /// Lines of the program proper: before the file's own `mod tests`.
    pub(crate) fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = if self.is_test { 0 } else { self.first_test_line() };
        self.lines().take(end)
    }

    /// Lines that exist for tests only.
    pub(crate) fn tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let start = if self.is_test { 0 } else { self.first_test_line() };
        self.lines().skip(start)
    }

    /// Lines with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The files of the modules that this one declares under `#[cfg(test)]`.
    fn test_modules(&self) -> Vec<String> {
        let folder = match self.path.strip_suffix("/mod.rs").or(self.path.strip_suffix("/lib.rs")) {
            Some(folder) => folder,
            None => self.path.trim_end_matches(".rs"),
        };
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        let under_test = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
        let names = under_test.filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';'));
        names.map(|name| format!("{folder}/{name}")).collect()
    }

    fn first_test_line(&self) -> usize {
        let inline = |line: &str| line.starts_with("mod tests {") || line.starts_with("mod test {");
        self.text.lines().position(inline).unwrap_or(usize::MAX)
    }
}

/// The checkout that cargo runs this program for. With a target directory that several checkouts
/// share, the path that was compiled in may be another checkout's.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from).join("../..")
}

/// All documents in Markdown: those beside the README, and those of `docs/` and `.github/`.
pub(crate) fn read_pages(root: &Path) -> anyhow::Result<Vec<Source>> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.extend(read_file(root, &path)?);
        }
    }
    pages.sort_by(|left, right| left.path.cmp(&right.path));
    for folder in ["docs", ".github"].into_iter().filter(|folder| root.join(folder).is_dir()) {
        pages.extend(read(root, &[folder])?);
    }
    pages.retain(|page| page.path.ends_with(".md"));
    Ok(pages)
}

/// All text files under the given folders, ordered by path.
pub(crate) fn read(root: &Path, folders: &[&str]) -> anyhow::Result<Vec<Source>> {
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
    mark_tests(&mut sources);
    Ok(sources)
}

fn mark_tests(sources: &mut [Source]) {
    let modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources {
        let path = source.path.as_str();
        let folders = ["e2e/", "/tests/", "benches/"];
        let in_folder = folders.iter().any(|folder| path.contains(folder));
        let declared = modules.iter().any(|module| {
            let rest = path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        source.is_test = in_folder || declared;
    }
}

/// Returns `None` for a file that is not text.
fn read_file(root: &Path, path: &Path) -> anyhow::Result<Option<Source>> {
    let bytes = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    Ok(String::from_utf8(bytes).ok().map(|text| Source { path: relative, text, is_test: false }))
}
