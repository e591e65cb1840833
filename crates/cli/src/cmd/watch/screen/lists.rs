//! Lists on the screen: revisions, held-up nodes, events and notes.

use everynode_insight::events::EventLine;
use everynode_insight::names;
use everynode_insight::overview::RevisionCount;
use everynode_insight::program;
use everynode_insight::rollout::HeldUpNodes;
use everynode_insight::situation::Situation;
use ratatui::text::{Line, Span};

use super::palette::{self, Palette};
use super::text::{fitted, flowed, width_of};
use crate::cmd::watch::view::{Connection, View};
use crate::output::{self, Tone, escape};

/// The maximum number of lines with names of one group.
const NAME_LINES_MAX: usize = 12;
/// The same of nodes that wait for their turn.
const OUTDATED_LINES_MAX: usize = 2;
/// The maximum number of lines with the message of one group.
const DETAIL_LINES_MAX: usize = 3;
const INDENT: usize = 4;

/// One line for each revision.
pub(crate) fn revisions(revisions: &[RevisionCount], palette: Palette) -> Vec<Line<'static>> {
    let line = |revision: &RevisionCount| {
        let number = revision.number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        let (tone, state) =
            if revision.is_current { (Tone::Good, "current") } else { (Tone::Plain, "older") };
        let pods = if revision.pods == 1 { "pod" } else { "pods" };
        let counts = format!("{} {pods}, {} available", revision.pods, revision.available);
        Line::from(vec![
            palette.span(Tone::Heading, format!("{number:>4} ")),
            palette.span(tone, format!("{state:<8}")),
            palette.span(Tone::Plain, format!("{counts:<32}")),
            palette.span(Tone::Faint, &revision.hash),
        ])
    };
    revisions.iter().map(line).collect()
}

/// Each group of held-up nodes: the reason, the names, and the next step.
pub(crate) fn held_up(
    groups: &[HeldUpNodes],
    width: usize,
    palette: Palette,
) -> Vec<Line<'static>> {
    groups.iter().flat_map(|group| group_lines(group, width, palette)).collect()
}

fn group_lines(group: &HeldUpNodes, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let tone = palette::tone(group.situation);
    let mut lines = vec![Line::from(vec![
        palette.span(tone, format!("{} ", palette::sign(group.situation))),
        palette.span(Tone::Heading, format!("{} ", group.count)),
        palette.span(
            tone,
            fitted(&group.why, width.saturating_sub(3 + group.count.to_string().len())),
        ),
    ])];
    let width = width.saturating_sub(INDENT);
    let names = names::compressed(group.nodes.iter().map(String::as_str));
    let named = names.len();
    let names = names
        .into_iter()
        .enumerate()
        .map(|(index, name)| if index + 1 < named { format!("{name},") } else { name });
    let flowed = flowed(names, width, 1, |name| name.chars().count());
    // Old ones need nobody's attention.
    let is_old = group.situation == Situation::Outdated;
    let lines_max = if is_old { OUTDATED_LINES_MAX } else { NAME_LINES_MAX };
    let is_cut = flowed.len() > lines_max;
    let indented = |tone, text: &str| {
        Line::from(vec![Span::raw(" ".repeat(INDENT)), palette.span(tone, text)])
    };
    let shown = flowed.iter().take(lines_max);
    lines.extend(shown.map(|names| indented(Tone::Plain, &names.join(" "))));
    if is_cut {
        let all = program::command("explain -o wide");
        lines.push(indented(Tone::Faint, &format!("and more: {all} lists all")));
    }
    let detail = group.detail.as_deref().unwrap_or_default().split_whitespace();
    let detail = self::flowed(detail, width, 1, |word| width_of(word));
    let shown = detail.iter().take(DETAIL_LINES_MAX);
    lines.extend(shown.map(|words| indented(Tone::Faint, &words.join(" "))));
    if let Some(next) = &group.next {
        lines.push(indented(Tone::Faint, &format!("→ {next}")));
    }
    lines
}

/// One line for each event.
pub(crate) fn events(events: &[EventLine], width: usize, palette: Palette) -> Vec<Line<'static>> {
    let line = |event: &EventLine| {
        let age = output::age(i64::try_from(event.age_seconds).unwrap_or(i64::MAX));
        let tone = if event.is_warning { Tone::Bad } else { Tone::Plain };
        let times = if event.count > 1 { format!(" (x{})", event.count) } else { String::new() };
        let (age, reason) = (format!("{age:>6} "), format!("{}{times} ", event.reason));
        let room = width.saturating_sub(width_of(&age) + width_of(&reason));
        Line::from(vec![
            palette.span(Tone::Faint, age),
            palette.span(tone, reason),
            palette.span(Tone::Plain, fitted(&escape::line(&event.message), room)),
        ])
    };
    events.iter().map(line).collect()
}

/// Notes about a lost connection, missing permissions and problems.
pub(crate) fn notes(view: &View, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let lost = match &view.connection {
        Connection::Live => None,
        Connection::Lost { cause, .. } => Some(format!("retrying: {cause}")),
    };
    let notes = lost.iter().chain(&view.notes);
    let wrapped = notes.flat_map(|note| {
        flowed(["!"].into_iter().chain(note.split_whitespace()), width, 1, |word| width_of(word))
    });
    wrapped.map(|words| palette.span(Tone::Bad, words.join(" ")).into()).collect()
}
