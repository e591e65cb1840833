//! The modules of each library, program, test and bench, found by following `mod` declarations from
//! its root file, and the paths to other modules that each of them uses.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use super::uses::{self, Uses};
use crate::cargo_metadata;
use crate::source::Source;

/// The purpose of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A library or a program.
    Product,
    /// A test, bench, example or build script.
    Test,
}

/// The modules of one target.
pub(super) struct Tree {
    pub kind: Kind,
    pub modules: Vec<Module>,
}

pub(super) struct Module {
    /// Names from the root of the crate, which itself has none.
    pub path: Vec<String>,
    /// The file that contains the module, from the root of the repository.
    pub file: String,
    /// The module exists only under `cfg(test)`.
    pub is_test: bool,
    /// The paths to which the module refers, outside of tests.
    pub uses: Uses,
}

/// Reads the tree of every target of the workspace.
pub(super) fn read(root: &Path, sources: &[Source]) -> anyhow::Result<Vec<Tree>> {
    let metadata = cargo_metadata::read(root, &["--no-deps"])?;
    let mut trees = Vec::new();
    for target in metadata.packages.iter().flat_map(|package| &package.targets) {
        let path = Path::new(&target.src_path);
        let relative = path.strip_prefix(&metadata.workspace_root).unwrap_or(path);
        let kind = match target.kind.iter().any(|kind| kind == "lib" || kind == "bin") {
            true => Kind::Product,
            false => Kind::Test,
        };
        trees.push(tree(&relative.to_string_lossy(), kind, sources)?);
    }
    Ok(trees)
}

/// The modules that declarations lead to from a root file.
pub(super) fn tree(root: &str, kind: Kind, sources: &[Source]) -> anyhow::Result<Tree> {
    let files = sources.iter().map(|source| (source.path.as_str(), source.text.as_str())).collect();
    let root = normal(root);
    let folder = parent(&root).to_owned();
    let mut walk = Walk { files, modules: Vec::new() };
    let start = Place { path: Vec::new(), file: root, folder, is_test: kind == Kind::Test };
    walk.file(start)?;
    Ok(Tree { kind, modules: walk.modules })
}

struct Walk<'a> {
    files: BTreeMap<&'a str, &'a str>,
    modules: Vec<Module>,
}

/// Where a module is.
struct Place {
    path: Vec<String>,
    file: String,
    /// The folder in which the files of its child modules are.
    folder: String,
    is_test: bool,
}

impl Walk<'_> {
    fn file(&mut self, place: Place) -> anyhow::Result<()> {
        let text = self.files.get(place.file.as_str());
        let text = text.with_context(|| format!("{} is declared and missing", place.file))?;
        let parsed = syn::parse_file(text).with_context(|| format!("parse {}", place.file))?;
        self.items(place, &parsed.items)
    }

    fn items(&mut self, place: Place, items: &[syn::Item]) -> anyhow::Result<()> {
        for item in items {
            let syn::Item::Mod(module) = item else { continue };
            let name = module.ident.to_string();
            let name = name.trim_start_matches("r#");
            let mut path = place.path.clone();
            path.push(name.to_owned());
            let is_test = place.is_test || uses::is_test(&module.attrs);
            let folder = normal(&format!("{}/{name}", place.folder));
            match &module.content {
                Some((_, items)) => {
                    self.items(Place { path, file: place.file.clone(), folder, is_test }, items)?;
                }
                None => {
                    let file = self.file_of(&place, module, &folder);
                    let folder =
                        if file.ends_with("/mod.rs") { parent(&file).into() } else { folder };
                    self.file(Place { path, file, folder, is_test })?;
                }
            }
        }
        let uses = if place.is_test { Uses::default() } else { uses::of(items, &place.path) };
        let Place { path, file, is_test, .. } = place;
        self.modules.push(Module { path, file, is_test, uses });
        Ok(())
    }

    /// The file that `mod name;` declares.
    fn file_of(&self, place: &Place, module: &syn::ItemMod, folder: &str) -> String {
        if let Some(path) = module.attrs.iter().find_map(path_attribute) {
            return normal(&format!("{}/{path}", parent(&place.file)));
        }
        let nested = format!("{folder}/mod.rs");
        if self.files.contains_key(nested.as_str()) { nested } else { format!("{folder}.rs") }
    }
}

/// The value of `#[path = "…"]`.
fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })
            if pair.path.is_ident("path") =>
        {
            Some(text.value())
        }
        _ => None,
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_with_their_files_and_tests_are_marked() {
        let sources = [
            Source::new("c/src/lib.rs", "mod a;\n#[cfg(test)]\nmod b;\nmod i { pub mod j {} }"),
            Source::new("c/src/a.rs", ""),
            Source::new("c/src/b.rs", "mod deep;"),
            Source::new("c/src/b/deep.rs", ""),
        ];
        let tree = tree("c/src/lib.rs", Kind::Product, &sources).unwrap();
        let mut found: Vec<String> = tree
            .modules
            .iter()
            .map(|module| format!("{} {} {}", module.path.join("::"), module.file, module.is_test))
            .collect();
        found.sort();
        assert_eq!(
            found,
            [
                " c/src/lib.rs false",
                "a c/src/a.rs false",
                "b c/src/b.rs true",
                "b::deep c/src/b/deep.rs true",
                "i c/src/lib.rs false",
                "i::j c/src/lib.rs false",
            ]
        );
    }

    #[test]
    fn a_declared_file_that_is_missing_is_an_error() {
        let sources = [Source::new("c/src/lib.rs", "mod a;")];
        assert!(tree("c/src/lib.rs", Kind::Product, &sources).is_err());
    }
}
