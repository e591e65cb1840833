//! What is seen while a rollout is waited for: a bar on a terminal, a few lines at each change when piped.

use std::time::{Duration, Instant};

use everynode_insight::rollout::{Phase, Rollout};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{self, Screen, Tone};

/// When nobody looks, changes are told at most this often.
const LINES_INTERVAL: Duration = Duration::from_secs(1);
/// So many reasons are told.
const REASONS_MAX: usize = 10;

pub enum Display {
    Silent,
    Bar { bar: ProgressBar, screen: Screen },
    Lines { last: Option<(Instant, String)> },
}

impl Display {
    pub fn new(screen: Screen) -> Self {
        if screen.width.is_none() {
            return Self::lines();
        }
        let bar = if screen.color { "{bar:30.green}" } else { "{bar:30}" };
        let template = format!("{bar} {{pos}}/{{len}} pods, {{elapsed}}\n{{msg}}");
        let style = ProgressStyle::with_template(&template).expect("the template is a constant");
        Self::Bar { bar: ProgressBar::new(0).with_style(style), screen }
    }

    pub const fn lines() -> Self {
        Self::Lines { last: None }
    }

    /// Returns whether it is shown: what comes too soon after the last is to be shown again later.
    pub fn show(&mut self, rollout: &Rollout) -> anyhow::Result<bool> {
        match self {
            Self::Silent => Ok(true),
            Self::Bar { bar, screen } => {
                bar.set_length(rollout.desired.into());
                bar.set_position(rollout.updated.min(rollout.available).into());
                bar.set_message(text(rollout, *screen).trim_end().to_owned());
                Ok(true)
            }
            Self::Lines { last } => {
                let text = text(rollout, PLAIN);
                match last {
                    Some((_, told)) if *told == text => Ok(true),
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

    /// What people should know besides.
    pub fn note(&self, text: &str) {
        match self {
            Self::Silent | Self::Lines { .. } => output::note(text),
            Self::Bar { bar, .. } => bar.suspend(|| output::note(text)),
        }
    }

    /// The last word.
    pub fn finish(self, rollout: &Rollout) -> anyhow::Result<()> {
        match self {
            Self::Silent => Ok(()),
            Self::Bar { bar, screen } => {
                bar.finish_and_clear();
                output::print(&text(rollout, screen))
            }
            Self::Lines { last } => {
                let text = text(rollout, PLAIN);
                if last.is_some_and(|(_, told)| told == text) {
                    Ok(())
                } else {
                    output::print(&text)
                }
            }
        }
    }
}

const PLAIN: Screen = Screen { color: false, width: None };

/// How far it is, and below what holds it up.
pub fn text(rollout: &Rollout, screen: Screen) -> String {
    let tone = match rollout.phase {
        Phase::Failing | Phase::Unobserved => Tone::Bad,
        Phase::Progressing | Phase::AwaitsDeletion => Tone::Waiting,
        Phase::Done => Tone::Good,
    };
    let headline = screen.paint(tone, &rollout.headline());
    let mut text = format!("daemonset {}/{}: {headline}\n", rollout.namespace, rollout.name);
    if rollout.phase == Phase::Done {
        return text;
    }
    let groups = rollout.groups();
    for group in groups.iter().take(REASONS_MAX) {
        let tone = if group.cause.is_failing() { Tone::Bad } else { Tone::Plain };
        text += &format!("  {}\n", screen.paint(tone, &group.to_string()));
    }
    if groups.len() > REASONS_MAX {
        text += &format!("  and {} more reasons\n", groups.len() - REASONS_MAX);
    }
    text
}
