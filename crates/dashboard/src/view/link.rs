//! The paths of pages, relative to that of all pages.

use everynode_core::api::{DaemonSetKey, NodeName};

use crate::source::Action;

/// The page of a DaemonSet.
pub(crate) fn daemon_set(key: &DaemonSetKey) -> String {
    format!("ds/{}/{}", encoded(key.namespace.as_str()), encoded(key.name.as_str()))
}

/// The page of a node.
pub(crate) fn node(name: &NodeName) -> String {
    format!("node/{}", encoded(name.as_str()))
}

/// The page that asks whether to do this.
pub(crate) fn action(key: &DaemonSetKey, action: Action) -> String {
    format!("{}/do/{action}", daemon_set(key))
}

/// One segment of a path.
fn encoded(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}
