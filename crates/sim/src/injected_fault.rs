//! Faults that exhaustive tests inject at a single write.

/// A fault that an exhaustive test injects at one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The leader crashes after the write, and the answer is lost.
    CrashLeader,
    /// The process of the leader is frozen after the write, or its network is cut, until another
    /// replica may lead.
    FenceLeader,
    /// The leader is stopped after the write, as by SIGTERM, and its successor is connected to an
    /// API server that is 5 s behind.
    HandOver,
    /// Watches are stalled for 20 s after the write.
    StallWatches,
    /// Watches are closed after the write, and the changes they miss are compacted.
    CompactLog,
    /// The write takes effect, and its answer is lost.
    LoseAnswer,
    /// The write takes effect and is answered with a 5xx.
    Committed5xx,
    /// Just before the write, a foreign object takes the name of the object that it changes or
    /// creates.
    TakeName,
    /// The write fails, and so do requests after it.
    Combined(CombinedFault),
}

/// The failure of a write together with failures of what the controller reads next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombinedFault {
    /// The failure of the write.
    pub write: WriteFailure,
    /// True if the next GET of an object fails.
    pub fails_next_get: bool,
    /// The failure of the leader's watches.
    pub watches: Option<WatchFailure>,
}

/// A failure of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// It has no effect and is answered with a 409.
    Conflict,
    /// It has no effect and is answered with a 500.
    InternalError,
    /// It does not arrive, and gets no answer.
    Lost,
    /// It takes effect and is answered with a 5xx.
    Committed5xx,
    /// It takes effect, and its answer is lost.
    AnswerLost,
    /// It gets no answer and takes effect 5 s later.
    LandsLate,
}

/// A failure of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFailure {
    /// They are stalled for 20 s.
    Stalled,
    /// They are closed, and the changes they miss are compacted.
    Gap,
    /// They break off and repeat earlier events when they are back.
    Repeated,
    /// They break off, and the replica reconnects to an API server that is 5 s behind.
    OlderServer,
}

impl WriteFailure {
    /// All failures of a write.
    pub const ALL: [Self; 6] = [
        Self::Conflict,
        Self::InternalError,
        Self::Lost,
        Self::Committed5xx,
        Self::AnswerLost,
        Self::LandsLate,
    ];
}

impl WatchFailure {
    /// All failures of watches.
    pub const ALL: [Self; 4] = [Self::Stalled, Self::Gap, Self::Repeated, Self::OlderServer];
}
