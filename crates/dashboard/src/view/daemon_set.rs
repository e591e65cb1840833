//! One DaemonSet: its progress, what holds it up, its nodes, waves, revisions and events.

use everynode_core::api::{DaemonSetKey, NodeName, RolloutPhase};
use everynode_insight::age;
use everynode_insight::events::EventLine;
use everynode_insight::explain::NodeGroup;
use everynode_insight::guarded::{GuardedRollout, StepState};
use everynode_insight::overview::RevisionCount;
use everynode_insight::rollout::{Pause, Phase, Rollout, announced};
use maud::{Markup, html};

use super::groups::groups;
use super::{
    Section, action, chart, class, connection, link, list, map, notes, page_of, phrase, shown,
    waves,
};
use crate::source::{Action, Content, DaemonSetDetail, DaemonSets, Reading};

type Detail = Reading<DaemonSetDetail>;
type List = Reading<DaemonSets>;

pub(crate) fn page(key: &DaemonSetKey, reading: &Detail, list: &List) -> Markup {
    page_of(&key.to_string(), &sections(key, reading, list))
}

/// The sections. Before the DaemonSet has been read, what the list of all DaemonSets knows.
pub(crate) fn sections(key: &DaemonSetKey, reading: &Detail, list: &List) -> Vec<Section> {
    let mut sections = vec![connection(reading.lost.as_ref())];
    match &reading.content {
        Content::Missing(why) => sections.push(Section {
            id: "summary",
            title: None,
            body: html! { p.bad role="alert" { (shown(why)) } },
        }),
        Content::Loading => {
            let known = match &list.content {
                Content::Loaded(list) => list.rollouts.iter().find(|it| list::key(it) == *key),
                Content::Loading | Content::Missing(_) => None,
            };
            let body = html! {
                @if let Some(rollout) = known { (progress(rollout)) }
                p { "Reading nodes and pods …" }
            };
            sections.push(Section { id: "summary", title: None, body });
            sections.extend(
                ["actions", "held-up", "map", "waves", "course", "revisions", "groups", "events"]
                    .map(|id| Section { id, title: None, body: html! {} }),
            );
            sections.push(notes(&[]));
        }
        Content::Loaded(detail) => sections.extend(of_detail(key, detail)),
    }
    sections
}

fn of_detail(key: &DaemonSetKey, detail: &DaemonSetDetail) -> Vec<Section> {
    let section = |id, title, body| Section { id, title: Some(title), body };
    let path = link::daemon_set(key);
    let held_up = html! {
        @if detail.overview.held_up.is_empty() { p { "Nothing." } }
        (groups(detail.overview.held_up.iter().map(Into::into), Some(link_of_node)))
    };
    let is_held_up = |group: &&NodeGroup| {
        let mut held_up = detail.overview.held_up.iter();
        held_up.any(|it| it.why == group.why && it.count == group.nodes.len())
    };
    let others = detail.groups.iter().filter(|group| !is_held_up(group));
    let others: Vec<_> = others.map(Into::into).collect();
    let title = (!others.is_empty()).then_some("Other nodes by reason");
    let others = Section { id: "groups", title, body: groups(others, Some(link_of_node)) };
    let zones = html! {
        (map::map(&detail.zones, &format!("{path}/at")))
        p { a id="all-nodes" href={ (path) "/nodes" } { "Every node by name" } }
    };
    let course = html! {
        @match &detail.course {
            Some(course) => {
                (chart::chart(course, detail.rollout.desired, detail.overview.estimate))
            }
            None => { p { "No pod is of the current revision yet." } }
        }
    };
    vec![
        Section { id: "summary", title: None, body: summary(detail) },
        Section { id: "actions", title: None, body: actions(key, detail) },
        section("held-up", "What holds it up", held_up),
        section("map", "Nodes by zone", zones),
        match &detail.guarded {
            Some(guarded) => {
                section("waves", "Waves", rollout(guarded, &detail.rollout.headline()))
            }
            None => Section { id: "waves", title: None, body: html! {} },
        },
        section("course", "Course of the rollout", course),
        section("revisions", "Revisions", revisions(key, &detail.overview.revisions)),
        others,
        section("events", "Events", events(&detail.events)),
        notes(&other_notes(&detail.notes, &detail.rollout.notes)),
    ]
}

/// The notes without those that the summary shows.
fn other_notes(notes: &[String], of_rollout: &[String]) -> Vec<String> {
    notes.iter().filter(|note| !of_rollout.contains(note)).cloned().collect()
}

fn link_of_node(name: &str) -> String {
    link::node(&NodeName::from(name))
}

fn summary(detail: &DaemonSetDetail) -> Markup {
    let overview = &detail.overview;
    let estimate = overview.estimate.text();
    html! {
        (progress(&detail.rollout))
        @if !detail.rollout.next_is_order() { (next(&detail.rollout)) }
        @if !estimate.is_empty() { p.estimate { (estimate) } }
        @if let Some(wave) = &overview.wave {
            p.wave {
                (shown(&wave.to_string()))
                @if let Some(seconds) = wave.bake_seconds_left {
                    " · bakes for " (age::duration(seconds))
                }
            }
        }
    }
}

/// The next step of the operator.
pub(crate) fn next(rollout: &Rollout) -> Markup {
    html! { @if let Some(next) = &rollout.next { p.next { (phrase(&announced(next))) } } }
}

/// The counts of a rollout, as `status` reports them.
pub(crate) fn progress(rollout: &Rollout) -> Markup {
    let Rollout { desired, updated, ready, available, missing, .. } = rollout;
    let done = rollout.done();
    let (headline, waits_for) = (rollout.headline(), rollout.waits_for());
    html! {
        div class={ "progress " (class(rollout.phase)) } data-state=(rollout.phase) {
            p.headline {
                span.badge { (rollout.phase) } " " span { (phrase(&headline)) }
            }
            // Nothing is rolled out to a DaemonSet that is being deleted.
            @if rollout.phase != Phase::Deleting {
                progress max=((*desired).max(1)) value=(if *desired == 0 { 1 } else { done })
                    aria-label={ (done) " of " (desired) " nodes updated and available" } {}
            }
            dl.counts {
                @for (name, count) in [("desired", desired), ("updated", updated), ("ready", ready),
                    ("available", available), ("not created", missing)] {
                    div { dt { (name) } dd { (count) } }
                }
                div { dt { "strategy" } dd { (shown(&rollout.update_strategy.to_string())) } }
            }
            // Some states are their own reason.
            @if rollout.phase != Phase::Done && !headline.contains(&waits_for) {
                p.waits { "Held up: " (phrase(&waits_for)) }
            }
            @for note in &rollout.notes { p.note { (shown(note)) } }
        }
    }
}

fn actions(key: &DaemonSetKey, detail: &DaemonSetDetail) -> Markup {
    let pause = match detail.rollout.pause {
        Pause::No => Action::Pause,
        Pause::Requested | Pause::Yes => Action::Resume,
    };
    let mut actions = vec![pause];
    actions.extend(detail.guarded.iter().flat_map(orders));
    actions.extend([Action::Undo(None), Action::Restart]);
    let next = action::next(&detail.rollout);
    actions.sort_by_key(|action| next.iter().position(|it| it == action).unwrap_or(next.len()));
    html! {
        nav aria-label="Actions" {
            ul.actions {
                @for action in actions {
                    li { (action::button(key, action, next.contains(&action))) }
                }
            }
        }
    }
}

/// The orders that have an effect in this phase of a guarded rollout.
fn orders(guarded: &GuardedRollout) -> &'static [Action] {
    let is_in = |phase: RolloutPhase| guarded.phase == Some(phase);
    if is_in(RolloutPhase::Complete) {
        &[]
    } else if is_in(RolloutPhase::Failed) {
        &[Action::Retry, Action::PromoteFull]
    } else {
        &[Action::Approve, Action::Promote, Action::PromoteFull, Action::Abort]
    }
}

/// The waves. `headline` is stated above them.
fn rollout(guarded: &GuardedRollout, headline: &str) -> Markup {
    html! {
        p {
            @match guarded.reason {
                None => { "no controller has stated anything yet" }
                Some(reason) => {
                    strong { (reason.as_str()) }
                    @if !headline.contains(&*guarded.message) { ": " (phrase(&guarded.message)) }
                }
            }
        }
        p {
            "Policy: " (shown(guarded.policy.as_deref().unwrap_or("none")))
            "; " (shown(&guarded.revisions_text()))
        }
        @if let Some(nodes) = &guarded.nodes { (waves::track(nodes)) }
        @if !guarded.steps.is_empty() {
            div.scroll {
                table.cards {
                    thead {
                        tr {
                            @for heading in ["Step", "State", "Nodes", "By", "Up to", "Bake",
                                "Approval"] { th scope="col" { (heading) } }
                        }
                    }
                    tbody {
                        @for step in &guarded.steps {
                            tr class=(class(step.state)) {
                                th scope="row" { (shown(&step.name)) }
                                td data-label="State" {
                                    @match (step.state, &guarded.wave) {
                                        (StepState::Current, Some(wave)) => {
                                            "at " (shown(wave.as_str()))
                                        }
                                        (state, _) => { (state) }
                                    }
                                }
                                td data-label="Nodes" {
                                    @if step.nodes.is_empty() { "all" } (shown(&step.nodes))
                                }
                                td data-label="By" { (shown(step.by.as_deref().unwrap_or("-"))) }
                                td data-label="Up to" { (shown(&step.up_to.join(", "))) }
                                td data-label="Bake" { (age::duration(step.bake_seconds)) }
                                td data-label="Approval" {
                                    @if step.approval { "yes" } @else { "-" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn revisions(key: &DaemonSetKey, revisions: &[RevisionCount]) -> Markup {
    let path = format!("{}/diff", link::daemon_set(key));
    html! {
        div.scroll {
            table.cards {
                thead {
                    tr {
                        th scope="col" { "Revision" }
                        th scope="col" { "State" }
                        th.number scope="col" { "Pods" }
                        th.number scope="col" { "Available" }
                        th scope="col" { "Age" }
                        th scope="col" { "Hash" }
                    }
                }
                tbody {
                    @for revision in revisions {
                        tr {
                            th scope="row" data-label="Revision" {
                                @match revision.number {
                                    Some(number) => { (number) }
                                    None => { "?" }
                                }
                            }
                            td { @if revision.is_current { "current" } @else { "older" } }
                            td.number data-label="Pods" { (revision.pods) }
                            td.number data-label="Available" { (revision.available) }
                            td data-label="Age" {
                                @match revision.age_seconds {
                                    Some(seconds) => { (age::duration(seconds)) }
                                    None => { "?" }
                                }
                            }
                            td data-label="Hash" { code { (shown(&revision.hash)) } }
                        }
                    }
                }
            }
        }
        p { a id=(path) href=(path) { "All revisions, and what changed" } }
    }
}

fn events(events: &[EventLine]) -> Markup {
    html! {
        @if events.is_empty() { p { "No events." } }
        @else {
            div.scroll {
                table.events.cards {
                    thead {
                        tr {
                            @for heading in ["Age", "Reason", "About", "Message"] {
                                th scope="col" { (heading) }
                            }
                        }
                    }
                    tbody {
                        @for event in events {
                            tr.warning[event.is_warning] {
                                td { (age::duration(event.age_seconds)) }
                                td {
                                    @if event.is_warning { span.badge { "warning" } " " }
                                    (shown(&event.reason))
                                    @if event.count > 1 { " (x" (event.count) ")" }
                                }
                                td { (phrase(&event.about)) }
                                td.reason { (phrase(&event.message)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
