//! Before and after an action.

use everynode_core::api::DaemonSetKey;
use everynode_insight::program;
use everynode_insight::rollout::Rollout;
use maud::{Markup, html};

use super::diff::changes_of;
use super::{link, shown};
use crate::source::{Action, Done, Prepared};

/// The actions that the next step of a rollout names.
pub(crate) fn next(rollout: &Rollout) -> Vec<Action> {
    let next = rollout.next.as_deref().filter(|_| rollout.next_is_order()).unwrap_or_default();
    let is_named = |action: &Action| next.contains(&format!("{} ds/", action.command()));
    let orders = [
        Action::Approve,
        Action::Promote,
        Action::PromoteFull,
        Action::Abort,
        Action::Undo(None),
        Action::Retry,
    ];
    orders.into_iter().filter(is_named).collect()
}

/// A link to the question about an action.
pub(crate) fn button(key: &DaemonSetKey, action: Action, is_next: bool) -> Markup {
    let path = link::action(key, action);
    html! { a.button.primary[is_next] id=(path) href=(path) { (action.label()) " …" } }
}

/// The effects that an action will have in a cluster, and the button that starts it. `secret` shows
/// that the form is of this server.
pub(crate) fn question(
    key: &DaemonSetKey,
    action: Action,
    (cluster, prepared): (&str, &Result<Prepared, String>),
    secret: &str,
) -> Markup {
    html! {
        h1 { (action.label()) " " (shown(&key.to_string())) }
        @match prepared {
            Err(message) => {
                p.bad role="alert" { (shown(message)) }
            }
            Ok(prepared) => {
                p { "This will be done in " strong { (shown(cluster)) } ", with your rights:" }
                ul.effects { @for effect in &prepared.effects { li { (shown(effect)) } } }
                @if let Some(diff) = &prepared.diff { (changes_of(diff)) }
                p { "The same in a terminal: " code {
                    (program::name()) " " (action.command())
                    " ds/" (shown(key.name.as_str())) " -n "
                    (shown(key.namespace.as_str()))
                    @if let Action::Undo(Some(revision)) = action { " --to-revision " (revision) }
                } }
                form method="post" action=(link::action(key, action)) {
                    input type="hidden" name="secret" value=(secret);
                    input type="hidden" name="basis" value=(prepared.basis);
                    button #confirm.primary { (action.label()) }
                }
            }
        }
        p { a #back href=(link::daemon_set(key)) { "Back without changing anything" } }
    }
}

/// The effect of an action.
pub(crate) fn result(key: &DaemonSetKey, action: Action, result: &Result<Done, String>) -> Markup {
    html! {
        h1 { (action.label()) " " (shown(&key.to_string())) }
        @match result {
            Ok(done) => {
                p #done role="status" { (shown(&done.message)) }
                @for note in &done.notes { p.note { (shown(note)) } }
            }
            Err(message) => {
                p #failed.bad role="alert" { "Not done: " (shown(message)) }
            }
        }
        p { a #back href=(link::daemon_set(key)) { "Back to the DaemonSet" } }
    }
}
