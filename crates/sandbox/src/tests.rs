//! What the server makes of an object, and what it prints of it, by tables with examples of each
//! kind.

mod admission;
mod agents;
mod defaulting;
mod printing;
