//! Modules of one folder must not use each other in a circle. A file `x.rs` and its folder `x/`
//! are one node. A name that a module re-exports is a use of the module that defines it. Between a
//! module and its own children every other use is allowed, and tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::module_tree::{Kind, Module, Tree};

/// Maximum number of imports that are followed from a path to a module.
const IMPORTS_MAX: usize = 16;

pub(super) fn check(trees: &[Tree]) -> Vec<String> {
    let trees = trees.iter().filter(|tree| tree.kind == Kind::Product);
    trees.flat_map(|tree| graphs(tree).into_values().flat_map(|graph| graph.problems())).collect()
}

/// The modules of one folder, and the uses between them.
#[derive(Default)]
struct Graph<'a> {
    /// The file in which the modules are declared.
    parent: &'a str,
    /// For each module the modules that it uses, each with the first place of such a use.
    edges: BTreeMap<&'a str, BTreeMap<&'a str, String>>,
}

/// The graph of each folder that has uses between siblings, by the path of the parent module.
fn graphs(tree: &Tree) -> BTreeMap<&[String], Graph<'_>> {
    let modules: BTreeMap<&[String], &Module> =
        tree.modules.iter().map(|module| (module.path.as_slice(), module)).collect();
    let mut graphs: BTreeMap<&[String], Graph<'_>> = BTreeMap::new();
    for module in tree.modules.iter().filter(|module| !module.is_test) {
        for used in &module.uses.paths {
            let Some(target) = module_of(&used.path, &modules) else { continue };
            let shared = shared_prefix(&module.path, &target.path);
            let siblings = (module.path.get(shared), target.path.get(shared));
            let (Some(from), Some(to)) = siblings else { continue };
            let folder = &module.path[..shared];
            let graph = graphs.entry(folder).or_default();
            graph.parent = modules.get(folder).map_or("", |parent| parent.file.as_str());
            let place = || format!("{}:{}", module.file, used.line);
            graph.edges.entry(from).or_default().entry(to).or_insert_with(place);
        }
    }
    graphs
}

/// The innermost module that the path leads through, after imports of the modules on the way.
fn module_of<'a>(path: &[String], modules: &BTreeMap<&[String], &'a Module>) -> Option<&'a Module> {
    let mut path = path.to_vec();
    // An import may lead to another import; more than a few are a circle.
    for _ in 0..IMPORTS_MAX {
        let module = innermost(&path, modules)?;
        let rest = &path[module.path.len()..];
        let imported = rest.first().and_then(|name| module.uses.imports.get(name));
        let Some(imported) = imported else { return Some(module) };
        path = [imported.as_slice(), &rest[1..]].concat();
    }
    None
}

fn innermost<'a>(path: &[String], modules: &BTreeMap<&[String], &'a Module>) -> Option<&'a Module> {
    (0..=path.len()).rev().find_map(|length| modules.get(&path[..length]).copied())
}

fn shared_prefix(left: &[String], right: &[String]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

impl Graph<'_> {
    /// One line for each group of modules that depend on each other.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        for &start in self.edges.keys() {
            if seen.contains(start) {
                continue;
            }
            let after = self.reachable(start);
            let group: Vec<&str> =
                after.into_iter().filter(|module| self.reachable(module).contains(start)).collect();
            seen.extend(group.iter().copied());
            if let Some(cycle) = self.shortest_cycle(&group) {
                let count = group.len();
                let members = group.join(", ");
                let steps = self.describe(&cycle);
                let parent = self.parent;
                problems.push(format!("{parent}: cycle of {count} modules ({members}): {steps}"));
            }
        }
        problems
    }

    fn next(&self, module: &str) -> impl Iterator<Item = &str> {
        self.edges.get(module).into_iter().flat_map(|targets| targets.keys().copied())
    }

    /// The modules that can be reached by one use or more.
    fn reachable(&self, start: &str) -> BTreeSet<&str> {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = self.next(start).collect();
        while let Some(module) = open.pop() {
            if found.insert(module) {
                open.extend(self.next(module));
            }
        }
        found
    }

    /// The shortest circle through modules of the group; `None` if there is none.
    fn shortest_cycle<'b>(&'b self, group: &[&'b str]) -> Option<Vec<&'b str>> {
        group.iter().filter_map(|start| self.circle(start)).min_by_key(Vec::len)
    }

    /// The shortest way from a module back to itself.
    fn circle<'b>(&'b self, start: &'b str) -> Option<Vec<&'b str>> {
        let mut seen = BTreeSet::new();
        let mut ways = vec![vec![start]];
        while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in ways {
                for next in self.next(way[way.len() - 1]) {
                    let way = [way.as_slice(), &[next]].concat();
                    if next == start {
                        return Some(way);
                    }
                    if seen.insert(next) {
                        longer.push(way);
                    }
                }
            }
            ways = longer;
        }
        None
    }

    fn describe(&self, cycle: &[&str]) -> String {
        let steps = cycle
            .windows(2)
            .map(|pair| format!("{} uses {} ({})", pair[0], pair[1], self.edges[pair[0]][pair[1]]));
        steps.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::module_tree::tree;
    use super::*;
    use crate::source::Source;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(&format!("c/src/{path}"), text)).collect();
        check(&[tree("c/src/lib.rs", Kind::Product, &sources).unwrap()])
    }

    #[test]
    fn siblings_that_use_each_other_are_reported_with_the_places() {
        let found = problems(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "fn f() { crate::c::g(); }"),
            ("c.rs", "\nuse super::a;"),
        ]);
        assert_eq!(
            found,
            ["c/src/lib.rs: cycle of 3 modules (a, b, c): a uses b (c/src/a.rs:1), b uses c \
              (c/src/b.rs:1), c uses a (c/src/c.rs:2)"]
        );
    }

    #[test]
    fn a_folder_and_its_file_are_one_node() {
        let found = problems(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod deep;"),
            ("a/deep.rs", "use super::super::b::B;"),
            ("b.rs", "use crate::a;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_cycle_between_the_children_of_a_module_is_reported_there() {
        let found = problems(&[
            ("lib.rs", "mod p;"),
            ("p.rs", "mod a; mod b;"),
            ("p/a.rs", "use super::b::B;"),
            ("p/b.rs", "type A = super::a::A;"),
        ]);
        assert!(found[0].starts_with("c/src/p.rs: cycle of 2 modules (a, b)"), "{found:?}");
    }

    #[test]
    fn a_name_that_the_parent_imports_belongs_to_the_module_that_defines_it() {
        let parent = "mod a; mod b; pub use b::{B, c as d}; use std::fmt;";
        let siblings = [("a.rs", "use super::d::D; pub type A = D;"), ("b.rs", "use crate::a;")];
        let found = problems(&[&[("lib.rs", parent)], siblings.as_slice()].concat());
        assert_eq!(found.len(), 1, "{found:?}");
        let harmless = [("a.rs", "use super::fmt; pub struct A;"), ("b.rs", "use crate::a;")];
        assert_eq!(problems(&[&[("lib.rs", parent)], harmless.as_slice()].concat()).len(), 0);
        let circle =
            [("lib.rs", "mod a; use self::x as y; use self::y as x;"), ("a.rs", "use super::x;")];
        assert_eq!(problems(&circle), Vec::<String>::new());
    }

    #[test]
    fn parents_tests_and_one_way_uses_may_stay() {
        let found = problems(&[
            ("lib.rs", "mod a; mod b; mod p; use a::A;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "#[cfg(test)]\nmod tests { use crate::a; }"),
            ("p.rs", "mod q; use self::q::Q;"),
            ("p/q.rs", "use super::P;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
