//! The store: every object of the cluster, one growing resourceVersion, and a bounded log of changes per kind.

mod object;
mod status;

pub use object::{Object, OwnerReference, text};
pub use status::{Details, Failure, Reason, Status, StatusCause};
