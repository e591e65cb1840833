//! The names of waves, by which people and orders refer to them.

use std::fmt;
use std::sync::Arc;

/// The name of a wave: `STEP`, `STEP/VALUE`, `STEP:SIZE` or `STEP/VALUE:SIZE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaveName(Arc<str>);

impl WaveName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for WaveName {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for WaveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
