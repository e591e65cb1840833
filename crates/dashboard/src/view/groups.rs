//! Nodes by reason.

use everynode_insight::explain::NodeGroup;
use everynode_insight::names;
use everynode_insight::rollout::{HeldUpNodes, announced};
use everynode_insight::situation::Situation;
use maud::{Markup, html};

use super::{class, phrase, shown};

/// The maximum width of a list of names, in characters.
const NAMES_WIDTH: usize = 400;

/// The nodes that share one answer.
pub(crate) struct Group<'a> {
    situation: Situation,
    why: &'a str,
    detail: Option<&'a str>,
    next: Option<&'a str>,
    nodes: &'a [String],
    count: usize,
}

impl<'a> From<&'a NodeGroup> for Group<'a> {
    fn from(group: &'a NodeGroup) -> Self {
        let NodeGroup { situation, why, detail, next, nodes, .. } = group;
        let (detail, next) = (detail.as_deref(), next.as_deref());
        Self { situation: *situation, why, detail, next, nodes, count: nodes.len() }
    }
}

impl<'a> From<&'a HeldUpNodes> for Group<'a> {
    fn from(group: &'a HeldUpNodes) -> Self {
        let HeldUpNodes { situation, why, detail, next, nodes, count } = group;
        let (detail, next) = (detail.as_deref(), next.as_deref());
        Self { situation: *situation, why, detail, next, nodes, count: *count }
    }
}

/// The groups, in their order. `link` is the path of the page of a node; a report has none.
pub(crate) fn groups<'a>(
    groups: impl IntoIterator<Item = Group<'a>>,
    link: Option<fn(&str) -> String>,
) -> Markup {
    html! {
        ul.groups {
            @for group in groups {
                li class=(class(group.situation)) {
                    p {
                        strong.count { (group.count) }
                        " "
                        span.badge { (group.situation) }
                        " " span.why { (phrase(group.why)) }
                    }
                    @if !group.nodes.is_empty() { div.names { (node_names(group.nodes, link)) } }
                    @if let Some(detail) = group.detail { p.detail { (phrase(detail)) } }
                    @if let Some(next) = group.next { p.next { (phrase(&announced(next))) } }
                }
            }
        }
    }
}

/// The names: each with its page if they are few, else in short form, which opens on a click.
fn node_names(nodes: &[String], link: Option<fn(&str) -> String>) -> Markup {
    /// The maximum number of names with a link that are shown at once, and on a click.
    const LINKS_MAX: [usize; 2] = [12, 1_000];
    let names = || nodes.iter().map(String::as_str);
    let links = |link: fn(&str) -> String| {
        html! {
            @for (index, name) in names().enumerate() {
                @if index > 0 { ", " }
                a href=(link(name)) { (shown(name)) }
            }
        }
    };
    let short = html! { (phrase(&names::shortened(names(), NAMES_WIDTH))) };
    match link {
        Some(link) if nodes.len() <= LINKS_MAX[0] => links(link),
        Some(link) if nodes.len() <= LINKS_MAX[1] => html! {
            details { summary { (short) } (links(link)) }
        },
        Some(_) => short,
        None => html! { (maud::PreEscaped(
            names::compressed(names())
                .iter()
                .map(|name| html! { (shown(name)) }.into_string())
                .collect::<Vec<_>>()
                .join(", ")
        )) },
    }
}
