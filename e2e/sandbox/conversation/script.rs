//! Reads and writes the transcript files.

use std::path::Path;

use anyhow::{Context, Result, ensure};

pub(crate) struct Script {
    /// The text before the first command.
    pub head: String,
    /// The versions of kubectl to which the script applies: a line `# kubectl 1.32..` of the head.
    versions: Versions,
    pub entries: Vec<Entry>,
}

/// One command and its alternative outputs.
#[derive(Default)]
pub(crate) struct Entry {
    /// The comments above the command.
    comment: String,
    versions: Versions,
    pub command: String,
    pub input: String,
    pub answers: Vec<String>,
}

/// The versions of kubectl to which a command applies.
#[derive(Clone, Copy, Default)]
struct Versions {
    from: Option<(u32, u32)>,
    to: Option<(u32, u32)>,
}

const OR: &str = "-- or --";

impl Script {
    pub(crate) fn read(path: &Path) -> Result<Script> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("read conversation {}", path.display()))?;
        let mut script =
            Script { head: String::new(), versions: Versions::default(), entries: Vec::new() };
        let mut comment = String::new();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                let comment = std::mem::take(&mut comment);
                script.entries.push(Entry::new(command, comment)?);
            } else if let Some(rest) = line.strip_prefix("## ") {
                comment.push_str(&format!("## {rest}\n"));
            } else if let Some(entry) = script.entries.last_mut() {
                entry.add(line);
            } else {
                if let Some(versions) = line.strip_prefix("# kubectl ") {
                    script.versions = Versions::parse(versions)?;
                }
                script.head.push_str(&format!("{line}\n"));
            }
        }
        for entry in &mut script.entries {
            entry.finish();
        }
        ensure!(!script.entries.is_empty(), "{} contains no command", path.display());
        Ok(script)
    }

    pub(crate) fn is_for(&self, version: (u32, u32)) -> bool {
        self.versions.contain(version)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let mut text = format!("{}\n", self.head.trim_end());
        for entry in &self.entries {
            let gap = if entry.comment.is_empty() { "" } else { "\n" };
            let comment = &entry.comment;
            text.push_str(&format!("\n{comment}{gap}$ {}{}\n", entry.versions, entry.command));
            for line in entry.input.lines() {
                text.push_str(&format!("< {line}\n"));
            }
            text.push_str(&entry.answers.join(&format!("{OR}\n")));
        }
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }
}

impl Entry {
    fn new(line: &str, comment: String) -> Result<Entry> {
        let (versions, command) =
            match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
                Some((versions, command)) => (Versions::parse(versions)?, command),
                None => (Versions::default(), line),
            };
        Ok(Entry { comment, versions, command: command.to_owned(), ..Entry::default() })
    }

    fn add(&mut self, line: &str) {
        if line == OR {
            self.answers.push(String::new());
            return;
        }
        match line.strip_prefix("< ").or((line == "<").then_some("")) {
            Some(input) => self.input.push_str(&format!("{input}\n")),
            None => {
                if self.answers.is_empty() {
                    self.answers.push(String::new());
                }
                if let Some(answer) = self.answers.last_mut() {
                    answer.push_str(&format!("{line}\n"));
                }
            }
        }
    }

    fn finish(&mut self) {
        for answer in &mut self.answers {
            let text = answer.trim_end();
            *answer = if text.is_empty() { String::new() } else { format!("{text}\n") };
        }
        if self.answers == [""] {
            self.answers.clear();
        }
    }

    pub(crate) fn is_for(&self, version: (u32, u32)) -> bool {
        self.versions.contain(version)
    }

    pub(crate) fn expects(&self, answer: &str) -> bool {
        if self.answers.is_empty() {
            return answer.is_empty();
        }
        self.answers.iter().any(|expected| expected == answer)
    }

    pub(crate) fn difference(&self, answer: &str) -> String {
        let expected = self.answers.join(&format!("{OR}\n"));
        format!("$ {}\n--- expected\n{expected}--- answered\n{answer}", self.command)
    }
}

impl Versions {
    fn contain(self, version: (u32, u32)) -> bool {
        self.from.is_none_or(|from| from <= version) && self.to.is_none_or(|to| version <= to)
    }

    /// `1.28..`, `..1.27`
    fn parse(text: &str) -> Result<Versions> {
        let (from, to) = text.split_once("..").context("a range of versions has two dots")?;
        Ok(Versions { from: version(from)?, to: version(to)? })
    }
}

fn version(text: &str) -> Result<Option<(u32, u32)>> {
    if text.is_empty() {
        return Ok(None);
    }
    let (major, minor) = text.split_once('.').context("a version has two numbers")?;
    Ok(Some((major.parse()?, minor.parse()?)))
}

impl std::fmt::Display for Versions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.from.is_none() && self.to.is_none() {
            return Ok(());
        }
        let side = |version: Option<(u32, u32)>| {
            version.map_or_else(String::new, |(major, minor)| format!("{major}.{minor}"))
        };
        write!(formatter, "[{}..{}] ", side(self.from), side(self.to))
    }
}
