//! All DaemonSets, stuck ones first.

use everynode_core::api::DaemonSetKey;
use everynode_insight::rollout::{Phase, Rollout};
use maud::{Markup, html};

use super::{Section, action, class, connection, link, notes, page_of, phrase, shown};
use crate::source::{Content, DaemonSets, Reading};

/// The DaemonSets that the list has. By default all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// A part of namespace and name.
    pub name: String,
    /// Their state; empty for any.
    pub state: String,
}

impl Filter {
    fn has_name(&self, rollout: &Rollout) -> bool {
        key(rollout).to_string().contains(&self.name)
    }

    fn has_state(&self, phase: Phase) -> bool {
        self.state.is_empty() || phase.to_string() == self.state
    }

    /// The path of the list with the same names, and these states, or all if those are shown.
    fn toggled(&self, phase: Phase) -> String {
        let mut query = form_urlencoded::Serializer::new("?".to_owned());
        if !self.name.is_empty() {
            query.append_pair("filter", &self.name);
        }
        if self.state != phase.to_string() {
            query.append_pair("state", &phase.to_string());
        }
        query.finish()
    }
}

/// The page.
pub(crate) fn page(reading: &Reading<DaemonSets>, filter: &Filter) -> Markup {
    html! {
        (page_of("DaemonSets", &[]))
        form.filter action="." role="search" {
            label for="filter" { "Filter" }
            input #filter name="filter" value=(filter.name) autocomplete="off" spellcheck="false";
            @if !filter.state.is_empty() { input type="hidden" name="state" value=(filter.state); }
            noscript { button { "Apply" } }
        }
        @for section in sections(reading, filter) { (section.render()) }
    }
}

pub(crate) fn sections(reading: &Reading<DaemonSets>, filter: &Filter) -> Vec<Section> {
    let mut sections = vec![connection(reading.lost.as_ref())];
    match &reading.content {
        Content::Loading => sections.push(all(html! { p { "Reading the cluster …" } })),
        Content::Missing(why) => {
            sections.push(all(html! { p.bad role="alert" { (shown(why)) } }));
        }
        Content::Loaded(list) => {
            sections.push(summary(list, filter));
            sections.push(all(table(list, filter)));
            sections.push(notes(&list.notes));
        }
    }
    sections
}

fn all(body: Markup) -> Section {
    Section { id: "daemonsets", title: None, body }
}

/// The number of DaemonSets in each state, as far as their names are shown. A click shows those of
/// one state alone.
fn summary(list: &DaemonSets, filter: &Filter) -> Section {
    let mut counts: Vec<(Phase, usize)> = Vec::new();
    for rollout in list.rollouts.iter().filter(|it| filter.has_name(it)) {
        match counts.last_mut() {
            // They are sorted by state.
            Some((phase, count)) if *phase == rollout.phase => *count += 1,
            Some(_) | None => counts.push((rollout.phase, 1)),
        }
    }
    let words: Vec<String> =
        counts.iter().map(|(phase, count)| format!("{count} {phase}")).collect();
    let body = html! {
        p.summary data-state=(words.join(", ")) {
            (shown(&list.scope)) ": "
            @if counts.is_empty() { "no DaemonSets found" }
            @for (phase, count) in counts {
                @let path = filter.toggled(phase);
                @let is_alone = !filter.state.is_empty() && filter.has_state(phase);
                span class=(class(phase)) {
                    a.state id=(path) href=(path) aria-current=[is_alone.then_some("true")] {
                        span.badge { (count) " " (phase) }
                    }
                }
                " "
            }
        }
    };
    Section { id: "summary", title: None, body }
}

fn table(list: &DaemonSets, filter: &Filter) -> Markup {
    let is_shown = |it: &&Rollout| filter.has_name(it) && filter.has_state(it.phase);
    html! {
        div.scroll {
            table.daemonsets.cards {
                thead {
                    tr {
                        th scope="col" { "State" }
                        th scope="col" { "DaemonSet" }
                        th.number scope="col" { "Desired" }
                        th.number scope="col" { "Ready" }
                        th.number scope="col" { "Updated" }
                        th.number scope="col" { "Available" }
                        th scope="col" { "Reason and next step" }
                    }
                }
                tbody { @for rollout in list.rollouts.iter().filter(is_shown) { (row(rollout)) } }
            }
        }
    }
}

fn row(rollout: &Rollout) -> Markup {
    let key = key(rollout);
    let path = link::daemon_set(&key);
    html! {
        tr class=(class(rollout.phase)) {
            td { span.badge { (rollout.phase) } }
            th scope="row" { a id=(path) href=(path) { (shown(&key.to_string())) } }
            td.number data-label="Desired" { (rollout.desired) }
            td.number data-label="Ready" { (rollout.ready) }
            td.number data-label="Updated" { (rollout.updated) }
            td.number data-label="Available" { (rollout.available) }
            td.reason {
                (phrase(&rollout.reason()))
                @if rollout.next_is_order() {
                    p.actions {
                        @for action in action::next(rollout) {
                            (action::button(&key, action, true)) " "
                        }
                    }
                } @else if let Some(next) = rollout.next_step() { p.next { (phrase(&next)) } }
                @for note in &rollout.notes { p.note { (shown(note)) } }
            }
        }
    }
}

pub(crate) fn key(rollout: &Rollout) -> DaemonSetKey {
    DaemonSetKey::new(rollout.namespace.as_str(), rollout.name.as_str())
}
