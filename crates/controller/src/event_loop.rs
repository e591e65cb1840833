//! The event loop: one task that owns all of the controller's state.
//!
//! [`LoopState`] takes events and returns the tasks to start; it does no I/O, so that the
//! simulation drives the same code. [`EventLoop`] feeds it and starts the tasks.

mod driver;
mod state;

pub use driver::{Decisions, EventLoop};
pub use state::{LoopState, Task};
