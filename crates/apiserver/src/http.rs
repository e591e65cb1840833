//! The HTTPS server. It interprets requests and encodes responses; the registry and
//! the store decide everything else.

mod access;
mod api_server;
mod authentication;
mod body;
mod call;
mod cluster;
mod connection;
mod decode;
mod discovery;
mod fault;
mod handler;
mod limits;
mod negotiate;
mod openapi;
mod outgoing;
mod percent;
mod protobuf;
mod query;
mod quota;
mod render;
mod resource;
mod respond;
mod review;
mod route;
mod serve;
mod server;
mod shared;
mod stall;
mod start;
pub mod tls;
mod turns;
mod unwinding;
mod watch;

pub use cluster::Cluster;
pub use fault::OWN_USER_AGENT;
pub use limits::{Limits, Share};
pub use shared::{SharedCluster, now};
pub use start::{Settings, start};
pub use unwinding::is_request as panics_end_only_a_request;
