//! A copy of the workspace whose files may be changed. It stays for the next run, so that only
//! changed files are copied and only changed crates are built again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use walkdir::{DirEntry, WalkDir};

/// Makes `folder/tree` a copy of the workspace, and returns its path.
pub(super) fn copy(root: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let tree = folder.join("tree");
    let wanted = files(root)?;
    if tree.exists() {
        for file in files(&tree)?.difference(&wanted) {
            std::fs::remove_file(tree.join(file))?;
        }
    }
    for file in &wanted {
        let (from, to) = (root.join(file), tree.join(file));
        let contents =
            std::fs::read(&from).with_context(|| format!("{} can't be read", from.display()))?;
        if std::fs::read(&to).ok().as_ref() == Some(&contents) {
            continue;
        }
        std::fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        std::fs::write(&to, contents)?;
    }
    Ok(tree)
}

/// The files of a workspace, without what was built and without the repository.
fn files(root: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let is_source = |entry: &DirEntry| {
        let is_top = entry.depth() == 1;
        !(is_top && (entry.file_name() == "target" || entry.file_name() == ".git"))
    };
    let mut files = BTreeSet::new();
    for entry in WalkDir::new(root).into_iter().filter_entry(is_source) {
        let entry = entry?;
        if entry.file_type().is_file() {
            files.insert(entry.path().strip_prefix(root)?.to_owned());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_files_of_the_workspace_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("workspace");
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for path in ["a.rs", "b/c.rs", "b/target", "target/built", ".git/index"] {
            write(path, "1");
        }
        let tree = copy(&root, folder.path()).unwrap();
        let names = || files(&tree).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(names(), ["a.rs", "b/c.rs", "b/target"].map(PathBuf::from));
        let copied = std::fs::metadata(tree.join("a.rs")).unwrap().modified().unwrap();
        write("a.rs", "1");
        write("b/d.rs", "2");
        std::fs::remove_file(root.join("b/c.rs")).unwrap();
        std::fs::write(tree.join("b/target"), "mutated").unwrap();
        copy(&root, folder.path()).unwrap();
        assert_eq!(names(), ["a.rs", "b/d.rs", "b/target"].map(PathBuf::from));
        assert_eq!(std::fs::read_to_string(tree.join("b/target")).unwrap(), "1");
        let unchanged = std::fs::metadata(tree.join("a.rs")).unwrap().modified().unwrap();
        assert_eq!(unchanged, copied, "it would be built again");
    }
}
