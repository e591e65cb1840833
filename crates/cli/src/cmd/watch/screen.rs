//! Draws a view for a terminal of a given size. Pure functions.

mod header;
mod lists;
mod map;
mod palette;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use everynode_insight::overview::Overview;
use everynode_insight::situation::Situation;
use ratatui::text::{Line, Span};

use super::view::{Content, Position, View};
use crate::output::Tone;
pub(crate) use palette::Palette;
use text::{flowed, width_of};

/// The lines of the screen, at most `height`.
pub(crate) fn lines(
    view: &View,
    position: Position,
    (width, height): (u16, u16),
    palette: Palette,
) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(width), usize::from(height));
    let mut lines = header::lines(view, width, palette);
    lines.truncate(height);
    let has_footer = lines.len() < height;
    let room = (height - lines.len()).saturating_sub(1);
    if position.help {
        lines.extend(help(width, palette).into_iter().take(room));
    } else {
        lines.extend(body(view, position, width, room, palette));
    }
    if has_footer {
        lines.resize(height - 1, Line::default());
        lines.push(palette.span(Tone::Faint, FOOTER).into());
    }
    lines
}

/// The last line.
const FOOTER: &str = "q quit · ↑ ↓ PgUp PgDn scroll · ? help";

/// The sections below the header, each with a heading.
fn body(
    view: &View,
    position: Position,
    width: usize,
    height: usize,
    palette: Palette,
) -> Vec<Line<'static>> {
    let mut lines = lists::notes(view, width, palette);
    lines.truncate(NOTES_MAX.min(height));
    let overview = match &view.content {
        Content::Loaded(overview) => Some(overview),
        Content::Loading | Content::Deleted => None,
    };
    let revisions = overview.map(|it| lists::revisions(&it.revisions, palette)).unwrap_or_default();
    let held_up =
        overview.map(|it| lists::held_up(&it.held_up, width, palette)).unwrap_or_default();
    let events = lists::events(&view.events, width, palette);
    let legend = overview.map(|it| legend(it, width, palette)).unwrap_or_default();
    let map = overview.map_or(0, |it| map::lines_wanted(&it.zones, width));
    let [for_revisions, for_map, for_held_up, for_events] = allocate_lines(
        height - lines.len(),
        [
            LineRequest::of(revisions.len(), 2, 5),
            LineRequest::of(legend.len() + map, legend.len() + 1, usize::MAX),
            LineRequest::of(held_up.len(), 2, usize::MAX),
            LineRequest::of(events.len(), 2, 5),
        ],
    );
    lines.extend(section("revisions", &revisions, None, for_revisions, width, palette));
    if let Some(overview) = overview {
        lines.extend(nodes_section(overview, legend, for_map, width, palette));
    }
    lines.extend(section("held up", &held_up, Some(position.scroll), for_held_up, width, palette));
    lines.extend(section("events", &events, None, for_events, width, palette));
    lines
}

/// The maximum number of lines with notes.
const NOTES_MAX: usize = 4;

/// The numbers of lines that a section can use, including its heading.
#[derive(Clone, Copy)]
struct LineRequest {
    /// With fewer lines the section is omitted.
    min: usize,
    /// Lines beyond this number are allocated after those of the other sections.
    preferred: usize,
    /// All lines of the section.
    all: usize,
}

impl LineRequest {
    fn of(lines: usize, min: usize, preferred: usize) -> Self {
        let with_heading = |count: usize| if lines == 0 { 0 } else { count.min(lines) + 1 };
        Self {
            min: with_heading(min),
            preferred: with_heading(preferred),
            all: with_heading(lines),
        }
    }
}

/// Allocates lines to revisions, map, held-up list and events. The held-up list has the highest
/// priority, then the map, the revisions and the events.
fn allocate_lines(room: usize, requests: [LineRequest; 4]) -> [usize; 4] {
    const PRIORITY: [usize; 4] = [2, 1, 0, 3];
    let mut left = room;
    let mut shares = [0; 4];
    let mut grant = |share: &mut usize, up_to: usize| {
        let more = up_to.saturating_sub(*share).min(left);
        *share += more;
        left -= more;
    };
    for index in PRIORITY {
        if requests[index].min <= room.saturating_sub(shares.iter().sum()) {
            grant(&mut shares[index], requests[index].min);
        }
    }
    let [revisions, map, held_up, events] = &mut shares;
    let has = |share: &usize| *share > 0;
    if has(revisions) {
        grant(revisions, requests[0].preferred);
    }
    if has(events) {
        grant(events, requests[3].preferred);
    }
    let half = (room / 2).min(requests[2].all);
    if has(held_up) {
        grant(held_up, half);
    }
    for (share, request) in [
        (map, requests[1]),
        (held_up, requests[2]),
        (revisions, requests[0]),
        (events, requests[3]),
    ] {
        if has(share) {
            grant(share, request.all);
        }
    }
    shares
}

/// A heading and as many lines as fit. If the lines scroll, the heading has the range of those
/// shown.
fn section(
    title: &str,
    all: &[Line<'static>],
    scroll: Option<usize>,
    room: usize,
    width: usize,
    palette: Palette,
) -> Vec<Line<'static>> {
    let Some(room) = room.checked_sub(1).filter(|room| *room > 0 && !all.is_empty()) else {
        return Vec::new();
    };
    let first = scroll.unwrap_or(0).min(all.len().saturating_sub(room));
    let shown = &all[first..(first + room).min(all.len())];
    let title = if scroll.is_some() && shown.len() < all.len() {
        format!("{title} ({}-{} of {})", first + 1, first + shown.len(), all.len())
    } else {
        title.to_owned()
    };
    let mut lines = vec![heading(&title, width, palette)];
    lines.extend_from_slice(shown);
    lines
}

/// A line with a title.
pub(crate) fn heading(title: &str, width: usize, palette: Palette) -> Line<'static> {
    let rule = width.saturating_sub(width_of(title) + 4);
    Line::from(vec![
        palette.span(Tone::Faint, "── "),
        palette.span(Tone::Heading, title),
        palette.span(Tone::Faint, format!(" {}", "─".repeat(rule))),
    ])
}

fn nodes_section(
    overview: &Overview,
    legend: Vec<Line<'static>>,
    room: usize,
    width: usize,
    palette: Palette,
) -> Vec<Line<'static>> {
    let Some(room) = room.checked_sub(legend.len() + 1).filter(|room| *room > 0) else {
        return Vec::new();
    };
    let map = map::map(&overview.zones, width, room, palette);
    let title = match map.nodes_per_cell {
        1 => "nodes".to_owned(),
        nodes => format!("nodes ({nodes} per cell, which shows the worst)"),
    };
    let mut lines = vec![heading(&title, width, palette)];
    lines.extend(legend);
    lines.extend(map.lines);
    lines
}

/// The states that occur, with their counts.
fn legend(overview: &Overview, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let entries = overview.situations().into_iter().map(|(situation, count)| {
        let sign = palette.span(palette::tone(situation), palette::sign(situation));
        let text = format!(" {count} {situation}");
        (sign, palette.span(Tone::Plain, text))
    });
    let flowed = flowed(entries, width, GAP, |(sign, text)| sign.width() + text.width());
    let line = |entries: Vec<(Span<'static>, Span<'static>)>| {
        let spans = entries.into_iter().enumerate().flat_map(|(index, (sign, text))| {
            let gap = Span::raw(" ".repeat(if index > 0 { GAP } else { 0 }));
            [gap, sign, text]
        });
        Line::from(spans.collect::<Vec<_>>())
    };
    flowed.into_iter().map(line).collect()
}

const GAP: usize = 3;

/// The keys, and the signs of the map, in as many columns as fit.
fn help(width: usize, palette: Palette) -> Vec<Line<'static>> {
    const COLUMN: usize = 26;
    let keys = [
        ("q, Ctrl-C", "quit"),
        ("Ctrl-Z", "return to the shell, until fg"),
        ("Esc", "return to the list of top -w, else quit"),
        ("↑ ↓, j k", "scroll the held-up list by a line"),
        ("PgUp PgDn, Space", "scroll by a page"),
        ("Home End, g G", "scroll to the beginning or end"),
        ("?", "show or hide this help"),
    ];
    let mut lines = vec![Line::default()];
    lines.extend(keys.map(|(keys, what)| {
        Line::from(vec![
            palette.span(Tone::Heading, format!("{keys:<18}")),
            palette.span(Tone::Plain, what),
        ])
    }));
    lines.push(Line::default());
    let column = |situation: &Situation| {
        let sign = format!("{:<3}", palette::sign(*situation));
        let name = format!("{:<1$}", situation.to_string(), COLUMN - 3);
        [palette.span(palette::tone(*situation), sign), palette.span(Tone::Plain, name)]
    };
    let rows = palette::SITUATIONS.chunks((width / COLUMN).max(1));
    lines.extend(rows.map(|row| Line::from(row.iter().flat_map(column).collect::<Vec<_>>())));
    lines
}
