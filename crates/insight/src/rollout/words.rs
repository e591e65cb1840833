//! A rollout in words: its progress, and what it waits for.

use everynode_core::api::{ReasonClass, statements_of_checks};

use super::cause::AWAITS_DELETION;
use super::{CauseGroup, Pause, PendingDeletion, Phase, Rollout, announced};

impl Rollout {
    /// The progress in one line.
    pub fn headline(&self) -> String {
        let Self { desired, updated, available, .. } = self;
        match self.phase {
            Phase::Unobserved => unobserved(self.long_unobserved),
            Phase::Done if *desired == 0 => format!("rolled out: {}", self.no_node_text()),
            Phase::Done => {
                let done = updated.min(available);
                let text = format!("rolled out: {done} of {desired} pods updated and available");
                match self.set_aside_text() {
                    aside if self.is_done_without_some() && !aside.is_empty() => {
                        format!("{text}; {aside}")
                    }
                    _ => text,
                }
            }
            Phase::Deleting => self.deletion_text(),
            Phase::Failing
            | Phase::Progressing
            | Phase::Paused
            | Phase::AwaitsPerson
            | Phase::AwaitsDeletion => {
                let paused = match (self.pause, &self.guard) {
                    (Pause::Requested, _) => "pause not acknowledged by a controller: ".to_owned(),
                    (_, Some(guard)) if guard.says_more() => format!("{}: ", guard.message),
                    (Pause::Yes, _) => "paused: ".to_owned(),
                    (Pause::No, _) => String::new(),
                };
                let missing = match self.missing {
                    0 => String::new(),
                    1 => ", 1 not created".to_owned(),
                    missing => format!(", {missing} not created"),
                };
                format!(
                    "{paused}{updated} of {desired} pods updated, {available} available{missing}"
                )
            }
        }
    }

    fn no_node_text(&self) -> String {
        self.no_node.clone().unwrap_or_else(|| "no node should run it".to_owned())
    }

    fn deletion_text(&self) -> String {
        self.deletion.as_ref().map(PendingDeletion::to_string).unwrap_or_default()
    }

    /// The statements about the checks of the wave: empty, or after a semicolon.
    fn checks_text(&self) -> &str {
        self.guard.as_ref().map_or("", |guard| statements_of_checks(&guard.message))
    }

    /// The message about a rollout that has failed. It says more than the causes of its pods.
    fn failure(&self) -> Option<&str> {
        let guard = self.guard.as_ref().filter(|guard| guard.has_failed())?;
        Some(&guard.message)
    }

    /// The message that alone says what nodes wait for.
    fn explained_wait(&self) -> Option<&str> {
        let guard = self.guard.as_ref()?;
        guard.reason.explains_wait().then_some(&*guard.message)
    }

    /// The message about a rollout that waits for a window.
    fn outside_window(&self) -> Option<&str> {
        let guard = self.guard.as_ref()?;
        (guard.reason.class() == ReasonClass::WaitsForWindow).then_some(&*guard.message)
    }

    fn wave_name(&self) -> Option<&str> {
        self.guard.as_ref()?.wave_name()
    }

    /// The reason why the rollout waits, as a phrase: the worst cause, with its nodes. Empty if it
    /// is done.
    pub fn waits_for(&self) -> String {
        match (self.phase, self.groups().first()) {
            (Phase::Done, _) if self.desired == 0 => self.no_node_text(),
            (Phase::Done, _) if self.is_done_without_some() => self.set_aside_text(),
            (Phase::Done, _) => String::new(),
            (Phase::Deleting, _) => self.deletion_text(),
            (Phase::Unobserved, _) => unobserved(self.long_unobserved),
            (Phase::AwaitsPerson, _) => match &self.guard {
                Some(guard) => guard.message.clone(),
                None => self.headline(),
            },
            (Phase::Failing, _) if let Some(failed) = self.failure() => failed.to_owned(),
            (Phase::Progressing, _) if self.class() == Some(ReasonClass::WaitsForTime) => {
                let waits = match self.wave_name() {
                    Some(wave) => format!("waiting for the end of the bake time of wave {wave}"),
                    None => "waiting for the end of a bake time".to_owned(),
                };
                self.with_hindrance(format!("{waits}{}", self.checks_text()))
            }
            (Phase::Progressing, _) if self.class() == Some(ReasonClass::WaitsForChecks) => {
                let of = self.wave_name().map(|wave| format!(" of wave {wave}"));
                format!("waiting for the checks{}{}", of.unwrap_or_default(), self.checks_text())
            }
            // The nodes of the wave may be down, and then no pod is desired there.
            (Phase::Progressing, _) if let Some(message) = self.explained_wait() => {
                self.with_hindrance(message.to_owned())
            }
            (Phase::Progressing, group) if group.is_none_or(|group| group.cause.awaits_turn()) => {
                match (self.outside_window(), group) {
                    (Some(message), _) => message.to_owned(),
                    (None, Some(group)) => group.to_string(),
                    (None, None) => self.headline(),
                }
            }
            (_, Some(group)) => group.to_string(),
            (Phase::AwaitsDeletion, None) => {
                let old = self.desired.saturating_sub(self.updated);
                format!("{AWAITS_DELETION}: {old} pods")
            }
            (Phase::Failing | Phase::Progressing | Phase::Paused, None) => self.headline(),
        }
    }

    /// The text with the worst cause that is not the turn of other nodes, if there is one.
    fn with_hindrance(&self, text: String) -> String {
        match self.groups().iter().find(|group| !group.cause.awaits_turn()) {
            Some(group) => format!("{text}; {group}"),
            None => text,
        }
    }

    /// [`Rollout::reason`], [`Rollout::next_step`], and what else there is to know: the row of
    /// `top`.
    pub fn remarks(&self) -> Vec<String> {
        let parts = [Some(self.reason()), self.next_step()];
        let parts = parts.into_iter().flatten().chain(self.notes.iter().cloned());
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// The reason why the rollout waits, and the number of further causes.
    pub fn reason(&self) -> String {
        let groups = self.groups();
        let further = groups.iter().skip(1).filter(|group| !group.cause.awaits_turn()).count();
        let waits_for = self.waits_for();
        match (self.stated_group(groups), further) {
            (None, _) | (_, 0) => waits_for,
            (_, 1) => format!("{waits_for}; and 1 more cause"),
            (_, count) => format!("{waits_for}; and {count} more causes"),
        }
    }

    /// The operator's next step, announced.
    pub fn next_step(&self) -> Option<String> {
        let of_group = || self.stated_group(self.groups())?.cause.next;
        self.next.clone().or_else(of_group).map(|next| announced(&next))
    }

    /// The group of nodes that [`Rollout::waits_for`] states.
    fn stated_group(&self, groups: Vec<CauseGroup>) -> Option<CauseGroup> {
        let is_of_pods = matches!(
            self.phase,
            Phase::Failing | Phase::Progressing | Phase::Paused | Phase::AwaitsDeletion
        );
        let first = groups.into_iter().next().filter(|_| is_of_pods)?;
        (self.waits_for() == first.to_string()).then_some(first)
    }
}

/// That no controller has observed the latest spec, and whether that has lasted long.
pub(crate) fn unobserved(long: bool) -> String {
    let duration = if long { "for more than 10 min" } else { "yet" };
    format!("no controller has observed the latest spec {duration}")
}
