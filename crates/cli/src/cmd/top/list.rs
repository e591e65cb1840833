//! The state of the live list: what was read, which DaemonSet is selected, and what the user types.
//! It knows neither terminal nor cluster.

use crossterm::event::{Event, KeyCode, KeyEventKind};
use everynode_core::api::DaemonSetKey;
use everynode_insight::rollout::{Phase, Rollout};

use crate::cmd::watch::keys::{self, Key};
use crate::cmd::watch::view::Connection;

/// The number of rows that PgUp and PgDn move by.
const PAGE_ROWS: usize = 10;

/// The live list.
pub(super) struct List {
    /// The scope of the list: `all namespaces`, or a namespace and a label selector.
    pub scope: String,
    /// The context and the server.
    pub cluster: String,
    /// All rollouts, stuck ones first; `None` before they have been read.
    pub rollouts: Option<Vec<Rollout>>,
    /// Problems of objects, and missing permissions.
    pub notes: Vec<String>,
    pub connection: Connection,
    pub states: StateFilter,
    /// Only DaemonSets whose namespace and name contain this text.
    pub filter: String,
    pub mode: Mode,
    /// The result of the last action.
    pub message: Option<String>,
    selected: Option<DaemonSetKey>,
    /// The row of the selected DaemonSet: the next one is selected when it disappears.
    row: usize,
}

/// Which states are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateFilter {
    All,
    /// Those that are not rolled out.
    Unfinished,
    /// Those that do not go on without a person.
    NeedsHelp,
}

/// The effect of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They move, and act on the selected DaemonSet.
    Browse,
    /// They edit the filter.
    Filter,
    /// The next key answers the question whether to roll back this DaemonSet to this revision.
    ConfirmUndo {
        key: DaemonSetKey,
        revision: i64,
        question: String,
    },
    Help,
}

/// The request of a key, beyond a change of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    None,
    Quit,
    /// Watch this DaemonSet.
    Watch(DaemonSetKey),
    /// Find out to which revision this DaemonSet would be rolled back.
    PrepareUndo(DaemonSetKey),
    /// Roll back this DaemonSet to this revision, which the user has confirmed.
    Undo(DaemonSetKey, i64),
}

impl StateFilter {
    /// The listed DaemonSets in the title.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::All => "all states",
            Self::Unfinished => "not done",
            Self::NeedsHelp => "needing help",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::All => Self::Unfinished,
            Self::Unfinished => Self::NeedsHelp,
            Self::NeedsHelp => Self::All,
        }
    }

    fn includes(self, phase: Phase) -> bool {
        match self {
            Self::All => true,
            Self::Unfinished => phase != Phase::Done,
            Self::NeedsHelp => match phase {
                Phase::Failing
                | Phase::Deleting
                | Phase::Unobserved
                | Phase::Paused
                | Phase::AwaitsPerson
                | Phase::AwaitsDeletion => true,
                Phase::Progressing | Phase::Done => false,
            },
        }
    }
}

impl List {
    /// A list that has not been read yet.
    pub(super) fn new(scope: String, cluster: String) -> Self {
        Self {
            scope,
            cluster,
            rollouts: None,
            notes: Vec::new(),
            connection: Connection::Live,
            states: StateFilter::All,
            filter: String::new(),
            mode: Mode::Browse,
            message: None,
            selected: None,
            row: 0,
        }
    }

    /// Replaces the rollouts. The selected DaemonSet stays selected as long as it exists.
    pub(super) fn replace(&mut self, rollouts: Vec<Rollout>, notes: Vec<String>) {
        self.rollouts = Some(rollouts);
        self.notes = notes;
        self.connection = Connection::Live;
        self.select_again();
    }

    /// The rollouts that the filters include.
    pub(super) fn shown(&self) -> Vec<&Rollout> {
        let all = self.rollouts.iter().flatten();
        let has_name = |rollout: &&Rollout| {
            let name = format!("{}/{}", rollout.namespace, rollout.name);
            name.contains(&self.filter)
        };
        all.filter(|rollout| self.states.includes(rollout.phase)).filter(has_name).collect()
    }

    /// The row of the selected DaemonSet among those shown.
    pub(super) const fn row(&self) -> usize {
        self.row
    }

    /// Performs a key as far as it concerns the list, and returns what is left to do.
    pub(super) fn handle(&mut self, event: &Event) -> Action {
        if let Some(Key::Quit) = keys::key(event)
            && (self.mode != Mode::Filter || !is_typed(event))
        {
            return Action::Quit;
        }
        let Event::Key(key) = event else { return Action::None };
        if key.kind == KeyEventKind::Release {
            return Action::None;
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Filter => {
                self.edit(key.code);
                Action::None
            }
            Mode::ConfirmUndo { key: daemon_set, revision, .. } => match key.code {
                KeyCode::Char('y' | 'Y') => Action::Undo(daemon_set, revision),
                _ => {
                    self.message = Some("not rolled back".to_owned());
                    Action::None
                }
            },
            Mode::Help => Action::None,
            Mode::Browse => self.browse(event, key.code),
        }
    }

    fn browse(&mut self, event: &Event, code: KeyCode) -> Action {
        self.message = None;
        let selected = self.selected.clone();
        match code {
            KeyCode::Enter => return selected.map_or(Action::None, Action::Watch),
            KeyCode::Char('u') => return selected.map_or(Action::None, Action::PrepareUndo),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('f') => {
                self.states = self.states.next();
                self.select_again();
            }
            _ => self.step(keys::key(event)),
        }
        Action::None
    }

    fn step(&mut self, key: Option<Key>) {
        let row = match key {
            Some(Key::Up) => self.row.saturating_sub(1),
            Some(Key::Down) => self.row + 1,
            Some(Key::PageUp) => self.row.saturating_sub(PAGE_ROWS),
            Some(Key::PageDown) => self.row + PAGE_ROWS,
            Some(Key::Home) => 0,
            Some(Key::End) => usize::MAX,
            Some(Key::Help) => {
                self.mode = Mode::Help;
                return;
            }
            Some(Key::Back) => {
                self.filter.clear();
                self.states = StateFilter::All;
                return self.select_again();
            }
            Some(Key::Quit) | None => return,
        };
        self.select(row);
    }

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                self.filter.clear();
                return self.select_again();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.mode = Mode::Filter;
        self.select_again();
    }

    /// Selects the DaemonSet of the row, or the last one.
    fn select(&mut self, row: usize) {
        let shown = self.shown();
        let row = row.min(shown.len().saturating_sub(1));
        let selected = shown.get(row).map(|rollout| key(rollout));
        (self.row, self.selected) = (row, selected);
    }

    /// Selects the same DaemonSet again, or the one that has its row now.
    fn select_again(&mut self) {
        let position = self.shown().iter().position(|it| Some(key(it)) == self.selected);
        self.select(position.unwrap_or(self.row));
    }
}

fn key(rollout: &Rollout) -> DaemonSetKey {
    DaemonSetKey::new(rollout.namespace.as_str(), rollout.name.as_str())
}

/// True if the key is a letter, which the filter takes.
fn is_typed(event: &Event) -> bool {
    use crossterm::event::KeyModifiers;
    let Event::Key(key) = event else { return false };
    matches!(key.code, KeyCode::Char(_)) && !key.modifiers.contains(KeyModifiers::CONTROL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::top::example;
    use crossterm::event::{KeyEvent, KeyModifiers};

    fn press(list: &mut List, keys: &str) -> Action {
        let mut action = Action::None;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                key => KeyCode::Char(key),
            };
            action = list.handle(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        }
        action
    }

    fn selected(list: &List) -> Option<String> {
        list.shown().get(list.row()).map(|rollout| rollout.name.clone())
    }

    #[test]
    fn the_selected_daemon_set_stays_selected_while_others_come_and_go() {
        let mut list = example::list();
        assert_eq!(selected(&list).as_deref(), Some("crasher"));
        press(&mut list, "jj");
        assert_eq!(selected(&list).as_deref(), Some("agent"));
        let mut rollouts = example::rollouts();
        rollouts.remove(0);
        list.replace(rollouts.clone(), Vec::new());
        assert_eq!(selected(&list).as_deref(), Some("agent"));
        rollouts.retain(|rollout| rollout.name != "agent");
        list.replace(rollouts, Vec::new());
        assert_eq!(list.row(), 1, "the next one is selected");
        press(&mut list, "G");
        assert_eq!(list.row() + 1, list.shown().len());
        list.replace(Vec::new(), Vec::new());
        assert_eq!(selected(&list), None);
        assert_eq!(press(&mut list, "\n"), Action::None);
    }

    #[test]
    fn filters_restrict_the_list_and_escape_removes_them() {
        let mut list = example::list();
        let all = list.shown().len();
        press(&mut list, "f");
        assert!(list.shown().iter().all(|rollout| rollout.phase != Phase::Done));
        press(&mut list, "f");
        assert!(list.shown().iter().all(|rollout| rollout.phase != Phase::Progressing));
        press(&mut list, "\u{1b}");
        assert_eq!(list.shown().len(), all);
        // A letter of the filter is no command.
        assert_eq!(press(&mut list, "/q"), Action::None);
        assert_eq!(list.shown().len(), 0);
        press(&mut list, "\u{1b}/kube-system/\n");
        assert_eq!(selected(&list).as_deref(), Some("fluentd"));
        assert_eq!(press(&mut list, "q"), Action::Quit);
    }

    #[test]
    fn a_rollback_needs_a_yes() {
        let mut list = example::list();
        let key = DaemonSetKey::new("default", "crasher");
        assert_eq!(press(&mut list, "\n"), Action::Watch(key.clone()));
        assert_eq!(press(&mut list, "u"), Action::PrepareUndo(key.clone()));
        let confirm = |key: &DaemonSetKey| Mode::ConfirmUndo {
            key: key.clone(),
            revision: 3,
            question: String::new(),
        };
        list.mode = confirm(&key);
        assert_eq!(press(&mut list, "n"), Action::None);
        assert_eq!(press(&mut list, "y"), Action::None);
        list.mode = confirm(&key);
        // Not the DaemonSet that is selected by now, but the one of the question.
        list.replace(Vec::new(), Vec::new());
        assert_eq!(press(&mut list, "y"), Action::Undo(key, 3));
    }

    #[test]
    fn control_c_quits_whatever_is_typed() {
        let event = Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        for mode in [Mode::Browse, Mode::Filter, Mode::Help] {
            let mut list = List { mode, ..example::list() };
            assert_eq!(list.handle(&event), Action::Quit);
        }
    }
}
