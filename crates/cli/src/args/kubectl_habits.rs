//! Forms of a command line that kubectl accepts, rewritten to those of this program:
//! `-n infra status ds agent` is `status ds/agent -n infra`.

use std::ffi::{OsStr, OsString};

use super::daemon_set_name::KINDS;

/// The options that kubectl accepts before its command. Each has a value.
const LEADING: &[&str] = &["-n", "--namespace", "--context", "--kubeconfig", "--as"];

/// The command line with options behind the command, and kind and name of a DaemonSet in one word.
/// `words` begins with the program's name.
pub(crate) fn rewritten(words: Vec<OsString>) -> Vec<OsString> {
    with_name(with_options_behind(words))
}

/// Moves options before the command to the end.
fn with_options_behind(words: Vec<OsString>) -> Vec<OsString> {
    let mut end = 1;
    while let Some(word) = words.get(end).and_then(|word| word.to_str()) {
        let is_with_value = word.split_once('=').is_some_and(|(name, _)| LEADING.contains(&name));
        match (is_with_value, LEADING.contains(&word)) {
            (true, _) => end += 1,
            (false, true) => end += 2,
            (false, false) => break,
        }
    }
    if end == 1 || end >= words.len() {
        return words;
    }
    let (program, options, rest) = (&words[..1], &words[1..end], &words[end..]);
    [program, rest, options].concat()
}

/// Joins `ds NAME` to `ds/NAME`, unless `ds` is the value of an option.
fn with_name(words: Vec<OsString>) -> Vec<OsString> {
    let is_kind = |word: &OsStr| word.to_str().is_some_and(|word| KINDS.contains(&word));
    let is_option = |word: &OsStr| word.to_string_lossy().starts_with('-');
    let at = words
        .windows(3)
        .position(|three| !is_option(&three[0]) && is_kind(&three[1]) && !is_option(&three[2]));
    let Some(at) = at else { return words };
    let mut words = words;
    let name = words.remove(at + 2);
    words[at + 1].push("/");
    words[at + 1].push(name);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_as_for_kubectl_are_rewritten() {
        for (line, expected) in [
            ("everynode status ds agent", "everynode status ds/agent"),
            (
                "everynode rollout get daemonset agent -o json",
                "everynode rollout get daemonset/agent -o json",
            ),
            ("everynode -n infra top", "everynode top -n infra"),
            (
                "everynode --context=a -n infra explain ds agent --node b",
                "everynode explain ds/agent --node b --context=a -n infra",
            ),
            // As they are.
            ("everynode status -n ds agent", "everynode status -n ds agent"),
            ("everynode status ds -n infra", "everynode status ds -n infra"),
            ("everynode status ds", "everynode status ds"),
            ("everynode status ds/agent", "everynode status ds/agent"),
            ("everynode -n infra", "everynode -n infra"),
            ("everynode -n", "everynode -n"),
            ("everynode --help", "everynode --help"),
            ("everynode", "everynode"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let words: Vec<String> =
                rewritten(words).iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(words.join(" "), expected);
        }
    }
}
