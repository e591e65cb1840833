//! The HTTP front of the sandbox: everything between a socket and the store's calls. It decides
//! what a request means and how an answer looks on the wire; what is true, the store decides.

pub mod access;
pub mod authentication;
pub mod body;
pub mod decode;
pub mod discovery;
pub mod faults;
pub mod kubeconfig;
pub mod link;
pub mod negotiate;
pub mod openapi;
pub mod percent;
pub mod protobuf;
pub mod query;
pub mod render;
pub mod resource;
pub mod respond;
pub mod review;
pub mod route;
pub mod serve;
pub mod server;
pub mod shared;
pub mod stall;
pub mod tls;
pub mod token;
pub mod watch;
