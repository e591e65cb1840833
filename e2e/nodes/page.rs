//! docs/real-nodes.md: a row for each story, which its last run wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use anyhow::{Context, Result};
use regex::Regex;

use super::fixture::Controller;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/real-nodes.md");

/// All of the page but the rows.
const HEAD: &str = "\
# On real kubelets

Each story below was played on three nodes with kubelets, containerd and runc of their own, \
against a real control plane of Kubernetes 1.36: processes on one machine with 2 cores, in \
namespaces and control groups of their own. Probes, hooks, restarts, image pulls, evictions, \
reboots and outages are genuine. They are not real machines, and a story lasts minutes, one of \
them an hour, not months.

`make e2e-nodes` plays the stories, once with everynode and once with the built-in controller, \
and writes this page; `make e2e-nodes STORY=rollout::` plays those whose names begin so, and \
replaces their rows. The environment variable `EVERYNODE_NODES` names the program that starts \
the nodes (`e2e/nodes/fixture.rs` lists its commands). A time is that after the deed before it. \
All pods of a story are recorded, and of everynode the record must show: never two pods of the \
DaemonSet on one node (except old and new one of a surge), no available pod taken away beyond \
the budget, and in the end a pod on every node. \"told\" is the time from the kubelet's \
statement until the last of `top`, `explain`, `status` and `watch` said the words, at most 5 s. \
Where the built-in controller's record shows a violation, the row says so in bold.

Not tried, because these nodes can't: clocks that jump (they share the machine's), images that \
are pulled slowly (there is no registry), several API servers behind one address, the kernel's \
choice of whom to kill when a node is out of memory, swap, and a graceful shutdown of nodes. \
What came of hundreds of nodes is in [measurements](measurements/2026-11.md), and of kubelets of \
another release in [versions](versions.md#kubernetes).

| story | what it does | everynode | the built-in controller |
|---|---|---|---|
";

/// The outcome where a story is not played.
const NOT_PLAYED: &str = "–";

struct Row {
    does: String,
    /// Of everynode and of the built-in controller.
    outcomes: [String; 2],
}

/// Replaces the outcome of a story with one controller.
pub(crate) fn write(name: &str, does: &str, controller: Controller, outcome: &str) -> Result<()> {
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(PAGE)?;
    // Stories may be played with both controllers at once, on two sets of nodes.
    file.lock()?;
    let mut page = String::new();
    file.read_to_string(&mut page)?;
    let mut rows = rows(&page);
    let stories = stories()?;
    rows.retain(|name, _| stories.contains(name));
    replace(&mut rows, name, does, controller, outcome);
    let page = written(&rows);
    file.seek(SeekFrom::Start(0))?;
    file.set_len(0)?;
    file.write_all(page.as_bytes()).context("docs/real-nodes.md")
}

fn rows(page: &str) -> BTreeMap<String, Row> {
    page.lines().filter_map(row).collect()
}

fn replace(
    rows: &mut BTreeMap<String, Row>,
    name: &str,
    does: &str,
    controller: Controller,
    outcome: &str,
) {
    let row = rows.entry(name.to_owned()).or_insert_with(|| Row {
        does: String::new(),
        outcomes: [NOT_PLAYED.to_owned(), NOT_PLAYED.to_owned()],
    });
    row.does = cell(does);
    let column = match controller {
        Controller::Everynode => 0,
        Controller::BuiltIn => 1,
    };
    row.outcomes[column] = cell(outcome);
}

fn written(rows: &BTreeMap<String, Row>) -> String {
    let lines = rows.iter().map(|(name, Row { does, outcomes: [everynode, built_in] })| {
        format!("| `{name}` | {does} | {everynode} | {built_in} |\n")
    });
    HEAD.to_owned() + &lines.collect::<String>()
}

/// The names of all stories: the tests of the files beside `night.rs`.
fn stories() -> Result<BTreeSet<String>> {
    let test = Regex::new(r"#\[tokio::test[^\]]*\]\nasync fn (\w+)")?;
    let mut stories = BTreeSet::new();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/nodes/night"))? {
        let path = file?.path();
        let text = std::fs::read_to_string(&path)?;
        let module = path.file_stem().context("a file has a name")?.to_string_lossy();
        stories.extend(test.captures_iter(&text).map(|found| format!("{module}::{}", &found[1])));
    }
    Ok(stories)
}

/// The name of a story and its row.
fn row(line: &str) -> Option<(String, Row)> {
    let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ");
    let mut next = || cells.next().map(str::to_owned);
    let name = next()?.strip_suffix('`')?.to_owned();
    Some((name, Row { does: next()?, outcomes: [next()?, next()?] }))
}

/// The text in one line, without the sign that ends a cell.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[test]
    fn a_run_replaces_the_row_of_its_story_only() {
        let (ours, upstream) = (Controller::Everynode, Controller::BuiltIn);
        let mut before = BTreeMap::new();
        replace(&mut before, "b::two", "does b", ours, "done after 1.0 s");
        replace(&mut before, "a::one", "does a", ours, "x | y\nz");
        replace(&mut before, "b::two", "does b", upstream, "not within 60 s");
        let mut after = rows(&written(&before));
        replace(&mut after, "b::two", "does c", ours, "done after 2.0 s");
        assert_eq!(
            written(&after).strip_prefix(HEAD),
            Some(
                "| `a::one` | does a | x \\| y z | – |\n\
                 | `b::two` | does c | done after 2.0 s | not within 60 s |\n"
            )
        );
    }

    #[test]
    fn the_page_has_a_row_for_each_story() -> Result<()> {
        let page = std::fs::read_to_string(PAGE)?;
        let (rows, stories): (BTreeSet<_>, _) = (rows(&page).into_keys().collect(), stories()?);
        ensure!(rows == stories, "{:?}", rows.symmetric_difference(&stories).collect::<Vec<_>>());
        ensure!(page.starts_with(HEAD), "the page was written by an older program");
        Ok(())
    }
}
