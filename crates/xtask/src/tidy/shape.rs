//! The length of a file, and the `//!` comment that opens it.

use super::is_comment;
use crate::source::Source;

/// Maximum number of lines of code of a file, and separately of its tests.
const CODE_LINES_MAX: usize = 500;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(of_file).collect()
}

fn of_file(source: &Source) -> Vec<String> {
    let path = &source.path;
    let mut problems = Vec::new();
    let code = |lines: &mut dyn Iterator<Item = (usize, &str)>| {
        lines.filter(|(_, line)| !line.trim().is_empty() && !is_comment(line)).count()
    };
    let counts = [("code", code(&mut source.product())), ("tests", code(&mut source.tests()))];
    for (what, count) in counts.into_iter().filter(|(_, count)| *count > CODE_LINES_MAX) {
        problems.push(format!("{path}: {count} lines of {what}, at most {CODE_LINES_MAX}"));
    }
    let first = source.text.lines().find(|line| !line.starts_with("#!") && !line.trim().is_empty());
    if !first.is_some_and(|line| line.starts_with("//!")) {
        problems
            .push(format!("{path}: does not open with a `//!` comment that states its purpose"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_and_a_missing_opening_are_reported() {
        let good = format!("//! What it decides.\n{}", "let a = 1;\n// why\n".repeat(500));
        assert_eq!(of_file(&Source::new("a.rs", &good)), Vec::<String>::new());
        let long = format!("//! What it decides.\n{}", "let a = 1;\n".repeat(501));
        assert_eq!(of_file(&Source::new("a.rs", &long)).len(), 1);
        assert_eq!(of_file(&Source::new("a.rs", "use std::fmt;\n")).len(), 1);
    }
}
