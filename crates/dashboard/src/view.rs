//! Answers as HTML. Every text of the cluster is escaped by the templates, and shows the characters
//! that a browser would hide ([`shown`]).

pub(crate) mod action;
pub(crate) mod assets;
mod chart;
pub(crate) mod daemon_set;
pub(crate) mod diff;
pub(crate) mod groups;
pub(crate) mod link;
pub(crate) mod list;
mod map;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod plan;
mod section;
mod text;
mod waves;

use maud::{DOCTYPE, Markup, html};

pub(crate) use section::Section;
pub(crate) use text::{class, phrase, shown};

use crate::source::LostConnection;
use everynode_insight::age;

/// The frame around the content of a page.
pub(crate) struct Page<'a> {
    pub title: &'a str,
    /// Its own path, without that of all pages.
    pub path: &'a str,
    /// The path of its events; `None` if it does not change.
    pub live: Option<&'a str>,
}

/// A whole page. `base` is the path of all pages, to which links are relative.
pub(crate) fn document(base: &str, cluster: &str, page: &Page<'_>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(&format!("{} · {}", page.title, cluster)))
                base href=(base);
                link rel="stylesheet" href="assets/dashboard.css";
                link rel="icon" href="assets/icon.svg" type="image/svg+xml";
                script src="assets/dashboard.js" defer {}
                @if page.live.is_some() {
                    noscript { meta http-equiv="refresh" content="10"; }
                }
            }
            body data-live=[page.live] {
                a.skip href={ (page.path) "#content" } { "Skip to the content" }
                header.top {
                    nav aria-label="Pages" { a href="." { "DaemonSets" } }
                    span.cluster { (shown(cluster)) }
                    form action="node" role="search" {
                        label for="node-name" { "Node" }
                        input #node-name name="name" list="node-names" required
                            autocomplete="off" spellcheck="false";
                        datalist #node-names {}
                        button { "Show" }
                    }
                }
                p #offline.bad role="alert" hidden {
                    "The dashboard does not answer: it has ended, or runs with another token. \
                     What you see is old."
                }
                p #announcer role="status" {}
                main #content tabindex="-1" { (body) }
                footer { "everynode dashboard" }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (shown(title)) " · everynode" }
    }
}

/// A file that contains everything: no script, and the style sheet with its digest.
pub(crate) fn report(title: &str, body: &Markup) -> Markup {
    use base64::Engine as _;
    use sha2::{Digest as _, Sha256};
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(assets::STYLE));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(title))
                meta http-equiv="Content-Security-Policy"
                    content={ "default-src 'none'; style-src 'sha256-" (digest) "'" };
                style { (maud::PreEscaped(assets::STYLE)) }
            }
            body { main #content { (body) } }
        }
    }
}

/// The page that a browser shows for a moment after the exchange of the token.
pub(crate) fn entry(base: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { (head("Dashboard")) }
            body { p { a href=(base) { "Open the dashboard" } } }
        }
    }
}

/// A page that states why there is nothing else to show.
pub(crate) fn failure(title: &str, message: &str) -> Markup {
    html! {
        h1 { (shown(title)) }
        p.bad role="alert" { (shown(message)) }
    }
}

/// A page of sections.
pub(crate) fn page_of(title: &str, sections: &[Section]) -> Markup {
    html! {
        h1 { (shown(title)) }
        @for section in sections { (section.render()) }
    }
}

/// Suggestions for a field.
pub(crate) fn names<'a>(names: impl Iterator<Item = &'a String>) -> Markup {
    html! { @for name in names { option value=(name) {} } }
}

/// The state of the connection to the cluster.
fn connection(lost: Option<&LostConnection>) -> Section {
    let body = html! {
        @if let Some(LostConnection { seconds, cause }) = lost {
            p.bad role="alert" {
                strong { "Connection to the cluster lost" }
                ": what you see is " (age::duration(*seconds)) " old; retrying: " (shown(cause))
            }
        }
    };
    Section { id: "connection", title: None, body }
}

fn notes(notes: &[String]) -> Section {
    let title = (!notes.is_empty()).then_some("Notes");
    let body = html! {
        @if !notes.is_empty() {
            ul.notes { @for note in notes { li { (shown(note)) } } }
        }
    };
    Section { id: "notes", title, body }
}
