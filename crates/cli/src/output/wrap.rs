//! Breaks lines that are wider than the terminal between words, as the terminal would break them
//! within words.

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

/// The indentation of the rest of a line, relative to that of the line.
const INDENT: usize = 2;

/// The text with all lines broken that are wider than `width`. Words stay whole, and so do
/// commands, so that both can be copied.
pub(super) fn wrapped(text: &str, width: u16) -> String {
    let width = usize::from(width);
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (content, end) = match line.strip_suffix('\n') {
            Some(content) => (content, "\n"),
            None => (line, ""),
        };
        if display_width(content) <= width {
            wrapped.push_str(line);
            continue;
        }
        let indent = " ".repeat(column(content, width));
        if COMMANDS.iter().any(|program| content.contains(program)) {
            wrapped.push_str(&around_commands(content, width, &indent));
            wrapped.push_str(end);
            continue;
        }
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

/// The beginnings of commands.
const COMMANDS: [&str; 2] = ["kubectl ", "everynode "];

/// The line broken before commands and after semicolons, where it would be too wide otherwise.
fn around_commands(line: &str, width: usize, indent: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    let mut rest = line;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(end_of_part(rest));
        let part_width = display_width(part.trim_end());
        if column > 0 && column + part_width > width {
            text.truncate(text.trim_end().len());
            text += "\n";
            text += indent;
            column = display_width(indent);
        }
        text += part;
        column += display_width(part);
        rest = behind;
    }
    text
}

/// The end of the first part of a line, behind which it can be broken. A command stays behind the
/// word that announces it.
fn end_of_part(line: &str) -> usize {
    let semicolon = line.find("; ").map(|at| at + 2);
    let commands = COMMANDS.iter().flat_map(|program| line.match_indices(program));
    let commands = commands.map(|(at, _)| at).filter(|at| {
        let before = &line[..*at];
        before.ends_with(": ") && !before.ends_with("try: ") && !before.ends_with("next: ")
    });
    commands.chain(semicolon).min().unwrap_or(line.len())
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
  try: kubectl create sa a; next attempt at 10:00, or at once after: kubectl delete pod agent\n\
sigterm-785/4mf8jhd-a-name-that-is-longer-than-the-line\n";
        expect![[r#"
            daemonset a/b: 3 of 4 nodes should run
              it
            3  not ready   ^[31mthe node is not ready
                           for a long time^[0m
            try: kubectl -n infra describe pod agent-x7k2p-and-more
            running, not ready (main):
              node-0001..0003, node-0005
            try: kubectl create sa a;
              next attempt at 10:00, or at once after:
              kubectl delete pod agent
            sigterm-785/4mf8jhd-a-name-that-is-longer-than-the-line
        "#]]
        .assert_eq(&wrapped(text, 38).replace('\u{1b}', "^"));
    }
}
