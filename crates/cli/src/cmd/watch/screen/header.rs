//! The first lines of the screen: title, progress, and the estimate of the end.

use everynode_insight::overview::{Overview, Progress};
use everynode_insight::rollout::{GuardedWave, Phase};
use ratatui::text::{Line, Span};

use super::palette::Palette;
use super::text::{fitted, flowed, width_of};
use crate::cmd::watch::view::{Connection, Content, View};
use crate::output::{self, Tone, escape};

/// The maximum number of lines of the next step.
const NEXT_LINES_MAX: usize = 3;

/// Title, bar, counts and state, the most important first.
pub(crate) fn lines(view: &View, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let mut lines = vec![title(view, width, palette)];
    match &view.content {
        Content::Loading => lines.push(palette.span(Tone::Waiting, "reading the cluster …").into()),
        Content::Deleted => {
            lines.push(palette.span(Tone::Bad, "deleted: there is no such DaemonSet").into());
        }
        Content::Loaded(overview) => {
            // Nothing is rolled out to a DaemonSet that is being deleted.
            if overview.phase != Phase::Deleting {
                lines.push(bar(overview.progress, width, palette));
                lines.push(palette.span(Tone::Plain, counts(overview.progress)).into());
            }
            lines.push(state(overview, width, palette));
            if let Some(next) = &overview.next {
                lines.extend(paragraph(&format!("→ {next}"), width, palette));
            }
            lines.extend(overview.wave.as_ref().map(|wave| self::wave(wave, palette)));
        }
    }
    lines
}

fn title(view: &View, width: usize, palette: Palette) -> Line<'static> {
    let (tone, connection) = match &view.connection {
        Connection::Live => (Tone::Good, "live".to_owned()),
        Connection::Lost { seconds, .. } => {
            (Tone::Bad, format!("CONNECTION LOST, {} old", age(*seconds)))
        }
    };
    let strategy = match &view.content {
        Content::Loaded(overview) => format!(" · {}", overview.update_strategy),
        Content::Loading | Content::Deleted => String::new(),
    };
    let rest = format!(" · {}{strategy}", escape::line(&view.cluster));
    let left = width.saturating_sub(width_of(&connection) + 1);
    let name = fitted(&view.title, left);
    let rest = fitted(&rest, left - width_of(&name));
    let gap = width.saturating_sub(width_of(&name) + width_of(&rest) + width_of(&connection));
    Line::from(vec![
        palette.span(Tone::Heading, name),
        palette.span(Tone::Plain, rest),
        Span::raw(" ".repeat(gap)),
        palette.span(tone, connection),
    ])
}

/// A bar of nodes that are done, nodes that are updated but not done, and the others.
fn bar(progress: Progress, width: usize, palette: Palette) -> Line<'static> {
    let Progress { desired, updated, done, .. } = progress;
    // Rounded down, so that the bar is full only if all nodes are done.
    let percent = (done * 100).checked_div(desired).unwrap_or(100);
    let percent = format!(" {percent:>3}%");
    let width = width.saturating_sub(percent.len());
    let part = |count: usize| (count.min(desired) * width).checked_div(desired).unwrap_or(width);
    let (done, updated) = (part(done), part(updated).max(part(done)));
    Line::from(vec![
        palette.span(Tone::Good, "█".repeat(done)),
        palette.span(Tone::Waiting, "▒".repeat(updated - done)),
        palette.span(Tone::Faint, "░".repeat(width - updated)),
        palette.span(Tone::Plain, percent),
    ])
}

fn counts(progress: Progress) -> String {
    let Progress { desired, updated, available, done, .. } = progress;
    let nodes = if desired == 1 { "node" } else { "nodes" };
    format!("{done} of {desired} {nodes} done: {updated} updated, {available} available")
}

/// The wave of a guarded rollout, with the rest of its bake time.
fn wave(wave: &GuardedWave, palette: Palette) -> Line<'static> {
    let bakes = match wave.bake_seconds_left {
        None => String::new(),
        Some(seconds) => format!(" · bakes for {}", age(seconds)),
    };
    palette.span(Tone::Plain, format!("{wave}{bakes}")).into()
}

/// A text over several lines, the last of which is cut if there are too many.
fn paragraph(text: &str, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let words = flowed(text.split(' '), width, 1, |word| width_of(word));
    let (shown, rest) = words.split_at(words.len().min(NEXT_LINES_MAX - 1));
    let shown = shown.iter().map(|words| words.join(" "));
    let last = (!rest.is_empty()).then(|| fitted(&rest.concat().join(" "), width));
    shown.chain(last).map(|line| palette.span(Tone::Plain, line).into()).collect()
}

/// The state, cut at the width: the list of what holds the rollout up has it in full.
fn state(overview: &Overview, width: usize, palette: Palette) -> Line<'static> {
    let waits = match overview.waits_for.as_str() {
        "" => String::new(),
        waits_for if waits_for.starts_with("waiting for ") => waits_for.to_owned(),
        waits_for => format!("held up: {waits_for}"),
    };
    let (tone, text) = match overview.phase {
        Phase::Failing => (Tone::Bad, format!("stuck: {}", overview.waits_for)),
        Phase::Deleting | Phase::Unobserved => (Tone::Bad, overview.waits_for.clone()),
        Phase::Progressing => (Tone::Waiting, waits),
        Phase::Paused => (Tone::Waiting, format!("paused: {}", overview.waits_for)),
        Phase::AwaitsPerson => (Tone::Waiting, overview.waits_for.clone()),
        Phase::AwaitsDeletion => (Tone::Waiting, overview.waits_for.clone()),
        Phase::Done if overview.waits_for.is_empty() => (Tone::Good, "rolled out".to_owned()),
        Phase::Done if overview.progress.desired > 0 => {
            (Tone::Good, format!("rolled out; {}", overview.waits_for))
        }
        Phase::Done => (Tone::Waiting, overview.waits_for.clone()),
    };
    let estimate = match overview.phase {
        Phase::Failing => overview.estimate.text().replacen("ends", "the rest ends", 1),
        Phase::Deleting
        | Phase::Unobserved
        | Phase::Progressing
        | Phase::Paused
        | Phase::AwaitsPerson
        | Phase::AwaitsDeletion
        | Phase::Done => overview.estimate.text(),
    };
    let mut spans = Vec::new();
    if !estimate.is_empty() {
        spans.push(palette.span(Tone::Heading, estimate));
        spans.push(Span::raw(" · "));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    spans.push(palette.span(tone, fitted(&escape::line(&text), width.saturating_sub(used))));
    Line::from(spans)
}

fn age(seconds: u64) -> String {
    output::age(i64::try_from(seconds).unwrap_or(i64::MAX))
}
