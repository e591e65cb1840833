//! Texts of a cluster.

use std::fmt::Display;

use everynode_insight::escape;
use maud::{PreEscaped, Render, html};

/// A text of the cluster: with the characters visible that a browser would hide or that reorder
/// text, cut if it is very long, and apart from the text around it.
pub(crate) fn shown(text: &str) -> impl Render {
    PreEscaped(html! { (escape::line(text)) }.into_string())
}

/// A sentence of which no word is broken at a hyphen: names and options stay whole.
pub(crate) fn phrase(text: &str) -> impl Render {
    let line = escape::line(text);
    html! {
        @for (index, word) in line.split(' ').enumerate() {
            @if index > 0 { " " }
            @if word.contains('-') { span.word { (word) } } @else { (word) }
        }
    }
}

/// The class of a state, whose text is a few words.
pub(crate) fn class(state: impl Display) -> String {
    format!("state-{}", state.to_string().replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_hyphens_stay_whole() {
        let html = html! { (phrase("logs a-1 <b> --previous")) }.into_string();
        let expected = "logs <span class=\"word\">a-1</span> &lt;b&gt; \
                        <span class=\"word\">--previous</span>";
        assert_eq!(html, expected);
    }
}
