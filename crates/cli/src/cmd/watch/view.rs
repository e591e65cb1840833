//! What there is to be seen, as data: it knows no terminal, no connection and no clock.

use everynode_insight::overview::Overview;

/// One moment of the watch.
#[derive(Clone, Debug)]
pub struct View {
    /// `daemonset NAMESPACE/NAME`
    pub title: String,
    pub subject: Subject,
    pub connection: Connection,
    /// What may not be read, or makes no sense.
    pub notes: Vec<String>,
    /// The last one first.
    pub events: Vec<EventLine>,
}

#[derive(Clone, Debug)]
pub enum Subject {
    /// Not all was read yet.
    Awaited,
    Deleted,
    There(Box<Overview>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    Live,
    /// `seconds` ago the cluster was last heard of: so old is what is seen.
    Lost {
        seconds: u64,
        cause: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    pub age_seconds: u64,
    pub is_warning: bool,
    pub reason: String,
    pub message: String,
    pub count: u32,
}

/// What the person at the keyboard has moved to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// So many lines of the list of hold-ups are above its first one. More than there are show the last ones.
    pub scroll: usize,
    pub help: bool,
}
