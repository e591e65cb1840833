//! The watch of the ConfigMaps of a namespace in which a DaemonSet has copies of some (G58). It
//! starts once one needs it, and decides nothing before its first list.

use std::sync::Arc;

use everynode_core::api::Namespace;
use futures::future::BoxFuture;

use crate::decode::ConfigMaps;
use crate::event::Event;
use crate::watch::{Resource, Watch, WatchContext};

/// Watches the ConfigMaps of a namespace until the receiver is dropped. The API server may refuse
/// to list them.
pub(crate) fn watch(
    namespace: Namespace,
    context: Arc<WatchContext<Event>>,
) -> BoxFuture<'static, ()> {
    let path = path(&namespace);
    let wrap = Box::new(move |change| {
        let namespace = namespace.clone();
        Event::ConfigMapsObserved { namespace, change }
    });
    let (resource, decoder) = (Resource { name: "configmaps", path }, ConfigMaps);
    Box::pin(Watch { resource, decoder, wrap, is_optional: true, context }.run())
}

/// The path of the ConfigMaps of a namespace.
pub(crate) fn path(namespace: &Namespace) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}
