//! The parts of the message of the condition `Progressing` that others read from it, since nothing
//! else that is stored has them: how each is written, and how it is read.

use std::fmt::{self, Display};

use crate::api::NodeName;

use super::check::{CheckStatement, CheckVerdict, StatedAnswer};
use super::wave_name::WaveName;

/// Separates the parts of a message.
const PART_SEPARATOR: &str = "; ";

/// The end of the statement that something pauses the rollout.
pub(crate) const PAUSES_ROLLOUT: &str = " pauses the rollout";

/// The beginning of the statement that no pod that pulls images can be created (G55).
pub const CANNOT_PULL: &str = "nodes cannot pull the images ahead: ";

/// The beginning of the statement that a request to change a pod in place failed (G56).
pub const CANNOT_CHANGE: &str = "pods cannot be changed in place: ";

/// The rest of the part of a message that begins so, such as why nodes [cannot pull](CANNOT_PULL).
pub fn stated_after<'a>(message: &'a str, beginning: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(beginning)?;
    rest.split(PART_SEPARATOR).next()
}

/// How the condition begins to name the nodes whose running pods cannot get their override (G57).
const WITHOUT_OVERRIDE: &str = "without the resources of their override: ";

/// The statement that the running pods of nodes cannot get their override, and why.
pub(crate) fn without_override<'a>(
    nodes: impl IntoIterator<Item = (&'a NodeName, &'a str)>,
) -> String {
    let named = nodes.into_iter().map(|(node, why)| format!("{node} ({why})"));
    format!("{WITHOUT_OVERRIDE}{}", named.collect::<Vec<_>>().join(", "))
}

/// Why the running pod of a node cannot get its override, as a message states it.
pub fn stated_without_override<'a>(message: &'a str, node: &NodeName) -> Option<&'a str> {
    let (_, named) = message.split_once(WITHOUT_OVERRIDE)?;
    let rest = match named.strip_prefix(&format!("{node} (")) {
        Some(rest) => rest,
        None => named.split_once(&format!("), {node} ("))?.1,
    };
    let end = rest.find("), ").or_else(|| rest.find("); ")).or_else(|| rest.rfind(')'));
    Some(&rest[..end.unwrap_or(rest.len())])
}

/// The state of nodes that pull images, as a message numbers them.
pub(crate) const PULLING: &str = "pulling images";

/// True if a message states that nodes pull images.
pub fn is_pulling_stated(message: &str) -> bool {
    message.contains(&format!(" {PULLING}"))
}

const WAVE: &str = "wave ";
const ALL_NODES: &str = "all nodes";
const IS_UPDATED: &str = " is updated";
const MUST_BE_APPROVED: &str = " must be approved";

/// The nodes of the wave of this name; all nodes without one.
pub(crate) fn nodes_of(wave: Option<impl Display>) -> String {
    wave.map_or_else(|| ALL_NODES.to_owned(), |name| format!("{WAVE}{name}"))
}

/// The statement that the nodes of a wave are updated; all nodes without one.
pub(crate) fn is_updated(wave: Option<&WaveName>) -> String {
    match wave {
        Some(name) => format!("{WAVE}{name}{IS_UPDATED}"),
        None => format!("{ALL_NODES} are updated"),
    }
}

/// The statement that a wave awaits its approval; after all nodes without one.
pub(crate) fn must_be_approved(wave: Option<&WaveName>) -> String {
    match wave {
        Some(name) => format!("{WAVE}{name}{MUST_BE_APPROVED}"),
        None => format!("{}: the rollout{MUST_BE_APPROVED}", is_updated(None)),
    }
}

/// True if the message is about the wave of this name that is updated; about that of all nodes
/// without one.
pub fn is_about_wave(message: &str, name: Option<&str>) -> bool {
    message.strip_prefix(&*nodes_of(name)).is_some_and(|rest| rest.starts_with(' '))
}

/// The wave that a condition's message says to be updated, or to await its approval.
pub fn stated_wave(message: &str) -> Option<&str> {
    let rest = message.strip_prefix(WAVE)?;
    let ends = [IS_UPDATED, MUST_BE_APPROVED];
    ends.iter().find_map(|end| rest.split_once(end)).map(|(name, _)| name)
}

/// The end of a condition's message that states the answers to checks, from its separator on; empty
/// if it states none. Nothing else that is stored has the answers.
pub fn statements_of_checks(message: &str) -> &str {
    message.find("; check ").map_or("", |at| &message[at..])
}

const NOT_ASKED: &str = "has no answer yet";

impl Display for CheckStatement {
    /// `check NAME VERDICT at HH:MM:SS UTC: TEXT`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check {} ", self.name)?;
        match &self.last {
            None => f.write_str(NOT_ASKED),
            Some(StatedAnswer { verdict, asked, text }) => {
                write!(f, "{} at {}: {text}", verdict.as_str(), asked.time_of_day())
            }
        }
    }
}

/// The message of a condition with these statements.
pub fn with_statements<'a>(
    message: &str,
    statements: impl Iterator<Item = &'a CheckStatement>,
) -> String {
    statements.fold(message.to_owned(), |text, it| format!("{text}{PART_SEPARATOR}{it}"))
}

/// A check as the message of a condition states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedCheck<'a> {
    /// The name of the check.
    pub name: &'a str,
    /// The verdict of the last answer, its time, such as `14:03:05 UTC`, and its text; `None`
    /// before the first.
    pub last: Option<(CheckVerdict, &'a str, &'a str)>,
}

/// The statements of a condition's message, in their order.
pub fn stated_checks(message: &str) -> impl Iterator<Item = StatedCheck<'_>> {
    message.split(PART_SEPARATOR).filter_map(|part| {
        let (name, rest) = part.strip_prefix("check ")?.split_once(' ')?;
        if rest == NOT_ASKED {
            return Some(StatedCheck { name, last: None });
        }
        let (verdict, rest) = rest.split_once(" at ")?;
        let verdict = CheckVerdict::ALL.into_iter().find(|known| known.as_str() == verdict)?;
        let (asked, text) = rest.split_once(": ")?;
        Some(StatedCheck { name, last: Some((verdict, asked, text)) })
    })
}

#[cfg(test)]
mod tests {
    use super::super::CheckAnswer;
    use super::*;
    use crate::api::Timestamp;

    /// G21: the parts of a message that only the message has are read as they are written.
    #[test]
    fn the_wave_and_the_checks_of_a_message_are_read_as_they_are_written() {
        let checks = [CheckStatement { name: "errors".into(), last: None }];
        let message = with_statements("wave a-1 is updated", checks.iter());
        assert_eq!(statements_of_checks(&message), "; check errors has no answer yet");
        assert_eq!(statements_of_checks("updating wave a-1"), "");
        let names = [Some("a-1"), Some("a"), Some("a-11"), None];
        assert_eq!(stated_wave(&message), Some("a-1"));
        assert_eq!(stated_wave("wave zones/a:10% must be approved"), Some("zones/a:10%"));
        assert_eq!(stated_wave("all nodes are updated"), None);
        let is_about = names.map(|name| is_about_wave(&message, name));
        assert_eq!(is_about, [true, false, false, false]);
    }

    /// G21: what the condition states of each check can be read back from its message.
    #[test]
    fn statements_are_read_as_they_are_written() {
        let answer =
            CheckAnswer::new(CheckVerdict::Failed, "0.5; is: above\n0.1\u{202e}\u{1b}[31m");
        assert_eq!(&*answer.text, "0.5, is: above 0.1 [31m");
        let statement = |name: &str, last| CheckStatement { name: name.into(), last };
        let asked = Timestamp::from_seconds(86_400 + 3_723);
        let last = StatedAnswer { verdict: answer.verdict, asked, text: answer.text };
        let statements = [statement("errors", Some(last)), statement("gate", None)];
        let message = with_statements("wave canary is updated", statements.iter());
        assert_eq!(
            message,
            "wave canary is updated; check errors failed at 01:02:03 UTC: 0.5, is: above 0.1 \
             [31m; check gate has no answer yet"
        );
        let message = format!("{message}; 1 node of a later wave got the new template already");
        let stated: Vec<_> = stated_checks(&message).collect();
        let last = (CheckVerdict::Failed, "01:02:03 UTC", "0.5, is: above 0.1 [31m");
        assert_eq!(
            stated,
            [
                StatedCheck { name: "errors", last: Some(last) },
                StatedCheck { name: "gate", last: None }
            ]
        );
    }
}
