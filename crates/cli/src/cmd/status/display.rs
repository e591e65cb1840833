//! Displays a rollout while waiting for it: a bar on a terminal, else lines at each change.

use std::time::{Duration, Instant};

use everynode_insight::rollout::{Phase, Rollout, announced};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{self, TextLayout, Tone};

/// The minimum time between two outputs of lines.
const LINES_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of reasons shown.
const REASONS_MAX: usize = 10;

/// A display of a rollout.
pub(crate) enum RolloutDisplay {
    /// No output, for `-o json` and the like.
    Silent,
    /// A progress bar with the reasons below.
    Bar { bar: ProgressBar, layout: TextLayout },
    /// Lines of text. `last` is the last output and its time.
    Lines { last: Option<(Instant, String)> },
}

impl RolloutDisplay {
    /// A bar on a terminal, else lines.
    pub(crate) fn new(layout: TextLayout) -> Self {
        if layout.width.is_none() {
            return Self::lines();
        }
        let bar = if layout.color { "{bar:30.green}" } else { "{bar:30}" };
        let template = format!("{bar} {{pos}}/{{len}} pods, {{elapsed}}\n{{msg}}");
        let style = ProgressStyle::with_template(&template).expect("the template is a constant");
        Self::Bar { bar: ProgressBar::new(0).with_style(style), layout }
    }

    /// Lines, even on a terminal.
    pub(crate) const fn lines() -> Self {
        Self::Lines { last: None }
    }

    /// Shows the rollout. Returns false if the last output is too recent, so that the caller has to
    /// try again.
    pub(crate) fn show(&mut self, rollout: &Rollout) -> anyhow::Result<bool> {
        match self {
            Self::Silent => Ok(true),
            Self::Bar { bar, layout } => {
                bar.set_length(rollout.desired.into());
                bar.set_position(rollout.done().into());
                bar.set_message(text(rollout, *layout).trim_end().to_owned());
                Ok(true)
            }
            Self::Lines { last } => {
                let text = text(rollout, PLAIN);
                match last {
                    Some((_, shown)) if *shown == text => Ok(true),
                    Some((at, _)) if at.elapsed() < LINES_INTERVAL => Ok(false),
                    Some(_) | None => {
                        output::print(&text)?;
                        *last = Some((Instant::now(), text));
                        Ok(true)
                    }
                }
            }
        }
    }

    /// Prints a note on standard error.
    pub(crate) fn note(&self, text: &str) {
        match self {
            Self::Silent | Self::Lines { .. } => output::note(text),
            Self::Bar { bar, .. } => bar.suspend(|| output::note(text)),
        }
    }

    /// Prints the final state.
    pub(crate) fn finish(self, rollout: &Rollout) -> anyhow::Result<()> {
        match self {
            Self::Silent => Ok(()),
            Self::Bar { bar, layout } => {
                bar.finish_and_clear();
                output::print(&text(rollout, layout))
            }
            Self::Lines { last } => {
                let text = text(rollout, PLAIN);
                if last.is_some_and(|(_, shown)| shown == text) {
                    Ok(())
                } else {
                    output::print(&text)
                }
            }
        }
    }
}

/// The layout of lines.
const PLAIN: TextLayout = TextLayout { color: false, width: None };

/// The progress of a rollout, and what holds it up.
pub(crate) fn text(rollout: &Rollout, layout: TextLayout) -> String {
    let tone = match rollout.phase {
        Phase::Failing | Phase::Deleting | Phase::Unobserved => Tone::Bad,
        Phase::Progressing | Phase::Paused | Phase::AwaitsPerson | Phase::AwaitsDeletion => {
            Tone::Waiting
        }
        Phase::Done => Tone::Good,
    };
    let headline = layout.paint(tone, &rollout.headline());
    let name = format!("daemonset {}/{}", rollout.namespace, rollout.name);
    let mut text = format!("{}: {headline}\n", layout.paint(Tone::Plain, &name));
    if let Some(next) = &rollout.next {
        text += &format!("  {}\n", layout.paint(Tone::Plain, &announced(next)));
    }
    for note in &rollout.notes {
        text +=
            &format!("  {} {}\n", layout.paint(Tone::Bad, "!"), layout.paint(Tone::Plain, note));
    }
    if rollout.phase == Phase::Done {
        return layout.fitted(text);
    }
    if let Some(wave) = rollout.guard.as_ref().and_then(|guard| guard.wave.as_ref()) {
        text += &format!("  {}\n", layout.paint(Tone::Plain, &wave.to_string()));
    }
    let groups = rollout.groups();
    for group in groups.iter().take(REASONS_MAX) {
        let tone = if group.stuck { Tone::Bad } else { Tone::Plain };
        text += &format!("  {}\n", layout.paint(tone, &group.to_string()));
        if let Some(next) = &group.cause.next {
            text += &format!("    {}\n", layout.paint(Tone::Faint, &announced(next)));
        }
    }
    if groups.len() > REASONS_MAX {
        text += &format!("  and {} more reasons\n", groups.len() - REASONS_MAX);
    }
    layout.fitted(text)
}
