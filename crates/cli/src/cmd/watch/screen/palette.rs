//! How states look: a letter or sign for each, and a colour on top where there are colours.

use everynode_insight::situation::Situation;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::output::Tone;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    pub color: bool,
}

impl Palette {
    /// Text on one line: what comes from the cluster may hold anything.
    pub fn span(self, tone: Tone, text: impl AsRef<str>) -> Span<'static> {
        let line: String =
            text.as_ref().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Span::styled(line, self.style(tone))
    }

    fn style(self, tone: Tone) -> Style {
        let color = |color| if self.color { Style::new().fg(color) } else { Style::new() };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Heading => Style::new().add_modifier(Modifier::BOLD),
            Tone::Good => color(Color::Green),
            Tone::Waiting => color(Color::Yellow),
            Tone::Bad => color(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
        }
    }
}

/// In the order in which people should look at them. A live view knows the pods, so no node just `ShouldRun`.
pub const SITUATIONS: [Situation; 12] = [
    Situation::Failing,
    Situation::Unschedulable,
    Situation::NodeNotReady,
    Situation::Missing,
    Situation::ToBeDeleted,
    Situation::NotReady,
    Situation::Terminating,
    Situation::NotYetAvailable,
    Situation::Outdated,
    Situation::Lingering,
    Situation::UpToDate,
    Situation::Excluded,
];

/// Capitals need help, small letters are on their way, signs are at rest.
pub const fn sign(situation: Situation) -> &'static str {
    match situation {
        Situation::Failing => "F",
        Situation::Unschedulable => "U",
        Situation::NodeNotReady => "N",
        Situation::Missing => "m",
        Situation::ToBeDeleted => "d",
        Situation::NotReady => "r",
        Situation::Terminating => "t",
        Situation::NotYetAvailable => "a",
        Situation::Outdated => "□",
        Situation::Lingering => "○",
        Situation::UpToDate => "■",
        Situation::ShouldRun => "=",
        Situation::Excluded => "·",
    }
}

pub const fn tone(situation: Situation) -> Tone {
    match situation {
        Situation::Failing | Situation::Unschedulable | Situation::NodeNotReady => Tone::Bad,
        Situation::Missing
        | Situation::ToBeDeleted
        | Situation::NotReady
        | Situation::Terminating
        | Situation::NotYetAvailable => Tone::Waiting,
        Situation::Outdated | Situation::ShouldRun => Tone::Plain,
        Situation::UpToDate => Tone::Good,
        Situation::Lingering | Situation::Excluded => Tone::Faint,
    }
}
