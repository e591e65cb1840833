//! The objects that the server makes of those it gets, and the tables it prints of them, with
//! examples of each kind.

mod admission;
mod agents;
mod defaulting;
mod printing;
