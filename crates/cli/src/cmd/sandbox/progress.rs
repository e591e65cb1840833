//! Progress while pods come up: a bar on a terminal, a line now and then when piped. Goes to standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::settle::Progress;
use crate::output;

/// When nobody watches, a line at most this often.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

pub enum Display {
    Bar(ProgressBar),
    Lines { last: Option<(Instant, Progress)> },
}

impl Display {
    pub fn new() -> Display {
        if !std::io::stderr().is_terminal() {
            return Display::Lines { last: None };
        }
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let bar = if plain { "{bar:30}" } else { "{bar:30.green}" };
        let template = format!("{bar} {{pos}}/{{len}} pods available, {{elapsed}}");
        let style = ProgressStyle::with_template(&template).expect("the template is a constant");
        Display::Bar(ProgressBar::new(0).with_style(style))
    }

    pub fn update(&mut self, progress: Progress) {
        if progress.desired == 0 {
            return;
        }
        match self {
            Display::Bar(bar) => {
                bar.set_length(progress.desired);
                bar.set_position(progress.available);
            }
            Display::Lines { last } => {
                let now = Instant::now();
                let due = last.is_none_or(|(at, before)| {
                    before != progress && now.duration_since(at) >= LINE_INTERVAL
                });
                if due {
                    let Progress { available, desired } = progress;
                    output::note(format_args!("{available} of {desired} pods available"));
                    *last = Some((now, progress));
                }
            }
        }
    }

    pub fn finish(self) {
        if let Display::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
