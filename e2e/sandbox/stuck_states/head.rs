//! The head of a state's file.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// The values of the head; see the module above.
pub(super) struct Head {
    pub title: String,
    pub group: String,
    pub made: String,
    pub sandbox: String,
    pub only: String,
    pub state: String,
    pub cause: String,
    pub says: String,
    pub nodes: usize,
    pub next: String,
    pub means: String,
}

impl Head {
    pub(super) fn read(path: &Path) -> Result<Head> {
        let text = std::fs::read_to_string(path)?;
        Self::parse(&text).with_context(|| format!("the head of {}", path.display()))
    }

    fn parse(text: &str) -> Result<Head> {
        let mut lines = text.lines().map_while(|line| line.strip_prefix("# "));
        let mut head = Head {
            title: lines.next().context("no title")?.to_owned(),
            group: String::new(),
            made: String::new(),
            sandbox: String::new(),
            only: String::new(),
            state: String::new(),
            cause: String::new(),
            says: String::new(),
            nodes: 0,
            next: String::new(),
            means: String::new(),
        };
        for line in lines {
            let (key, value) = line.split_once(": ").with_context(|| format!("{line:?}"))?;
            match key {
                "group" => head.group = value.to_owned(),
                "made" => head.made = value.to_owned(),
                "only" => head.only = value.to_owned(),
                "sandbox" => head.sandbox = value.to_owned(),
                "state" => head.state = value.to_owned(),
                "cause" => head.cause = value.to_owned(),
                "says" => head.says = value.to_owned(),
                "nodes" => head.nodes = value.parse()?,
                "next" => head.next = value.to_owned(),
                "means" => head.means = value.to_owned(),
                _ => bail!("unknown key {key}"),
            }
        }
        Ok(head)
    }
}
