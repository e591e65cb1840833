//! Key bindings.

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

/// An action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Quit,
    /// Back to the list from which the view was opened; else it quits.
    Back,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Help,
}

/// The action of a terminal event, if any.
pub(crate) fn key(event: &Event) -> Option<Key> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
        (KeyCode::Char('c' | 'd'), true) => Some(Key::Quit),
        (KeyCode::Char('q'), false) => Some(Key::Quit),
        (KeyCode::Esc, false) => Some(Key::Back),
        (KeyCode::Up | KeyCode::Char('k'), false) => Some(Key::Up),
        (KeyCode::Down | KeyCode::Char('j'), false) => Some(Key::Down),
        (KeyCode::PageUp, _) => Some(Key::PageUp),
        (KeyCode::PageDown | KeyCode::Char(' '), _) => Some(Key::PageDown),
        (KeyCode::Home | KeyCode::Char('g'), false) => Some(Key::Home),
        (KeyCode::End | KeyCode::Char('G'), false) => Some(Key::End),
        (KeyCode::Char('?' | 'h') | KeyCode::F(1), false) => Some(Key::Help),
        _ => None,
    }
}

/// True if the user wants the shell back for a while.
pub(crate) fn is_suspend(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    key.code == KeyCode::Char('z') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// True if the size of the terminal has changed.
pub(crate) const fn is_resize(event: &Event) -> bool {
    matches!(event, Event::Resize(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::KeyEvent;

    #[test]
    fn keys_have_the_documented_actions() {
        let press = |code, modifiers| key(&Event::Key(KeyEvent::new(code, modifiers)));
        for (code, modifiers, expected) in [
            (KeyCode::Char('q'), KeyModifiers::NONE, Some(Key::Quit)),
            (KeyCode::Esc, KeyModifiers::NONE, Some(Key::Back)),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, Some(Key::Quit)),
            (KeyCode::Char('c'), KeyModifiers::NONE, None),
            (KeyCode::Up, KeyModifiers::NONE, Some(Key::Up)),
            (KeyCode::Char('j'), KeyModifiers::NONE, Some(Key::Down)),
            (KeyCode::PageDown, KeyModifiers::NONE, Some(Key::PageDown)),
            (KeyCode::Char('G'), KeyModifiers::SHIFT, Some(Key::End)),
            (KeyCode::Char('?'), KeyModifiers::SHIFT, Some(Key::Help)),
        ] {
            assert_eq!(press(code, modifiers), expected, "{code:?} {modifiers:?}");
        }
        assert_eq!(key(&Event::Resize(1, 1)), None);
        let z = |modifiers| Event::Key(KeyEvent::new(KeyCode::Char('z'), modifiers));
        assert!(is_suspend(&z(KeyModifiers::CONTROL)) && !is_suspend(&z(KeyModifiers::NONE)));
    }
}
