//! Compares the help texts in docs/commands.md with the program's. `EVERYNODE_UPDATE=replace`
//! updates the page.

use std::path::Path;

use clap::CommandFactory;

use super::Arguments;

/// The width at which the page shows help texts.
const WIDTH: usize = 100;
const START: &str = "```text\n$ everynode ";
const END: &str = "```\n";

#[test]
fn the_page_shows_the_help_of_every_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (expected, shown) = with_help(&page);
    if std::env::var_os("EVERYNODE_UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            page == expected,
            "docs/commands.md is out of date: run this with EVERYNODE_UPDATE=replace"
        );
    }
    let not_for_operators = ["run", "sandbox", "completion", "version"];
    for command in Arguments::command().get_subcommands() {
        let name = command.get_name();
        if !not_for_operators.contains(&name) {
            assert!(
                shown.iter().any(|shown| shown == name),
                "docs/commands.md lacks $ everynode {name} -h"
            );
        }
    }
}

/// The page with the current help under each `$ everynode COMMAND -h`, and the commands shown.
fn with_help(page: &str) -> (String, Vec<String>) {
    let mut parts = page.split(START);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut shown = Vec::new();
    for part in parts {
        let (first, rest) = part.split_once('\n').unwrap_or((part, ""));
        text += START;
        match first.strip_suffix(" -h") {
            Some(command) => {
                let (_, after) = rest.split_once(END).expect("a block ends");
                text += &format!("{first}\n{}{END}{after}", help(command));
                shown.push(command.to_owned());
            }
            None => text += part,
        }
    }
    (text, shown)
}

/// The help of a command, such as `top` or `rollout pause`.
fn help(words: &str) -> String {
    let mut root = Arguments::command().term_width(WIDTH);
    root.build();
    let command = words.split(' ').fold(&mut root, |command, name| {
        command.find_subcommand_mut(name).expect("the page shows existing commands")
    });
    let help = command.render_help().to_string();
    let lines = help.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect::<String>().trim_end().to_owned() + "\n"
}
