//! The first words of doc comments: they name the thing, so that none begins with "What" or
//! "Whether". Those of types with a JSON schema may: docs/json.md has them as descriptions.

use syn::visit::{self, Visit};

use crate::source::Source;

const RIDDLES: [&str; 2] = ["What ", "Whether "];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(of_file).collect()
}

fn of_file(source: &Source) -> Vec<String> {
    let mut visitor = Visitor::default();
    if let Ok(file) = syn::parse_file(&source.text) {
        visitor.visit_file(&file);
    }
    let problem = |(line, word): (usize, &str)| {
        format!("{}:{line}: a doc comment begins with `{word}`: name the thing", source.path)
    };
    visitor.found.into_iter().map(problem).collect()
}

#[derive(Default)]
struct Visitor {
    /// The line of the last doc comment: the next one continues it.
    last: Option<usize>,
    found: Vec<(usize, &'static str)>,
}

impl<'ast> Visit<'ast> for Visitor {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if !has_schema(&item.attrs) {
            visit::visit_item_struct(self, item);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if !has_schema(&item.attrs) {
            visit::visit_item_enum(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let Some(text) = doc(attribute) else { return };
        let line = attribute.pound_token.span.start().line;
        let is_first = self.last.is_none_or(|last| last + 1 != line);
        let riddle = RIDDLES.into_iter().find(|word| text.trim_start().starts_with(word));
        self.found.extend(riddle.filter(|_| is_first).map(|word| (line, word.trim_end())));
        self.last = Some(line);
    }
}

/// The text of one line of a doc comment.
fn doc(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(meta) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &meta.value else {
        return None;
    };
    meta.path.is_ident("doc").then(|| text.value())
}

fn has_schema(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => {
            list.path.is_ident("derive") && list.tokens.to_string().contains("JsonSchema")
        }
        syn::Meta::Path(_) | syn::Meta::NameValue(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn riddles_are_reported_where_a_comment_begins() {
        let text = "//! What this is.

            /// A pod.
            /// What it does.
            struct Pod {
                /// Whether it runs.
                runs: bool,
            }

            /// What it says.
            #[derive(JsonSchema)]
            struct Answer {
                /// Whether it is.
                is: bool,
            }
        ";
        let problem = |line: usize, word: &str| {
            format!("crates/cli/a.rs:{line}: a doc comment begins with `{word}`: name the thing")
        };
        let sources = [Source::new("crates/cli/a.rs", text)];
        assert_eq!(check(&sources), [problem(1, "What"), problem(6, "Whether")]);
    }
}
