//! `everynode diff`: the differences between two pod templates of a DaemonSet.

use everynode_core::api::DaemonSetKey;
use everynode_insight::revision_diff::RevisionDiff;
use everynode_k8s::canonical::canonical;
use serde_json::Value;
use similar::{ChangeTag, DiffOp, TextDiff};

use crate::args::DiffArguments;
use crate::cluster::{Cluster, DaemonSetRevisions};
use crate::output::{self, TextLayout, Tone};

/// The minimum width of a terminal for two templates side by side.
const SIDE_BY_SIDE_WIDTH_MIN: u16 = 120;
/// The number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Separates the two sides.
const SEPARATOR: &str = " │ ";

/// Executes the command.
pub(crate) async fn execute(arguments: DiffArguments) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let revisions = DaemonSetRevisions::read(&cluster, &arguments.daemon_set).await?;
    let entries = revisions.entries(None);
    let from = revisions.target(arguments.from)?;
    let (title, to) = match arguments.to {
        Some(number) => (format!("revision {number}"), revisions.target(Some(number))?.template),
        None => ("current template".to_owned(), Some(revisions.template.clone())),
    };
    let (Some(before), Some(after)) = (&from.template, &to) else {
        anyhow::bail!("one of the revisions contains no pod template");
    };
    let titles = [format!("revision {}", from.revision), title];
    if let Some(format) = arguments.output {
        let key = DaemonSetKey::new(cluster.namespace(), arguments.daemon_set.as_str());
        let new = entries.iter().rev().find(|entry| match arguments.to {
            Some(number) => entry.revision == number,
            None => entry.current,
        });
        let diff = RevisionDiff::new(&key, (&from, before), (new, after));
        return output::print(&output::document(&diff, format)?);
    }
    let layout = TextLayout::stdout(arguments.color.color);
    output::print(&text(titles, [before, after], layout)?)
}

/// The differences in meaning, or one line if there are none.
///
/// # Errors
/// If a template can't be written as YAML.
pub(crate) fn text(
    titles: [String; 2],
    templates: [&Value; 2],
    layout: TextLayout,
) -> anyhow::Result<String> {
    let [before, after] = templates.map(|template| {
        let value: Value = serde_json::from_str(&canonical(template))?;
        output::yaml(&value)
    });
    let (before, after) = (before?, after?);
    let [from, to] = &titles;
    if before == after {
        return Ok(format!("{from} and {to} mean the same\n"));
    }
    let diff = TextDiff::from_lines(&before, &after);
    Ok(match layout.width {
        Some(width) if width >= SIDE_BY_SIDE_WIDTH_MIN => {
            side_by_side(&titles, &diff, usize::from(width), layout)
        }
        Some(_) | None => unified(&titles, &diff, layout),
    })
}

fn unified([from, to]: &[String; 2], diff: &TextDiff<'_, '_, str>, layout: TextLayout) -> String {
    let mut text = layout.paint(Tone::Heading, &format!("--- {from}")) + "\n";
    text += &(layout.paint(Tone::Heading, &format!("+++ {to}")) + "\n");
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        text += &(layout.paint(Tone::Faint, &hunk.header().to_string()) + "\n");
        for change in hunk.iter_changes() {
            let line = change.value().trim_end_matches('\n');
            let (sign, tone) = match change.tag() {
                ChangeTag::Delete => ('-', Tone::Bad),
                ChangeTag::Insert => ('+', Tone::Good),
                ChangeTag::Equal => (' ', Tone::Plain),
            };
            text += &(layout.paint(tone, &format!("{sign}{line}")) + "\n");
        }
    }
    text
}

fn side_by_side(
    [from, to]: &[String; 2],
    diff: &TextDiff<'_, '_, str>,
    width: usize,
    layout: TextLayout,
) -> String {
    let half = (width - SEPARATOR.chars().count()) / 2;
    let row = |left: (Tone, &str), right: (Tone, &str)| {
        let left = layout.paint(left.0, &fitted(left.1, half));
        let right = layout.paint(right.0, fitted(right.1, half).trim_end());
        format!("{left}{SEPARATOR}{right}").trim_end().to_owned() + "\n"
    };
    let mut text = row((Tone::Heading, from), (Tone::Heading, to));
    for (index, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if index > 0 {
            text += &row((Tone::Faint, "⋯"), (Tone::Faint, "⋯"));
        }
        for op in group {
            let (old, new) = (op.old_range(), op.new_range());
            let tones = match op {
                DiffOp::Equal { .. } => [Tone::Plain; 2],
                DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                    [Tone::Bad, Tone::Good]
                }
            };
            for offset in 0..old.len().max(new.len()) {
                let left = old.clone().nth(offset).and_then(|index| diff.old_slice(index));
                let right = new.clone().nth(offset).and_then(|index| diff.new_slice(index));
                text += &row(
                    (tones[0], left.unwrap_or_default()),
                    (tones[1], right.unwrap_or_default()),
                );
            }
        }
    }
    text
}

/// The line padded to `width` columns, or cut with an ellipsis.
fn fitted(line: &str, width: usize) -> String {
    let line = line.trim_end_matches('\n');
    if line.chars().count() > width {
        let kept: String = line.chars().take(width.saturating_sub(1)).collect();
        format!("{kept}…")
    } else {
        format!("{line:width$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    fn template(image: &str, extra: bool) -> Value {
        let mut container = json!({ "name": "agent", "image": image, "resources": {} });
        if extra {
            container["env"] = json!([{ "name": "LEVEL", "value": "debug" }]);
        }
        json!({ "metadata": { "labels": { "app": "agent" }, "creationTimestamp": null },
            "spec": { "containers": [container], "hostNetwork": true } })
    }

    fn shown(width: Option<u16>, a: &Value, b: &Value) -> String {
        let titles = ["revision 1".to_owned(), "current template".to_owned()];
        text(titles, [a, b], TextLayout { color: false, width }).unwrap()
    }

    #[test]
    fn templates_are_compared_line_by_line_when_piped() {
        let text = shown(None, &template("agent:1", false), &template("agent:2", true));
        expect![[r#"
            --- revision 1
            +++ current template
            @@ -3,6 +3,9 @@
                 app: agent
             spec:
               containers:
            -  - image: agent:1
            +  - env:
            +    - name: LEVEL
            +      value: debug
            +    image: agent:2
                 name: agent
               hostNetwork: true
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn templates_are_side_by_side_on_a_wide_terminal() {
        let text = shown(Some(120), &template("agent:1", false), &template("agent:2", true));
        expect![[r#"
            revision 1                                                 │ current template
                app: agent                                             │     app: agent
            spec:                                                      │ spec:
              containers:                                              │   containers:
              - image: agent:1                                         │   - env:
                                                                       │     - name: LEVEL
                                                                       │       value: debug
                                                                       │     image: agent:2
                name: agent                                            │     name: agent
              hostNetwork: true                                        │   hostNetwork: true
        "#]]
        .assert_eq(&text);
        assert!(text.lines().all(|line| line.chars().count() <= 120));
    }

    /// C41: templates that differ only in what old and new versions of Go write are equal.
    #[test]
    fn templates_with_the_same_meaning_have_no_differences() {
        let mut other = template("agent:1", false);
        other["spec"]["securityContext"] = json!({});
        assert_eq!(
            shown(None, &template("agent:1", false), &other),
            "revision 1 and current template mean the same\n"
        );
    }
}
