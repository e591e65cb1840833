//! The tests of the crate's interface, in one program.

mod causes;
mod changes;
mod course;
mod explain;
mod forecast;
mod hostile;
mod overview;
mod rollout_nodes;
mod schema;
mod suggestion;
mod support;
