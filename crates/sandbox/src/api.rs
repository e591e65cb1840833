//! The HTTPS server of the sandbox. It interprets requests and encodes responses; the registry and
//! the store decide everything else.

pub(crate) mod access;
pub(crate) mod api_server;
pub(crate) mod authentication;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod decode;
pub(crate) mod discovery;
pub(crate) mod fault;
pub(crate) mod handler;
pub(crate) mod kubeconfig;
pub(crate) mod limits;
pub(crate) mod negotiate;
pub(crate) mod openapi;
pub(crate) mod outgoing;
pub(crate) mod percent;
pub(crate) mod protobuf;
pub(crate) mod query;
pub(crate) mod quota;
pub(crate) mod render;
pub(crate) mod resource;
pub(crate) mod respond;
pub(crate) mod review;
pub(crate) mod route;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod shared;
pub(crate) mod stall;
pub(crate) mod tls;
pub(crate) mod turns;
pub(crate) mod unwinding;
pub(crate) mod watch;
