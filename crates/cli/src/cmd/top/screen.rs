//! Draws the live list for a terminal of a given size. Pure functions.

use everynode_insight::rollout::{Phase, Rollout};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::list::{List, Mode, StateFilter};
use super::tone;
use crate::cmd::watch::screen::text::{fitted, flowed, width_of};
use crate::cmd::watch::screen::{Palette, heading};
use crate::cmd::watch::view::Connection;
use crate::output::{self, Tone, escape};

/// The maximum number of lines with notes, and with the reason of the selected DaemonSet.
const NOTES_MAX: usize = 2;
const REASON_LINES_MAX: usize = 4;
/// The minimum number of rows beside the details of the selected one.
const ROWS_MIN: usize = 3;
/// The minimum width of a reason in the list.
const REASON_WIDTH_MIN: usize = 20;
/// The minimum width of a screen for the columns with numbers.
const NUMBERS_WIDTH_MIN: usize = 50;
const GAP: usize = 2;
/// The width of the mark of the selected row.
const MARK: usize = 2;

/// The lines of the screen, at most `height`.
pub(super) fn lines(
    list: &List,
    (width, height): (u16, u16),
    palette: Palette,
) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(width), usize::from(height));
    let mut lines = vec![title(list, width, palette), counts(list, width, palette)];
    lines.extend(notes(list, width, palette));
    lines.truncate(height.saturating_sub(1));
    let room = height.saturating_sub(lines.len() + 1);
    if list.mode == Mode::Help {
        lines.extend(help(palette).into_iter().take(room));
    } else {
        lines.extend(body(list, width, room, palette));
    }
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(footer(list, width, palette));
    lines.truncate(height);
    lines
}

fn title(list: &List, width: usize, palette: Palette) -> Line<'static> {
    let (tone, connection) = match &list.connection {
        Connection::Live => (Tone::Good, "live".to_owned()),
        Connection::Lost { seconds, .. } => {
            let age = output::age(i64::try_from(*seconds).unwrap_or(i64::MAX));
            (Tone::Bad, format!("CONNECTION LOST, {age} old"))
        }
    };
    let left = width.saturating_sub(width_of(&connection) + 1);
    let parts = ["daemonsets", &escape::line(&list.scope), &escape::line(&list.cluster)];
    let title = fitted(&parts.join(" · "), left);
    let gap = width.saturating_sub(width_of(&title) + width_of(&connection));
    Line::from(vec![
        palette.span(Tone::Heading, title),
        Span::raw(" ".repeat(gap)),
        palette.span(tone, connection),
    ])
}

/// The filters, and the numbers of DaemonSets by state, as far as they fit.
fn counts(list: &List, width: usize, palette: Palette) -> Line<'static> {
    let Some(rollouts) = &list.rollouts else {
        return palette.span(Tone::Waiting, fitted("reading the cluster …", width)).into();
    };
    let mut parts: Vec<Span<'static>> = Vec::new();
    if !list.filter.is_empty() || list.mode == Mode::Filter {
        let cursor = if list.mode == Mode::Filter { "_" } else { "" };
        let filter = format!("filter: {}{cursor}", escape::line(&list.filter));
        parts.push(palette.span(Tone::Heading, fitted(&filter, width)));
    }
    if list.states != StateFilter::All {
        parts.push(palette.span(Tone::Heading, format!("only {}", list.states.words())));
    }
    for same in rollouts.chunk_by(|a, b| a.phase == b.phase) {
        let phase = same[0].phase;
        parts.push(palette.span(tone(phase), format!("{} {phase}", same.len())));
    }
    if rollouts.is_empty() {
        parts.push(palette.span(Tone::Plain, "no DaemonSets found"));
    }
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut used = 0;
    for part in parts {
        let gap = Span::raw(if spans.is_empty() { "" } else { " · " });
        used += gap.width() + part.width();
        if used > width {
            break;
        }
        spans.extend([gap, part]);
    }
    Line::from(spans)
}

fn notes(list: &List, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let lost = match &list.connection {
        Connection::Live => None,
        Connection::Lost { cause, .. } => Some(format!("retrying: {cause}")),
    };
    let notes = lost.iter().chain(&list.notes).take(NOTES_MAX);
    let note = |note: &String| {
        let note = fitted(&escape::line(&format!("! {note}")), width);
        palette.span(Tone::Bad, note).into()
    };
    notes.map(note).collect()
}

/// The list, and the details of the selected DaemonSet if there is room.
fn body(list: &List, width: usize, room: usize, palette: Palette) -> Vec<Line<'static>> {
    let shown = list.shown();
    let details = shown.get(list.row()).map(|it| details(it, width, palette)).unwrap_or_default();
    let with_details = room > details.len() + ROWS_MIN;
    let for_rows = room.saturating_sub(if with_details { details.len() } else { 0 });
    let mut lines = rows(&shown, list.row(), width, for_rows, palette);
    if with_details && !details.is_empty() {
        lines.resize(for_rows, Line::default());
        lines.extend(details);
    }
    lines
}

/// The columns before the reason.
const COLUMNS: usize = 4;
const HEADINGS: [&str; COLUMNS] = ["STATE", "AVAILABLE", "UPDATED", "NAME"];

fn cells(rollout: &Rollout) -> [String; COLUMNS] {
    let Rollout { desired, updated, available, namespace, name, .. } = rollout;
    [
        rollout.phase.to_string(),
        format!("{available}/{desired}"),
        format!("{updated}/{desired}"),
        format!("{namespace}/{name}"),
    ]
}

/// A heading and as many rows as fit, among them the selected one.
fn rows(
    shown: &[&Rollout],
    selected: usize,
    width: usize,
    room: usize,
    palette: Palette,
) -> Vec<Line<'static>> {
    let Some(room) = room.checked_sub(1).filter(|room| *room > 0 && !shown.is_empty()) else {
        return Vec::new();
    };
    // The selected row is in the middle, except at both ends.
    let first = selected.saturating_sub(room / 2).min(shown.len().saturating_sub(room));
    let visible = &shown[first..(first + room).min(shown.len())];
    let widths = widths(visible, width);
    let mut heads: Vec<Span<'static>> = vec![Span::raw("  ")];
    for (heading, width) in HEADINGS.iter().zip(widths) {
        heads.push(palette.span(Tone::Heading, padded(heading, width)));
    }
    let range = if visible.len() < shown.len() {
        format!("{}-{} of {}", first + 1, first + visible.len(), shown.len())
    } else {
        String::new()
    };
    let used: usize = heads.iter().map(Span::width).sum();
    let room = width.saturating_sub(used);
    let reason = if room >= REASON_WIDTH_MIN { "REASON" } else { "" };
    let gap = room.saturating_sub(reason.len() + range.len());
    heads.push(palette.span(Tone::Heading, reason));
    heads.push(Span::raw(" ".repeat(gap)));
    heads.push(palette.span(Tone::Faint, fitted(&range, room)));
    let mut lines = vec![Line::from(heads)];
    for (index, rollout) in visible.iter().enumerate() {
        lines.push(row(rollout, first + index == selected, widths, width, palette));
    }
    lines
}

/// The widths of the columns. On a narrow screen there are no numbers, and the name gives way.
fn widths(visible: &[&Rollout], width: usize) -> [usize; COLUMNS] {
    let mut widths = HEADINGS.map(width_of);
    for rollout in visible {
        for (width, cell) in widths.iter_mut().zip(cells(rollout)) {
            *width = (*width).max(width_of(&escape::line(&cell)));
        }
    }
    if width < NUMBERS_WIDTH_MIN {
        widths[1..COLUMNS - 1].fill(0);
    }
    let columns = widths.iter().filter(|width| **width > 0).count();
    let others: usize = widths[..COLUMNS - 1].iter().sum::<usize>() + MARK + GAP * columns;
    let name = &mut widths[COLUMNS - 1];
    *name = (*name).min(width.saturating_sub(others));
    widths
}

fn row(
    rollout: &Rollout,
    is_selected: bool,
    widths: [usize; COLUMNS],
    width: usize,
    palette: Palette,
) -> Line<'static> {
    let tone = tone(rollout.phase);
    let mark = if is_selected { "▸ " } else { "  " };
    let mut spans = vec![palette.span(Tone::Heading, mark)];
    for (index, (cell, width)) in cells(rollout).iter().zip(widths).enumerate() {
        let tone = if index == 0 { tone } else { Tone::Plain };
        spans.push(palette.span(tone, padded(&escape::line(cell), width)));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    let room = width.saturating_sub(used);
    if room >= REASON_WIDTH_MIN {
        let reason = rollout.waits_for();
        spans.push(palette.span(tone, fitted(&escape::line(&reason), room)));
    }
    if is_selected {
        for span in &mut spans {
            span.style = span.style.add_modifier(Modifier::REVERSED);
        }
    }
    Line::from(spans)
}

/// The text cut or padded to the width, and a gap; nothing without a width.
fn padded(text: &str, width: usize) -> String {
    if width == 0 {
        return String::new();
    }
    let text = fitted(text, width);
    let gap = width + GAP - width_of(&text);
    text + &" ".repeat(gap)
}

/// The whole reason, and the command that shows more.
fn details(rollout: &Rollout, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let name = format!("{}/{}", rollout.namespace, rollout.name);
    let mut lines = vec![heading(&fitted(&escape::line(&name), width / 2), width, palette)];
    let reason = match rollout.waits_for() {
        reason if reason.is_empty() => rollout.headline(),
        reason => reason,
    };
    let reason = escape::line(&reason);
    let words: Vec<String> = reason.split_whitespace().map(|it| fitted(it, width)).collect();
    let flowed = flowed(words, width, 1, |word| width_of(word));
    let is_cut = flowed.len() > REASON_LINES_MAX;
    for (index, words) in flowed.into_iter().take(REASON_LINES_MAX).enumerate() {
        let end = if is_cut && index + 1 == REASON_LINES_MAX { " …" } else { "" };
        let text = fitted(&(words.join(" ") + end), width);
        lines.push(palette.span(tone(rollout.phase), text).into());
    }
    if rollout.phase != Phase::Done {
        let command = rollout.next_or_logs();
        let words: Vec<String> = command.split(' ').map(|it| fitted(it, width)).collect();
        for words in self::flowed(words, width, 1, |word| width_of(word)) {
            lines.push(palette.span(Tone::Faint, words.join(" ")).into());
        }
    }
    lines
}

fn footer(list: &List, width: usize, palette: Palette) -> Line<'static> {
    const KEYS: &str = "q quit · Enter watch · / filter · f state · u undo · ? help";
    let (tone, text) = match (&list.mode, &list.message) {
        (Mode::ConfirmUndo { question, .. }, _) => (Tone::Waiting, question.as_str()),
        (Mode::Filter, _) => (Tone::Faint, "Enter keeps the filter · Esc removes it"),
        (_, Some(message)) => (Tone::Waiting, message.as_str()),
        (Mode::Browse | Mode::Help, None) => (Tone::Faint, KEYS),
    };
    palette.span(tone, fitted(&escape::line(text), width)).into()
}

fn help(palette: Palette) -> Vec<Line<'static>> {
    let keys = [
        ("q, Ctrl-C", "quit"),
        ("Enter", "watch the selected DaemonSet; Esc returns"),
        ("↑ ↓, j k", "select another one"),
        ("PgUp PgDn, Space", "move by a page"),
        ("Home End, g G", "move to the beginning or end"),
        ("/", "list only names that contain a text"),
        ("f", "list all, those not done, or those that need help"),
        ("Esc", "list all again"),
        ("u", "roll back to the previous revision, after a question"),
        ("?", "show this help; any key hides it"),
    ];
    let line = |(keys, what): (&str, &str)| {
        Line::from(vec![
            palette.span(Tone::Heading, format!("{keys:<18}")),
            palette.span(Tone::Plain, what),
        ])
    };
    std::iter::once(Line::default()).chain(keys.map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::top::example;
    use everynode_core::api::DaemonSetKey;
    use expect_test::expect_file;
    use proptest::prelude::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::text::Text;

    const NO_COLOR: Palette = Palette { color: false };

    fn drawn(list: &List, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let text = Text::from(lines(list, (width, height), NO_COLOR));
        terminal.draw(|frame| frame.render_widget(text, frame.area())).unwrap();
        let mut text = format!("--- {width}x{height}\n");
        for cells in terminal.backend().buffer().content().chunks(usize::from(width)) {
            let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    #[test]
    fn a_list_on_screens_of_several_sizes() {
        let mut text = String::new();
        for size in [(120, 20), (80, 16), (60, 16), (20, 5)] {
            text += &drawn(&example::list(), size);
        }
        expect_file!["tests/list.txt"].assert_eq(&text);
    }

    #[test]
    fn a_list_in_other_moments() {
        let size = (72, 14);
        let mut text = drawn(
            &List::new("namespace infra, app=x".to_owned(), example::CLUSTER.to_owned()),
            size,
        );
        let mut list = example::list();
        list.connection = Connection::Lost { seconds: 75, cause: "refused".to_owned() };
        list.filter = "infra".to_owned();
        list.mode = Mode::Filter;
        text += &drawn(&list, size);
        list.mode = Mode::ConfirmUndo {
            key: DaemonSetKey::new("infra", "agent"),
            revision: 3,
            question: "y/n: roll back infra/agent to revision 3 (agent:1.0)?".to_owned(),
        };
        list.replace(example::many(2000), vec!["reasons are incomplete: …".to_owned()]);
        text += &drawn(&list, size);
        list.mode = Mode::Help;
        text += &drawn(&list, size);
        list.replace(Vec::new(), Vec::new());
        list.mode = Mode::Browse;
        text += &drawn(&list, size);
        expect_file!["tests/moments.txt"].assert_eq(&text);
    }

    #[test]
    fn there_are_no_colours_without_colour() {
        let all = lines(&example::list(), (100, 30), NO_COLOR);
        let mut spans = all.iter().flat_map(|line| &line.spans);
        assert!(spans.all(|span| span.style.fg.is_none() && span.style.bg.is_none()));
        let all = lines(&example::list(), (100, 30), Palette { color: true });
        let mut spans = all.iter().flat_map(|line| &line.spans);
        assert!(spans.any(|span| span.style.fg.is_some()));
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_screen(width in 30u16..200, height in 0u16..60, keys in 0..4) {
            let mut list = example::list();
            match keys {
                0 => list.mode = Mode::Filter,
                1 => list.filter = "x".repeat(300),
                2 => list.notes = vec!["y".repeat(300)],
                _ => list.message = Some("z".repeat(300)),
            }
            let lines = lines(&list, (width, height), NO_COLOR);
            prop_assert!(lines.len() <= usize::from(height));
            let fits = |line: &Line<'_>| line.width() <= usize::from(width);
            prop_assert!(lines.iter().all(fits), "{lines:?}");
        }
    }
}
