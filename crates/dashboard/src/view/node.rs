//! One node: each DaemonSet that should run there, or why not.

use everynode_core::api::{DaemonSetKey, NodeName};
use everynode_insight::age;
use everynode_insight::explain::{AffinityCheck, NodeExplanation, PodExplanation, ReasonDetail};
use everynode_insight::rollout::announced;
use maud::{Markup, html};

use super::{Section, class, connection, link, notes, page_of, phrase, shown};
use crate::source::{Content, NodeDetail, Reading};

pub(crate) fn page(name: &NodeName, reading: &Reading<NodeDetail>) -> Markup {
    page_of(&format!("Node {name}"), &sections(name, reading))
}

pub(crate) fn sections(name: &NodeName, reading: &Reading<NodeDetail>) -> Vec<Section> {
    let mut sections = vec![connection(reading.lost.as_ref())];
    let body = |body| Section { id: "summary", title: None, body };
    match &reading.content {
        Content::Loading => {
            sections.push(body(html! { p { "Reading node " (shown(name.as_str())) " …" } }))
        }
        Content::Missing(why) => {
            sections.push(body(html! { p.bad role="alert" { (shown(why)) } }));
        }
        Content::Loaded(detail) => {
            sections.push(body(summary(detail)));
            let daemon_sets = html! {
                ul.groups {
                    @for explanation in &detail.daemon_sets {
                        @let key = DaemonSetKey::new(&*explanation.namespace, &*explanation.name);
                        li class=(class(explanation.situation)) {
                            @let path = link::daemon_set(&key);
                            h2 { a id=(path) href=(path) { (shown(&key.to_string())) } }
                            (on_node(explanation))
                        }
                    }
                }
            };
            sections.push(Section { id: "daemonsets", title: None, body: daemon_sets });
            sections.push(notes(&detail.notes));
        }
    }
    sections
}

fn summary(detail: &NodeDetail) -> Markup {
    let first = detail.daemon_sets.first();
    let should_run = detail.daemon_sets.iter().filter(|it| it.should_run).count();
    html! {
        p {
            @if let Some(zone) = first.and_then(|first| first.zone.as_ref()) {
                "Zone " (shown(zone)) ". "
            }
            (should_run) " of " (detail.daemon_sets.len()) " DaemonSets should run here."
        }
        @for note in first.iter().flat_map(|first| &first.node_notes) { p.bad { (shown(note)) } }
        @if !detail.pending.is_empty() {
            p {
                "Still reading: "
                @for (index, key) in detail.pending.iter().enumerate() {
                    @if index > 0 { ", " }
                    (shown(&key.to_string()))
                }
            }
        }
    }
}

/// A DaemonSet on a node.
pub(crate) fn on_node(explanation: &NodeExplanation) -> Markup {
    let answer = match (explanation.should_run, explanation.should_continue_running) {
        (true, _) => "should run here",
        (false, true) => "should not be created here, and may stay",
        (false, false) => "should not run here",
    };
    html! {
        p {
            span.badge { (explanation.situation) } " " strong { (answer) } ": "
            span.why { (phrase(&explanation.why)) }
        }
        @if let Some(detail) = &explanation.detail { p.detail { (phrase(detail)) } }
        @if let Some(next) = &explanation.next { p.next { (phrase(&announced(next))) } }
        @if !explanation.reasons.is_empty() { (reasons(&explanation.reasons)) }
        @if !explanation.pods.is_empty() { (pods(&explanation.pods)) }
    }
}

fn reasons(reasons: &[ReasonDetail]) -> Markup {
    html! {
        ul.reasons {
            @for ReasonDetail { reason, evicts, checks } in reasons {
                li {
                    (phrase(reason))
                    @if *evicts { " (an existing pod has to go)" }
                    @if !checks.is_empty() {
                        ul {
                            @for AffinityCheck { term, requirement, holds, found } in checks {
                                li {
                                    "term " (term) ": " (shown(requirement)) ": "
                                    @if *holds { "holds" } @else { "does not hold" }
                                    @match found {
                                        Some(found) => { ", the node has " (shown(found)) }
                                        None => { ", the node has no such label" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn pods(pods: &[PodExplanation]) -> Markup {
    html! {
        ul.pods {
            @for pod in pods {
                li {
                    "pod " code { (shown(&pod.name)) } ", "
                    (age::duration(pod.age_seconds)) " old, "
                    @if pod.current_revision { "current revision" } @else { "older revision" }
                    @if let Some(tag) = &pod.r#override { ", override " code { (shown(tag)) } }
                    ", " (shown(&pod.state))
                    @if pod.restarts > 0 { ", " (pod.restarts) " restarts" }
                    @if let Some(seconds) = pod.available_in_seconds {
                        ", available in " (age::duration(seconds))
                    }
                    @if !pod.message.is_empty() { p.detail { (phrase(&pod.message)) } }
                }
            }
        }
    }
}
