//! Tests that need their own sandbox, because they start controllers, break connections or stop
//! nodes, and tests that need no cluster.

mod agents;
mod argo_cd;
mod bad_input;
mod causes;
mod completion;
pub(crate) mod conversation;
mod deploy;
mod faults;
mod fencing;
mod guarded;
mod half_open;
mod handover;
mod insight;
pub(crate) mod leader;
mod lifecycle;
mod limits;
mod many;
mod monitoring;
pub(crate) mod nodes;
mod on_terminal;
mod operate;
mod options;
mod outage;
pub(crate) mod placement;
mod pods;
mod proxy;
mod quick_start;
mod rights;
pub(crate) mod separate_process;
mod streams;
mod takeover;
mod watch;
