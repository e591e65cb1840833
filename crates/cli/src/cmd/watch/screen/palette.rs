//! The sign and the colour of each state.

use everynode_insight::situation::Situation;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::output::{Tone, escape};

/// The colours of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    pub color: bool,
}

impl Palette {
    /// The text as one span. Control characters become visible, since texts of the cluster may
    /// contain them.
    pub(crate) fn span(self, tone: Tone, text: impl AsRef<str>) -> Span<'static> {
        Span::styled(escape::line(text.as_ref()).into_owned(), self.style(tone))
    }

    fn style(self, tone: Tone) -> Style {
        let color = |color| if self.color { Style::new().fg(color) } else { Style::new() };
        match tone {
            Tone::Plain | Tone::Names => Style::new(),
            Tone::Heading => Style::new().add_modifier(Modifier::BOLD),
            Tone::Good => color(Color::Green),
            Tone::Waiting => color(Color::Yellow),
            Tone::Bad => color(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
        }
    }
}

/// The states in order of urgency, without `ShouldRun`: a live view always reads the pods.
pub(crate) const SITUATIONS: [Situation; 14] = [
    Situation::Failing,
    Situation::Unschedulable,
    Situation::NotCreated,
    Situation::Stuck,
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

/// The sign of a state: capitals for states that need intervention, small letters for transitions,
/// other signs for stable states.
pub(crate) const fn sign(situation: Situation) -> &'static str {
    match situation {
        Situation::Failing => "F",
        Situation::Unschedulable => "U",
        Situation::NotCreated => "C",
        Situation::Stuck => "S",
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

/// The colour of a state.
pub(crate) const fn tone(situation: Situation) -> Tone {
    match situation {
        Situation::Failing
        | Situation::Unschedulable
        | Situation::NotCreated
        | Situation::Stuck
        | Situation::NodeNotReady => Tone::Bad,
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
