//! The HTTP front of the sandbox: everything between a socket and the store's calls. It decides
//! what a request means and how an answer looks on the wire; what is true, the store decides.

pub mod kubeconfig;
pub mod respond;
pub mod serve;
pub mod stall;
pub mod tls;
