//! Every Rust file is part of a crate: a chain of `mod` declarations leads to it from the root of a
//! library, program, test or bench.

use std::collections::BTreeSet;

use super::module_tree::Tree;
use crate::source::Source;

pub(super) fn check(sources: &[Source], trees: &[Tree]) -> Vec<String> {
    let modules = trees.iter().flat_map(|tree| &tree.modules);
    let declared: BTreeSet<&str> = modules.map(|module| module.file.as_str()).collect();
    sources
        .iter()
        .filter(|source| !declared.contains(source.path.as_str()))
        .map(|source| format!("{}: no module declares this file", source.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::module_tree::{Kind, tree};
    use super::*;

    #[test]
    fn a_file_that_no_module_declares_is_reported() {
        let sources = [
            Source::new(
                "c/src/lib.rs",
                "mod a;\nmod inline { mod c; }\n#[path = \"x/y.rs\"] mod z;",
            ),
            Source::new("c/src/a.rs", "#[cfg(test)]\nmod tests;"),
            Source::new("c/src/a/tests.rs", ""),
            Source::new("c/src/inline/c/mod.rs", "mod d;"),
            Source::new("c/src/inline/c/d.rs", ""),
            Source::new("c/src/x/y.rs", ""),
            Source::new("c/src/forgotten.rs", ""),
        ];
        let tree = tree("c/src/lib.rs", Kind::Product, &sources).unwrap();
        let problems = check(&sources, &[tree]);
        assert_eq!(problems, ["c/src/forgotten.rs: no module declares this file"]);
    }

    #[test]
    fn a_module_of_another_root_counts() {
        let sources = [Source::new("t/main.rs", "mod a;"), Source::new("t/a.rs", "")];
        let tree = tree("t/main.rs", Kind::Test, &sources).unwrap();
        assert_eq!(check(&sources, &[tree]), Vec::<String>::new());
    }
}
