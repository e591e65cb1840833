//! The size of types: the fields of the core's structs, and over how many files methods are spread.
//! A type that outgrows this has parts which make sense of their own.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::source::Source;

/// Maximum number of fields of a struct of the core.
const FIELDS_MAX: usize = 20;
/// Maximum number of files with methods of one type, but for some types.
const FILES_MAX: usize = 4;

/// The crates whose methods are counted.
const CRATES: [&str; 4] = ["controller", "core", "insight", "k8s"];

/// Types with methods in more files, and how many.
const EXCEPTIONS: [(&str, usize); 2] = [
    // One for each step of its protocol: objects, pods, assessments, plans, results.
    ("DaemonSetState", 5),
    // One for each kind of write.
    ("Execution", 6),
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for name in CRATES {
        let folder = format!("crates/{name}/src/");
        let mut visitor = Visitor::default();
        for source in sources.iter().filter(|it| !it.is_test && it.path.starts_with(&folder)) {
            visitor.path.clone_from(&source.path);
            if let Ok(file) = syn::parse_file(&source.text) {
                visitor.visit_file(&file);
            }
        }
        if name == "core" {
            problems.append(&mut visitor.problems);
        }
        problems.extend(spread(name, visitor.files));
    }
    problems
}

/// The types of a crate with methods in too many files.
fn spread(
    of_crate: &str,
    files: BTreeMap<String, BTreeSet<String>>,
) -> impl Iterator<Item = String> {
    files.into_iter().filter_map(move |(name, files)| {
        let exception = EXCEPTIONS.iter().find(|(known, _)| *known == name);
        let max = exception.map_or(FILES_MAX, |(_, max)| *max);
        (files.len() > max).then(|| {
            format!("crates/{of_crate}: {name} has methods in {} files, at most {max}", files.len())
        })
    })
}

#[derive(Default)]
struct Visitor {
    /// The path of the file that is visited.
    path: String,
    /// The files with methods of each type.
    files: BTreeMap<String, BTreeSet<String>>,
    problems: Vec<String>,
}

impl<'ast> Visit<'ast> for Visitor {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let count = item.fields.len();
        if count > FIELDS_MAX {
            let Self { path, problems, .. } = self;
            problems
                .push(format!("{path}: {} has {count} fields, at most {FIELDS_MAX}", item.ident));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty)
            && let Some(name) = of.path.segments.last()
        {
            let files = self.files.entry(name.ident.to_string()).or_default();
            files.insert(self.path.clone());
        }
        visit::visit_item_impl(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_structs_and_scattered_methods_are_reported() {
        let fields: String = (0..21).map(|number| format!("f{number}: u8, ")).collect();
        let text = format!("struct A {{ {fields} }}");
        let problem = "crates/core/src/a.rs: A has 21 fields, at most 20";
        assert_eq!(check(&[Source::new("crates/core/src/a.rs", &text)]), [problem]);
        assert_eq!(check(&[Source::new("crates/k8s/src/a.rs", &text)]), Vec::<String>::new());
        let file = |number: usize| {
            Source::new(&format!("crates/k8s/src/{number}.rs"), "impl Default for A {}\nimpl A {}")
        };
        let files: Vec<Source> = (0..5).map(file).collect();
        assert_eq!(check(&files), ["crates/k8s: A has methods in 5 files, at most 4"]);
        assert_eq!(check(&files[1..]), Vec::<String>::new());
    }
}
