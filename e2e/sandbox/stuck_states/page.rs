//! docs/stuck.md has a row for each state.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, ensure};

use super::head::Head;
use super::states;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/stuck.md");

/// The line after which the page is written from the heads.
const MARK: &str = "<!-- From here on written from e2e/sandbox/stuck_states -->\n";

const GROUPS: [&str; 8] = [
    "Pods do not start, or are not ready",
    "The API server refuses the pods",
    "The scheduler finds no room",
    "No node should run a pod",
    "Nodes",
    "Rollouts",
    "Deletions",
    "Controllers and schedulers",
];

#[test]
fn the_page_lists_every_state() -> Result<()> {
    let page = std::fs::read_to_string(PAGE)?;
    let (intro, written) = page.split_once(MARK).unwrap_or((&page, ""));
    let expected = sections()?;
    if std::env::var_os("EVERYNODE_UPDATE").is_some() {
        std::fs::write(PAGE, format!("{intro}{MARK}{expected}"))?;
        return Ok(());
    }
    ensure!(written == expected, "docs/stuck.md is not current: EVERYNODE_UPDATE=replace");
    Ok(())
}

fn sections() -> Result<String> {
    let paths = states(|_| true)?;
    let heads = paths.iter().map(|path| Ok((path.as_path(), Head::read(path)?)));
    let heads: Vec<(&Path, Head)> = heads.collect::<Result<_>>()?;
    let grouped = heads.iter().filter(|(_, head)| GROUPS.contains(&head.group.as_str())).count();
    ensure!(grouped == heads.len(), "a state belongs to none of the groups");
    let mut text = String::new();
    for group in GROUPS {
        writeln!(
            text,
            "\n## {group}\n\n| state | `top` | cause | meaning | next step | in the sandbox |"
        )?;
        writeln!(text, "|---|---|---|---|---|---|")?;
        for (path, head) in heads.iter().filter(|(_, head)| head.group == group) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Head { title, made, state, cause, says, next, means, .. } = head;
            let cause = if says.is_empty() { cause.clone() } else { format!("{cause}: {says}") };
            let next = next.strip_prefix("try: ").unwrap_or(next).replace("agent-<name>", "POD");
            let [cause, next] = [&cause, &next].map(|text| code(text));
            writeln!(
                text,
                "| [{title}](../e2e/sandbox/stuck_states/{name}) | {state} | {cause} | {means} | \
                 {next} | {made} |"
            )?;
        }
    }
    Ok(text)
}

/// The text as code in a cell of a table.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}
