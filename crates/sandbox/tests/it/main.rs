//! The tests of the crate's interface, in one program.

mod api_servers;
mod faults;
mod hostile;
mod kept;
mod limits;
mod protobuf;
mod reconciler;
mod resize;
mod rights;
mod server;
mod sizes;
mod wire;
