//! The dashboard: web pages about DaemonSets, for people who would rather look than read.
//!
//! - [`source`] is what the pages show and what people do on them, which the program provides from
//!   its cluster. All answers are those of `everynode-insight`.
//! - [`view`] turns answers into HTML. It decides nothing, counts nothing, and escapes every text.
//! - [`server`] serves the pages on a loopback address, to those who have its token, and keeps them
//!   up to date with server-sent events.
//! - [`report`] is one answer as a file that can be attached to a ticket.
//!
//! Nothing here reads a cluster or writes to one.
#![forbid(unsafe_code)]

pub mod report;
pub mod server;
pub mod source;
pub mod view;
