//! Reads and checks rules from a file or from `/debug/faults`.

use serde::Deserialize;

use super::effect::{Fault, InjectedError};
use super::matching::VERBS;
use super::table::{RULES_MAX, Rule, Schedule};
use crate::duration::Duration;
use crate::yaml;

/// Maximum length of a file of rules in bytes; a hundred rules are far shorter.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of entries in a list of a rule.
const LIST_MAX: usize = 100;
/// Maximum duration in a rule; no client waits longer for a response.
const DURATION_MAX: Duration = Duration(3_600_000);

/// An error in a file of rules; the message names the rule and its field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    faults: Vec<Rule>,
}

/// Reads rules from YAML or JSON: a list in the field `faults`.
///
/// # Errors
/// The first error, with its rule and field: `faults[2].fault.error.code: …`.
pub fn parse(text: &str) -> Result<Vec<Rule>, Error> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error(format!("faults: longer than {TEXT_BYTES_MAX} bytes")));
    }
    let document: serde_json::Value =
        yaml::document(text).map_err(|error| Error(format!("faults: {}", first_line(&error))))?;
    let file: File = serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." => Error(format!("faults: {}", error.inner())),
            path => Error(format!("{path}: {}", error.inner())),
        }
    })?;
    if file.faults.len() > RULES_MAX {
        let count = file.faults.len();
        return Err(Error(format!("faults: too many rules: {count}, the maximum is {RULES_MAX}")));
    }
    for (index, rule) in file.faults.iter().enumerate() {
        check(rule).map_err(|error| Error(format!("faults[{index}].{error}")))?;
    }
    Ok(file.faults)
}

/// The parsers append lines that show the position; one line is enough for an error message.
fn first_line(error: &impl std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

fn check(rule: &Rule) -> Result<(), String> {
    check_match(rule)?;
    let Schedule { times, every, probability, from, until } = rule.when;
    if times == Some(0) {
        return Err("when.times: must be at least 1".to_owned());
    }
    if every == Some(0) {
        return Err("when.every: must be at least 1".to_owned());
    }
    if probability.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
        return Err("when.probability: must be between 0 and 1".to_owned());
    }
    if let (Some(from), Some(until)) = (from, until)
        && from >= until
    {
        return Err(format!("when.until: must be later than when.from ({from})"));
    }
    check_fault(&rule.fault)
}

fn check_match(rule: &Rule) -> Result<(), String> {
    for (field, list) in rule.matching.lists() {
        if list.len() > LIST_MAX {
            return Err(format!("match.{field}: too many entries, the maximum is {LIST_MAX}"));
        }
        if list.iter().any(String::is_empty) && field != "namespaces" {
            return Err(format!("match.{field}: an entry is empty"));
        }
    }
    let unknown = rule.matching.verbs.iter().find(|verb| !VERBS.contains(&verb.as_str()));
    if let Some(verb) = unknown {
        let known = VERBS.join(", ");
        return Err(format!("match.verbs: unknown verb {verb:?}, expected one of {known}"));
    }
    if let Some(verb) = rule.matching.impossible_verb(&rule.fault) {
        let name = rule.fault.name();
        return Err(format!("match.verbs: the fault {name} does not apply to the verb {verb}"));
    }
    Ok(())
}

fn check_fault(fault: &Fault) -> Result<(), String> {
    let name = fault.name();
    let bounded = |field: &str, duration: Duration| {
        if duration <= DURATION_MAX {
            return Ok(());
        }
        Err(format!("fault.{name}.{field}: must not be longer than {DURATION_MAX}"))
    };
    let takes_effect = |field: &str, error: &InjectedError| {
        if !error.after_commit {
            return Ok(());
        }
        Err(format!("fault.{name}.{field}.afterCommit: only the fault error supports it"))
    };
    match fault {
        Fault::Error(_) | Fault::LoseAnswer(_) | Fault::StaleRead(_) => Ok(()),
        Fault::Cut(point) | Fault::Freeze(point) => bounded("time", point.time.unwrap_or_default()),
        Fault::CommitLate(late) => {
            bounded("after", late.after)?;
            late.error.as_ref().map_or(Ok(()), |error| takes_effect("error", error))
        }
        Fault::Stall(stall) => {
            bounded("lasts", stall.lasts)?;
            bounded("at.time", stall.at.time.unwrap_or_default())
        }
        Fault::Delay(delay) => bounded("lasts", delay.lasts),
        Fault::WatchError(end) if end.at.bytes.is_some() => {
            Err(format!("fault.{name}.at.bytes: an event can't be inserted within another"))
        }
        Fault::WatchError(end) => {
            bounded("at.time", end.at.time.unwrap_or_default())?;
            takes_effect("error", &end.error)
        }
        Fault::LateBookmark(late) => bounded("after", late.after),
        Fault::InvalidUtf8(object) if object.text.is_empty() => {
            Err(format!("fault.{name}.text: must not be empty"))
        }
        Fault::InvalidUtf8(_) => Ok(()),
        Fault::Restart(restart) => {
            bounded("down", restart.down)?;
            bounded("forbidden", restart.forbidden)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(rule: &str) -> String {
        let good = "{fault: {error: {code: 500}}}";
        let text = format!("faults:\n- {good}\n- {rule}\n");
        parse(&text).expect_err(rule).to_string()
    }

    /// S17: every fault can be written in YAML, with defaults for absent fields.
    #[test]
    fn every_fault_can_be_parsed() {
        let text = "
faults:
- match: {verbs: [delete], resources: [pods], users: ['system:serviceaccount:*']}
  when: {times: 1}
  fault: {error: {code: 500, afterCommit: true}}
- fault: {loseAnswer: {}}
- fault: {commitLate: {after: 500ms, error: {code: 504}}}
- fault: {cut: {objects: 3}}
- fault: {freeze: {bytes: 100}}
- fault: {stall: {lasts: 10s, at: {time: 1s}}}
- fault: {delay: {lasts: 1s}}
- match: {verbs: [watchlist]}
  fault: {watchError: {error: {code: 500, message: broken}}}
- fault: {lateBookmark: {after: 2s}}
- fault: {staleRead: {writesBehind: 10}}
- fault: {invalidUtf8: {namespace: other, name: a, text: pause}}
- when: {from: 10s, until: 1m}
  fault: {restart: {down: 3s, forbidden: 500ms}}
";
        let rules = parse(text).expect("good rules");
        let names: Vec<_> = rules.iter().map(|rule| rule.fault.name()).collect();
        assert_eq!(names.len(), 12);
        for rule in rules {
            let name = rule.fault.name();
            let printed = serde_json::to_value(&rule).expect("JSON");
            assert!(printed["fault"].get(name).is_some(), "{name}: {printed}");
        }
    }

    /// Invalid rules, and the start of their errors.
    const REFUSED: &[(&str, &str)] = &[
        (
            "{fault: {error: {code: abc}}}",
            "faults[1].fault.error.code: invalid type: string \"abc\", expected u16",
        ),
        (
            "{fault: {error: {code: 200}}}",
            "faults[1].fault.error.code: 200 is not an error code: expected 400 to 599",
        ),
        ("{fault: {error: {}}}", "faults[1].fault.error: missing field `code`"),
        (
            "{fault: {error: {code: 500, body: x}}}",
            "faults[1].fault.error.body: unknown field `body`",
        ),
        ("{fault: {explode: {}}}", "faults[1].fault: unknown variant `explode`"),
        ("{matches: {}, fault: {cut: {}}}", "faults[1].matches: unknown field `matches`"),
        ("{match: {verb: [get]}, fault: {cut: {}}}", "faults[1].match.verb: unknown field `verb`"),
        (
            "{match: {verbs: [fetch]}, fault: {cut: {}}}",
            "faults[1].match.verbs: unknown verb \"fetch\", expected one of get, list",
        ),
        (
            "{match: {verbs: [list]}, fault: {watchError: {error: {code: 500}}}}",
            "faults[1].match.verbs: the fault watchError does not apply to the verb list",
        ),
        (
            "{match: {verbs: [get]}, fault: {loseAnswer: {afterCommit: true}}}",
            "faults[1].match.verbs: the fault loseAnswer does not apply to the verb get",
        ),
        (
            "{match: {resources: ['']}, fault: {cut: {}}}",
            "faults[1].match.resources: an entry is empty",
        ),
        ("{when: {times: 0}, fault: {cut: {}}}", "faults[1].when.times: must be at least 1"),
        (
            "{when: {times: -1}, fault: {cut: {}}}",
            "faults[1].when.times: invalid value: integer `-1`",
        ),
        ("{when: {every: 0}, fault: {cut: {}}}", "faults[1].when.every: must be at least 1"),
        (
            "{when: {probability: 2}, fault: {cut: {}}}",
            "faults[1].when.probability: must be between 0 and 1",
        ),
        (
            "{when: {from: 2s, until: 1s}, fault: {cut: {}}}",
            "faults[1].when.until: must be later than when.from (2s)",
        ),
        (
            "{when: {from: soon}, fault: {cut: {}}}",
            "faults[1].when.from: \"soon\" is not a duration such as 300ms, 1.5s or 2m",
        ),
        (
            "{fault: {delay: {lasts: 2h}}}",
            "faults[1].fault.delay.lasts: must not be longer than 1h",
        ),
        (
            "{fault: {watchError: {error: {code: 500}, at: {bytes: 3}}}}",
            "faults[1].fault.watchError.at.bytes: an event can't be inserted within another",
        ),
        (
            "{fault: {invalidUtf8: {name: a, text: ''}}}",
            "faults[1].fault.invalidUtf8.text: must not be empty",
        ),
        (
            "{fault: {commitLate: {after: 1s, error: {code: 504, afterCommit: true}}}}",
            "faults[1].fault.commitLate.error.afterCommit: only the fault error supports it",
        ),
        ("{}", "faults[1]: missing field `fault`"),
    ];

    /// S17: an error names the index and the field of the rule.
    #[test]
    fn errors_contain_rule_index_and_field() {
        for (rule, expected) in REFUSED {
            let message = refused(rule);
            assert!(message.starts_with(expected), "{rule}: {message}");
        }
        for (text, expected) in [
            ("", "faults: "),
            ("fault: []", "fault: unknown field `fault`"),
            ("faults: 3", "faults: invalid type: integer `3`"),
            ("faults: [", "faults: "),
        ] {
            let message = parse(text).expect_err(text).to_string();
            assert!(message.starts_with(expected), "{text}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    /// S17: the length of a file of rules is limited, and so is its content after the expansion of
    /// YAML aliases.
    #[test]
    fn hostile_rules_are_refused() {
        let long = format!("faults: [] #{}", "x".repeat(TEXT_BYTES_MAX));
        assert_eq!(parse(&long), Err(Error("faults: longer than 262144 bytes".to_owned())));
        let many = "- {fault: {cut: {}}}\n".repeat(RULES_MAX + 1);
        let error = parse(&format!("faults:\n{many}")).expect_err("too many").to_string();
        assert_eq!(error, "faults: too many rules: 101, the maximum is 100");
        let verbs = "get, ".repeat(LIST_MAX + 1);
        let error = refused(&format!("{{match: {{verbs: [{verbs}]}}, fault: {{cut: {{}}}}}}"));
        assert_eq!(error, "faults[1].match.verbs: too many entries, the maximum is 100");
        assert!(parse(&"[".repeat(100_000)).is_err());
        let mut aliases = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, of) in
            ["a", "b", "c", "d", "e", "f", "g", "h"].windows(2).map(|pair| (pair[1], pair[0]))
        {
            aliases.push_str(&format!(
                "{name}: &{name} [*{of}, *{of}, *{of}, *{of}, *{of}, *{of}, *{of}]\n"
            ));
        }
        assert!(parse(&aliases).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_rules_do_not_panic(text in "\\PC*", value in "[a-z0-9:{}\\[\\], -]*") {
            let _ = parse(&text);
            let _ = parse(&format!("faults: [{{fault: {{{value}}}}}]"));
        }
    }
}
