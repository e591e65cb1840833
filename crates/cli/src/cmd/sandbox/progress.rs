//! Progress while pods start, on standard error: a bar on a terminal, else lines.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::settle::PodCounts;
use crate::output;

/// The minimum time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Displays the number of available pods.
pub(crate) enum ProgressDisplay {
    Bar(ProgressBar),
    Lines { last: Option<(Instant, PodCounts)> },
}

impl ProgressDisplay {
    /// A bar if standard error is a terminal, else lines.
    pub(crate) fn new() -> ProgressDisplay {
        if !std::io::stderr().is_terminal() {
            return ProgressDisplay::Lines { last: None };
        }
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let bar = if plain { "{bar:30}" } else { "{bar:30.green}" };
        let template = format!("{bar} {{pos}}/{{len}} pods available, {{elapsed}}");
        let style = ProgressStyle::with_template(&template).expect("the template is a constant");
        ProgressDisplay::Bar(ProgressBar::new(0).with_style(style))
    }

    /// Shows the current counts.
    pub(crate) fn update(&mut self, counts: PodCounts) {
        if counts.desired == 0 {
            return;
        }
        match self {
            ProgressDisplay::Bar(bar) => {
                bar.set_length(counts.desired);
                bar.set_position(counts.available);
            }
            ProgressDisplay::Lines { last } => {
                let now = Instant::now();
                let due = last.is_none_or(|(at, before)| {
                    before != counts && now.duration_since(at) >= LINE_INTERVAL
                });
                if due {
                    let PodCounts { available, desired } = counts;
                    output::note(format_args!("{available} of {desired} pods available"));
                    *last = Some((now, counts));
                }
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        if let ProgressDisplay::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
