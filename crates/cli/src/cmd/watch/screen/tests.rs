//! Screens of several sizes, compared with files. `UPDATE_EXPECT=1` updates the files.

mod picture;

use expect_test::expect_file;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::text::Text;

use super::*;
use crate::cmd::watch::example::{self, Example};

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (20, 5)];
const COLOR: Palette = Palette { color: true };
const NO_COLOR: Palette = Palette { color: false };

fn drawn(view: &View, position: Position, size: (u16, u16), palette: Palette) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let text = Text::from(lines(view, position, size, palette));
    terminal.draw(|frame| frame.render_widget(text, frame.area())).unwrap();
    terminal.backend().buffer().clone()
}

fn screen(view: &View, position: Position, (width, height): (u16, u16)) -> String {
    let buffer = drawn(view, position, (width, height), NO_COLOR);
    let mut text = format!("--- {width}x{height}\n");
    for cells in buffer.content().chunks(usize::from(width)) {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn check(example: Example, expected: expect_test::ExpectFile) {
    let view = example::view(example);
    let screens: String =
        SIZES.iter().map(|size| screen(&view, Position::default(), *size)).collect();
    expected.assert_eq(&screens);
}

#[test]
fn a_first_placement() {
    check(Example::FirstPlacement, expect_file!["tests/first_placement.txt"]);
}

#[test]
fn a_rollout_under_way() {
    check(Example::Rollout, expect_file!["tests/rollout.txt"]);
}

#[test]
fn a_rollout_that_crash_loops() {
    check(Example::CrashLoop, expect_file!["tests/crash_loop.txt"]);
}

#[test]
fn a_rollout_that_awaits_deletion() {
    check(Example::OnDelete, expect_file!["tests/on_delete.txt"]);
}

#[test]
fn a_rollout_with_surge_while_the_connection_is_lost() {
    check(Example::Surge, expect_file!["tests/surge.txt"]);
}

#[test]
fn a_rollout_that_is_done() {
    check(Example::Done, expect_file!["tests/done.txt"]);
}

#[test]
fn a_daemon_set_that_was_deleted() {
    check(Example::Deleted, expect_file!["tests/deleted.txt"]);
}

#[test]
fn five_thousand_nodes_in_forty_zones() {
    check(Example::Large, expect_file!["tests/large.txt"]);
}

/// G22: the wave, and what it waits for
#[test]
fn a_guarded_rollout_whose_canary_bakes() {
    check(Example::Guarded, expect_file!["tests/guarded.txt"]);
}

#[test]
fn without_the_right_to_read_nodes() {
    check(Example::NoNodes, expect_file!["tests/no_nodes.txt"]);
}

#[test]
fn the_list_scrolls_to_its_end_and_help_covers_it() {
    let view = example::view(Example::CrashLoop);
    let end = screen(&view, Position { scroll: usize::MAX, help: false }, (80, 24));
    let help = screen(&view, Position { scroll: 0, help: true }, (80, 30));
    expect_file!["tests/scrolled_and_help.txt"].assert_eq(&(end + &help));
}

/// A text of the cluster stays on its line, and is marked where it is cut.
#[test]
fn texts_of_the_cluster_are_visible_and_cut_visibly() {
    let mut view = example::view(Example::CrashLoop);
    let hostile = "a\u{1b}]0;title\u{7}\nb\u{202e}c ".repeat(9);
    view.title = format!("daemonset {hostile}");
    view.events[0].message = hostile.clone();
    if let Content::Loaded(overview) = &mut view.content {
        overview.held_up[0].why = hostile.clone();
        overview.held_up[0].detail = Some(hostile);
    }
    let text = screen(&view, Position::default(), (80, 40));
    assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
    let event = text.lines().find(|line| line.contains("SuccessfulCreate")).unwrap();
    assert!(event.contains("a^[]0;title^G b<U+202E>c") && event.ends_with('…'), "{event}");
}

/// Every state has its own sign, so that nothing depends on colours.
#[test]
fn states_differ_by_their_signs() {
    let signs: std::collections::BTreeSet<_> =
        palette::SITUATIONS.into_iter().map(palette::sign).collect();
    assert_eq!(signs.len(), palette::SITUATIONS.len());
    for example in Example::ALL {
        let view = example::view(example);
        let text = |palette| {
            let buffer = drawn(&view, Position::default(), (80, 24), palette);
            let symbols: String = buffer.content().iter().map(|cell| cell.symbol()).collect();
            let colors = buffer.content().iter().filter(|c| c.fg != ratatui::style::Color::Reset);
            (symbols, colors.count())
        };
        let ((colored, some), (plain, none)) = (text(COLOR), text(NO_COLOR));
        assert_eq!(colored, plain);
        assert!(some > 0 && none == 0, "{example:?}: {some} and {none} coloured cells");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every size has a screen, and no screen exceeds its size.
    #[test]
    fn every_size_has_its_screen(
        example in proptest::sample::select(Example::ALL.to_vec()),
        width in 0_u16..260,
        height in 0_u16..80,
        scroll in 0_usize..100,
        help: bool,
    ) {
        let view = example::view(example);
        let position = Position { scroll, help };
        let lines = lines(&view, position, (width, height), COLOR);
        prop_assert!(lines.len() <= usize::from(height));
        drawn(&view, position, (width, height), COLOR);
    }
}
