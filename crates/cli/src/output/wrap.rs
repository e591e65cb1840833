//! Breaks lines that are wider than the terminal between words, as the terminal would break them
//! within words.

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

/// The indentation of the rest of a line, relative to that of the line.
const INDENT: usize = 2;

/// The text with all lines broken that are wider than `width`. Words stay whole, and so do lines
/// with a command, so that both can be copied.
pub(super) fn wrapped(text: &str, width: u16) -> String {
    let width = usize::from(width);
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (content, end) = match line.strip_suffix('\n') {
            Some(content) => (content, "\n"),
            None => (line, ""),
        };
        if display_width(content) <= width || has_command(content) {
            wrapped.push_str(line);
            continue;
        }
        let indent = " ".repeat(column(content, width));
        let options = Options::new(width)
            .subsequent_indent(&indent)
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
        wrapped.push_str(&textwrap::wrap(content, options).join("\n"));
        wrapped.push_str(end);
    }
    wrapped
}

fn has_command(line: &str) -> bool {
    ["kubectl ", "everynode "].iter().any(|program| line.contains(program))
}

/// The column at which the rest of a line starts: that of its last part if parts are separated by
/// several spaces, else a little more than that of the line.
fn column(line: &str, width: usize) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let parts = line.match_indices("  ").map(|(at, gap)| at + gap.len());
    let columns = parts.map(|at| {
        let rest = line[at..].trim_start_matches(' ');
        display_width(&line[..line.len() - rest.len()])
    });
    let last = columns.filter(|column| *column > indent && *column <= width / 2).max();
    last.unwrap_or_else(|| (indent + INDENT).min(width / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn lines_are_broken_between_words() {
        let text = "\
daemonset a/b: 3 of 4 nodes should run it\n\
    3  not ready   \u{1b}[31mthe node is not ready for a long time\u{1b}[0m\n\
                   try: kubectl -n infra describe pod agent-x7k2p-and-more\n\
  running, not ready (main): node-0001..0003, node-0005\n\
sigterm-785/4mf8jhd-a-name-that-is-longer-than-the-line\n";
        expect![[r#"
            daemonset a/b: 3 of 4 nodes should run
              it
            3  not ready   ^[31mthe node is not ready
                           for a long time^[0m
            try: kubectl -n infra describe pod agent-x7k2p-and-more
            running, not ready (main):
              node-0001..0003, node-0005
            sigterm-785/4mf8jhd-a-name-that-is-longer-than-the-line
        "#]]
        .assert_eq(&wrapped(text, 38).replace('\u{1b}', "^"));
    }
}
