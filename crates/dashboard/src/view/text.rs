//! Texts of a cluster.

use std::fmt::Display;

use everynode_insight::escape;
use maud::{PreEscaped, Render, html};

/// A text of the cluster: with the characters visible that a browser would hide or that reorder
/// text, cut if it is very long, and apart from the text around it.
pub(crate) fn shown(text: &str) -> impl Render {
    PreEscaped(html! { (escape::line(text)) }.into_string())
}

/// The class of a state, whose text is a few words.
pub(crate) fn class(state: impl Display) -> String {
    format!("state-{}", state.to_string().replace(' ', "-"))
}
