//! Text of a limited width.

use ratatui::text::Span;

/// The width of a text on a terminal, in columns.
pub(crate) fn width_of(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text, cut with an ellipsis if it exceeds the width.
pub(crate) fn fitted(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if width_of(&kept) + 1 > width {
            kept.pop();
            break;
        }
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Breaks a sequence of pieces into lines.
pub(crate) fn flowed<T: Clone>(
    pieces: impl IntoIterator<Item = T>,
    width: usize,
    gap: usize,
    width_of: impl Fn(&T) -> usize,
) -> Vec<Vec<T>> {
    let mut lines: Vec<Vec<T>> = Vec::new();
    let mut used = 0;
    for piece in pieces {
        let needs = width_of(&piece);
        match lines.last_mut() {
            Some(line) if used + gap + needs <= width => {
                used += gap + needs;
                line.push(piece);
            }
            _ => {
                used = needs;
                lines.push(vec![piece]);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_cut() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("abcd", 1, "…"),
            ("abcd", 0, ""),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
        ] {
            assert_eq!(fitted(text, width), expected, "{text} in {width}");
        }
    }

    #[test]
    fn pieces_flow_onto_lines() {
        let lines = flowed(["aa", "bb", "cccc", "d"], 6, 1, |piece| piece.len());
        assert_eq!(lines, [vec!["aa", "bb"], vec!["cccc", "d"]]);
        assert_eq!(flowed(["long"], 2, 1, |piece| piece.len()), [vec!["long"]]);
    }
}
