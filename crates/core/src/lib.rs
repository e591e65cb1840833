//! The pure decision core of everynode: observations go in, a [`Plan`](plan::Plan) of writes comes out.
//!
//! Nothing here does I/O, reads a clock, draws a random number, or knows JSON. Time is an argument,
//! objects are narrow types that hold only what a decision reads, and every collection whose order
//! could reach a decision is ordered: the same observations always give the same plan.
#![forbid(unsafe_code)]

pub mod api;
pub mod backoff;
pub mod daemon_set;
pub mod expectations;
pub mod node_table;
pub mod placement;
pub mod plan;
pub mod revisions;
