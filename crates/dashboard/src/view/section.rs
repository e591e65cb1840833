//! The parts of a page that are replaced when they change.

use std::hash::{DefaultHasher, Hash, Hasher};

use maud::{Markup, html};

/// A part of a page.
pub(crate) struct Section {
    /// Its name, unique on the page.
    pub id: &'static str,
    /// Its heading.
    pub title: Option<&'static str>,
    /// Its content. Without any, the section takes no space.
    pub body: Markup,
}

impl Section {
    /// A value that differs if the content differs.
    pub(crate) fn digest(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (self.title, self.body.0.as_str()).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    pub(crate) fn render(&self) -> Markup {
        let heading = self.title.map(|_| format!("{}-heading", self.id));
        html! {
            section id=(self.id) data-digest=(self.digest()) aria-labelledby=[heading.as_ref()] {
                @if let Some(title) = self.title { h2 id=[heading.as_ref()] { (title) } }
                (self.body)
            }
        }
    }
}
