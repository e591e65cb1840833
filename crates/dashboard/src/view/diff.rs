//! The revisions of a DaemonSet, and the difference between two of them.

use everynode_core::api::{DaemonSetKey, Timestamp};
use everynode_insight::forecast::Change;
use everynode_insight::history::{self, RevisionEntry};
use everynode_insight::revision_diff::RevisionDiff;
use maud::{Markup, html};
use serde_json::Value;

use super::{link, shown};
use crate::source::{Action, Revisions};

/// The page: by default the last change, as `everynode diff` shows it.
pub(crate) fn page(
    key: &DaemonSetKey,
    revisions: &Revisions,
    from: Option<i64>,
    to: Option<i64>,
) -> Markup {
    html! {
        h1 { "Revisions of " a href=(link::daemon_set(key)) { (shown(&key.to_string())) } }
        (table(key, &revisions.entries, revisions.read_at))
        h2 { "What changed" }
        (form(key, &revisions.entries, from, to))
        @match between(key, revisions, from, to) {
            Ok(diff) => { (changes_of(&diff)) }
            Err(why) => { p { (shown(&why)) } }
        }
    }
}

/// The difference between two revisions; by default from the previous one to the current template.
///
/// # Errors
/// If there is no such revision, or it contains no template.
fn between(
    key: &DaemonSetKey,
    revisions: &Revisions,
    from: Option<i64>,
    to: Option<i64>,
) -> Result<RevisionDiff, String> {
    let entries = &revisions.entries;
    let from = match from {
        Some(number) => history::numbered(entries, number),
        None => history::previous(entries),
    };
    let from = from.map_err(|error| error.to_string())?;
    let (entry, after) = match to {
        Some(number) => {
            let entry = history::numbered(entries, number).map_err(|error| error.to_string())?;
            (Some(entry), entry.template.as_ref())
        }
        None => (entries.iter().rev().find(|entry| entry.current), Some(&revisions.template)),
    };
    let (Some(before), Some(after)) = (&from.template, after) else {
        return Err("one of the revisions contains no pod template".to_owned());
    };
    Ok(RevisionDiff::new(key, (from, before), (entry, after)))
}

fn table(key: &DaemonSetKey, entries: &[RevisionEntry], read_at: Timestamp) -> Markup {
    html! {
        div.scroll {
            table.cards {
                thead {
                    tr {
                        @for heading in ["Revision", "State", "Age", "Images", "Change cause",
                            "Roll back"] { th scope="col" { (heading) } }
                    }
                }
                tbody {
                    @for entry in entries.iter().rev() {
                        tr {
                            th scope="row" data-label="Revision" { (entry.revision) }
                            td {
                                @if entry.current { "current" } @else { "old" }
                                @if let Some(record) = &entry.rollout {
                                    ", " (record.phase.as_str())
                                }
                            }
                            td data-label="Age" { (entry.age(read_at)) }
                            td data-label="Images" { (shown(&entry.images().join(", "))) }
                            td data-label="Change cause" {
                                (shown(entry.change_cause.as_deref().unwrap_or("-")))
                            }
                            td {
                                @if !entry.current {
                                    @let action = Action::Undo(Some(entry.revision));
                                    a href=(link::action(key, action)) {
                                        "Roll back to " (entry.revision) " …"
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

fn form(
    key: &DaemonSetKey,
    entries: &[RevisionEntry],
    from: Option<i64>,
    to: Option<i64>,
) -> Markup {
    let options = |chosen: Option<i64>| {
        html! {
            @for entry in entries.iter().rev() {
                option value=(entry.revision) selected[chosen == Some(entry.revision)] {
                    (entry.revision)
                }
            }
        }
    };
    html! {
        form action={ (link::daemon_set(key)) "/diff" } {
            label for="from" { "From" }
            select #from name="from" { option value="" { "previous" } (options(from)) }
            label for="to" { "to" }
            select #to name="to" { option value="" { "current template" } (options(to)) }
            button { "Compare" }
        }
    }
}

/// The fields that differ.
pub(crate) fn changes_of(diff: &RevisionDiff) -> Markup {
    let to = match &diff.to {
        Some(to) => format!("revision {}", to.revision),
        None => "the current template".to_owned(),
    };
    html! {
        p { "From revision " (diff.from.revision) " to " (to) ":" }
        @if diff.changes.is_empty() { p { "They mean the same." } }
        @else { (changes(&diff.changes)) }
    }
}

/// Fields with their old and new values.
pub(crate) fn changes(changes: &[Change]) -> Markup {
    html! {
        div.scroll {
            table.changes.cards {
                thead { tr { th scope="col" { "Field" } th scope="col" { "From" }
                    th scope="col" { "To" } } }
                tbody {
                    @for change in changes {
                        tr {
                            th scope="row" { code { (shown(&change.field)) } }
                            td.reason data-label="From" {
                                @if let Some(value) = &change.from { del { (text(value)) } }
                            }
                            td.reason data-label="To" {
                                @if let Some(value) = &change.to { ins { (text(value)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn text(value: &Value) -> Markup {
    match value {
        Value::String(text) => html! { (shown(text)) },
        other => html! { (shown(&other.to_string())) },
    }
}
