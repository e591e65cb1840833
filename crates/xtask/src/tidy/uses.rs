//! The paths of a module that begin with `crate`, `self` or `super`: those of `use` declarations,
//! of code, and of the arguments of macros. Tests and nested modules are left out.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A path in a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// The segments from the root of the crate.
    pub path: Vec<String>,
    pub line: usize,
}

/// The paths to which a module refers, resolved from the root of the crate.
#[derive(Default)]
pub(super) struct Uses {
    /// Paths that begin with `crate`, `self` or `super`.
    pub paths: Vec<Use>,
    /// The names that `use` declarations bring into the module, each with its path.
    pub imports: BTreeMap<String, Vec<String>>,
}

/// The paths and names that the items of a module use, outside of tests.
pub(super) fn of(items: &[syn::Item], module: &[String]) -> Uses {
    let mut visitor = Visitor { module, uses: Uses::default() };
    for item in items {
        visitor.visit_item(item);
    }
    visitor.uses
}

/// True if the attributes limit an item to tests.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => is_test_condition(&list.tokens),
        meta => meta.path().segments.last().is_some_and(|last| last.ident == "test"),
    })
}

/// `test`, `all(test, …)` and `any(test, …)`, but not `not(test)`.
fn is_test_condition(tokens: &TokenStream) -> bool {
    let text = tokens.to_string();
    let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words().any(|word| word == "test") && !words().any(|word| word == "not")
}

struct Visitor<'a> {
    module: &'a [String],
    uses: Uses,
}

impl Visitor<'_> {
    fn add(&mut self, segments: &[String], line: usize) {
        if let Some(path) = resolve(self.module, segments) {
            self.uses.paths.push(Use { path, line });
        }
    }

    fn tree(&mut self, prefix: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(prefix, &path.tree);
                prefix.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(prefix, tree);
                }
            }
            syn::UseTree::Name(name) => self.leaf(prefix, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.leaf(prefix, &rename.ident, &rename.rename),
            syn::UseTree::Glob(glob) => self.add(prefix, glob.star_token.span.start().line),
        }
    }

    fn leaf(&mut self, prefix: &mut Vec<String>, name: &syn::Ident, bound: &syn::Ident) {
        prefix.push(name.to_string());
        self.add(prefix, name.span().start().line);
        // A path that begins otherwise is one of a child module, or of another crate.
        let child = || [self.module, prefix.as_slice()].concat();
        let path = resolve(self.module, prefix).unwrap_or_else(child);
        self.uses.imports.insert(bound.to_string(), path);
        prefix.pop();
    }

    /// Paths among the tokens of a macro, which syn does not parse.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut scan = Scan::default();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if scan.expects_segment() => {
                    scan.push(ident.to_string(), ident.span().start().line);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => scan.colons += 1,
                TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                    self.tokens(group.stream());
                }
                other => {
                    self.end(&mut scan);
                    match other {
                        TokenTree::Ident(ident) => {
                            scan.push(ident.to_string(), ident.span().start().line);
                        }
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                    }
                }
            }
        }
        self.end(&mut scan);
    }

    fn end(&mut self, scan: &mut Scan) {
        let Scan { segments, line, .. } = std::mem::take(scan);
        self.add(&segments, line);
    }
}

/// A path that is being read from tokens.
#[derive(Default)]
struct Scan {
    segments: Vec<String>,
    colons: usize,
    line: usize,
}

impl Scan {
    fn expects_segment(&self) -> bool {
        self.segments.is_empty() || self.colons == 2
    }

    fn push(&mut self, segment: String, line: usize) {
        self.segments.push(segment);
        self.colons = 0;
        self.line = line;
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    /// A nested module is a node of its own.
    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.tree(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |first| first.ident.span().start().line);
        self.add(&segments, line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        self.tokens(item.tokens.clone());
    }

    /// `pub(in crate::a)` grants access; it uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The path from the root of the crate; `None` for a path that begins otherwise.
fn resolve(module: &[String], segments: &[String]) -> Option<Vec<String>> {
    let mut path = match segments.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        _ => return None,
    };
    for segment in &segments[1..] {
        match segment.as_str() {
            "super" => drop(path.pop()),
            "self" => {}
            name => path.push(name.to_owned()),
        }
    }
    (segments.len() > 1).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = syn::parse_file(text).unwrap();
        let uses = of(&file.items, &["a".to_owned(), "b".to_owned()]);
        let paths = uses.paths.iter();
        paths.map(|found| format!("{}:{}", found.line, found.path.join("::"))).collect()
    }

    #[test]
    fn paths_are_resolved_wherever_they_stand() {
        for (text, expected) in [
            ("use super::x;", vec!["1:a::x"]),
            ("use crate::{x::{self, Y}, z::*};", vec!["1:x", "1:x::Y", "1:z"]),
            ("use super::super::c as d;", vec!["1:c"]),
            ("use self::e::F;", vec!["1:a::b::e::F"]),
            ("fn f() {\n    crate::x::g::<super::T>();\n}", vec!["2:x::g", "2:a::T"]),
            ("fn f(t: super::x::T) -> crate::U {}", vec!["1:a::x::T", "1:U"]),
            ("fn f() { println!(\"{}\", vec![super::x::A]); }", vec!["1:a::x::A"]),
            ("fn f() { matches!(a, crate::x::A | crate::y::B); }", vec!["1:x::A", "1:y::B"]),
            ("fn f() { crate::write!(a); }", vec!["1:write"]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn imports_are_known_by_the_name_that_they_have_in_the_module() {
        let text = "pub use self::x::A; use y::B as C; use super::z::{D, e};";
        let uses = of(&syn::parse_file(text).unwrap().items, &["a".to_owned(), "b".to_owned()]);
        let found: Vec<String> =
            uses.imports.iter().map(|(name, path)| format!("{name}={}", path.join("::"))).collect();
        assert_eq!(found, ["A=a::b::x::A", "C=a::b::y::B", "D=a::z::D", "e=a::z::e"]);
    }

    #[test]
    fn other_crates_tests_visibility_and_nested_modules_are_left_out() {
        for text in [
            "use std::fmt; use ::crate_of_others::x; fn f() { other::g(); }",
            "#[cfg(test)] use super::x;",
            "#[test] fn f() { super::x(); }",
            "#[cfg(test)] impl A { fn f() { super::x::y(); } }",
            "impl A { #[cfg(test)] fn f() { super::x::y(); } }",
            "pub(in crate::x) struct A; pub(super) struct B;",
            "mod c { use super::super::x; }",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(found("#[cfg(not(test))] use super::x;"), ["1:a::x"]);
    }
}
