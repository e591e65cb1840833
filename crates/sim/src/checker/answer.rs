//! Answers that are not always known.

/// An answer that may depend on what nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    #[default]
    No,
    Maybe,
    Yes,
}
