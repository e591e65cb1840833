//! The content of the live view as plain data, independent of terminal, connection and clock.

use everynode_insight::events::EventLine;
use everynode_insight::overview::Overview;

/// The view at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// `daemonset NAMESPACE/NAME`
    pub title: String,
    /// The context and the server.
    pub cluster: String,
    pub content: Content,
    pub connection: Connection,
    /// Missing permissions, and problems of the DaemonSet.
    pub notes: Vec<String>,
    /// Events, the latest first.
    pub events: Vec<EventLine>,
}

/// The state of the watched DaemonSet.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The objects have not been read completely yet.
    Loading,
    /// The DaemonSet does not exist.
    Deleted,
    /// The DaemonSet exists.
    Loaded(Box<Overview>),
}

/// The state of the connection to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// The view is up to date.
    Live,
    /// The connection is lost, and being retried.
    Lost {
        /// The time since the last update.
        seconds: u64,
        /// The error.
        cause: String,
    },
}

/// The user's position in the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The number of lines of the held-up list that are scrolled out of sight. A number beyond the
    /// end shows the last lines.
    pub scroll: usize,
    /// The help is shown.
    pub help: bool,
}
