//! The name under which people call the program, for the commands that answers tell them.

use std::fmt;
use std::sync::OnceLock;

static NAME: OnceLock<&'static str> = OnceLock::new();

/// Sets the name, once and before the first answer: `kubectl everynode` as a plugin of kubectl.
pub fn is_called(name: &'static str) {
    NAME.get_or_init(|| name);
}

/// The name, by default `everynode`.
pub fn name() -> &'static str {
    NAME.get().copied().unwrap_or("everynode")
}

/// A command line of the program.
pub fn command(arguments: impl fmt::Display) -> String {
    format!("{} {arguments}", name())
}
