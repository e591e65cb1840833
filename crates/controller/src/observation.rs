//! The watched resources, and what watches and live lists report to the event loop.
//!
//! Each resource is one row of a table. Its watch, its name in metrics and in the log, its first
//! list and the paths of all requests follow from the row. ConfigMaps are watched outside the
//! table: only in namespaces where a policy copies some, so that no other one awaits their first
//! list (G58).

use std::sync::Arc;

use everynode_core::api::{DaemonSetKey, LabelSelector, Pod, ResourceVersion};
use everynode_core::plan::Watermarks;
use futures::future::BoxFuture;

use crate::decode::{DaemonSets, Namespaces, Nodes, Pods, Policies, Revisions};
use crate::watch::{Change, Decode, Resource, Watch, WatchContext};

/// The objects that a replica watches.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Watches only objects in this namespace. Nodes are watched in any case.
    pub namespace: Option<String>,
    /// True if namespaces are read for their node selectors (C15).
    pub namespace_node_selectors: bool,
    /// True if RolloutPolicies and ClusterRolloutPolicies count (G4).
    pub rollout_policies: bool,
}

/// The row of a resource.
struct Row {
    /// The path of its group and version.
    group: &'static str,
    /// The plural.
    name: &'static str,
    scope: Scope,
    need: Need,
    /// How far its watch is, if it shows the controller's own writes (C60).
    watermark: Option<fn(&mut Watermarks) -> &mut ResourceVersion>,
}

/// Where the objects of a resource are.
enum Scope {
    Cluster,
    Namespace,
    /// They are the namespaces.
    Namespaces,
}

/// The purpose of a resource.
enum Need {
    /// All decisions.
    Decisions,
    /// Policies. The server may lack the resource, or refuse to list it.
    Policies,
    /// Node selectors of namespaces, if they count. Otherwise only the labels are needed, and only
    /// by policies, which hold what they select while those are unknown.
    NodeSelectors,
}

const CORE: &str = "api/v1";
const APPS: &str = "apis/apps/v1";
const EVERYNODE: &str = "apis/everynode.dev/v1alpha1";

/// Makes the table from rows `Name: Decoder = |options| decoder => Row`, in the order in which they
/// are listed.
macro_rules! watched_resources {
    ($($(#[$doc:meta])* $name:ident: $decoder:ty = $new:expr => $row:expr;)*) => {
        /// A watched resource.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum WatchedResource {$(
            $(#[$doc])*
            $name,
        )*}

        /// A change that the watch of one resource reports.
        #[derive(Debug)]
        pub enum Observation {$(
            $(#[$doc])*
            $name(Change<<$decoder as Decode>::Item>),
        )*}

        impl WatchedResource {
            const ALL: &[Self] = &[$(Self::$name),*];

            const fn row(self) -> Row {
                match self {
                    $(Self::$name => $row,)*
                }
            }

            /// Watches the resource until the receiver is dropped.
            pub fn watch<E: From<Observation> + Send + 'static>(
                self,
                options: &WatchOptions,
                context: Arc<WatchContext<E>>,
            ) -> BoxFuture<'static, ()> {
                let (resource, is_optional) = (self.resource(options), self.is_optional(options));
                match self {$(
                    Self::$name => {
                        let new: fn(&WatchOptions) -> $decoder = $new;
                        let wrap = Box::new(|change| Observation::$name(change).into());
                        let decoder = new(options);
                        Box::pin(Watch { resource, decoder, wrap, is_optional, context }.run())
                    }
                )*}
            }
        }

        impl Observation {
            /// The resource.
            pub const fn resource(&self) -> WatchedResource {
                match self {
                    $(Self::$name(_) => WatchedResource::$name,)*
                }
            }

            /// The change without its objects.
            pub fn change(&self) -> Change<()> {
                match self {
                    $(Self::$name(change) => change.without_objects(),)*
                }
            }
        }
    };
}

watched_resources! {
    /// Nodes.
    Node: Nodes = |_| Nodes::default() => Row {
        group: CORE, name: "nodes", scope: Scope::Cluster,
        need: Need::Decisions, watermark: None,
    };
    /// DaemonSets.
    DaemonSet: DaemonSets = |_| DaemonSets::default() => Row {
        group: APPS, name: "daemonsets", scope: Scope::Namespace,
        need: Need::Decisions, watermark: Some(|of| &mut of.daemon_sets),
    };
    /// ControllerRevisions.
    Revision: Revisions = |_| Revisions::default() => Row {
        group: APPS, name: "controllerrevisions", scope: Scope::Namespace,
        need: Need::Decisions, watermark: Some(|of| &mut of.revisions),
    };
    /// Namespaces.
    Namespace: Namespaces = |options| Namespaces::new(!options.namespace_node_selectors) => Row {
        group: CORE, name: "namespaces", scope: Scope::Namespaces,
        need: Need::NodeSelectors, watermark: None,
    };
    /// RolloutPolicies.
    RolloutPolicy: Policies = |_| Policies => Row {
        group: EVERYNODE, name: "rolloutpolicies", scope: Scope::Namespace,
        need: Need::Policies, watermark: None,
    };
    /// ClusterRolloutPolicies.
    ClusterRolloutPolicy: Policies = |_| Policies => Row {
        group: EVERYNODE, name: "clusterrolloutpolicies", scope: Scope::Cluster,
        need: Need::Policies, watermark: None,
    };
    /// Pods.
    Pod: Pods = |_| Pods::default() => Row {
        group: CORE, name: "pods", scope: Scope::Namespace,
        need: Need::Decisions, watermark: Some(|of| &mut of.pods),
    };
}

impl WatchedResource {
    /// The resource that is listed after all others: only then is it known which orphans a
    /// DaemonSet selects.
    pub const LAST: Self = Self::Pod;

    /// The resources that are listed before any decision (C1).
    pub fn initial(options: &WatchOptions) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|resource| match resource.row().need {
            Need::Decisions => true,
            Need::Policies => options.rollout_policies,
            Need::NodeSelectors => options.namespace_node_selectors,
        })
    }

    /// The plural, for metrics and the log.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The path of the objects in a namespace, or of all.
    pub fn path(self, namespace: Option<&str>) -> String {
        let Row { group, name, scope, .. } = self.row();
        match (scope, namespace) {
            (Scope::Namespace, Some(namespace)) => {
                format!("/{group}/namespaces/{namespace}/{name}")
            }
            (Scope::Namespaces, Some(namespace)) => {
                format!("/{group}/{name}?fieldSelector=metadata.name%3D{namespace}")
            }
            (Scope::Cluster, _) | (Scope::Namespace | Scope::Namespaces, None) => {
                format!("/{group}/{name}")
            }
        }
    }

    /// How far its watch is, if it shows the controller's own writes.
    pub(crate) fn watermark(self, watermarks: &mut Watermarks) -> Option<&mut ResourceVersion> {
        self.row().watermark.map(|of| of(watermarks))
    }

    fn resource(self, options: &WatchOptions) -> Resource {
        Resource { name: self.name(), path: self.path(options.namespace.as_deref()) }
    }

    /// True if the server may lack the resource, or refuse to list it.
    const fn is_optional(self, options: &WatchOptions) -> bool {
        match self.row().need {
            Need::Decisions => false,
            Need::Policies => true,
            Need::NodeSelectors => !options.namespace_node_selectors,
        }
    }
}

/// A request to list the orphan pods that a new DaemonSet may adopt.
#[derive(Clone, Debug, PartialEq)]
pub struct OrphanListRequest {
    /// The DaemonSet that waits for the list.
    pub key: DaemonSetKey,
    /// Its selector, which is never empty.
    pub selector: LabelSelector,
}

/// The answer to an [`OrphanListRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct OrphanPods {
    /// The DaemonSet that waits for the list.
    pub key: DaemonSetKey,
    /// The pods that match its selector, except those that another kind of controller owns.
    pub pods: Vec<Pod>,
    /// The highest resourceVersion among them.
    pub version: ResourceVersion,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C1: the order of the first lists, and their paths in one namespace.
    #[test]
    fn every_resource_has_its_path() {
        let options = WatchOptions {
            namespace: Some("a".to_owned()),
            namespace_node_selectors: true,
            rollout_policies: true,
        };
        let listed = WatchedResource::initial(&options);
        let paths: Vec<String> = listed.map(|listed| listed.resource(&options).path).collect();
        let expected = [
            "/api/v1/nodes",
            "/apis/apps/v1/namespaces/a/daemonsets",
            "/apis/apps/v1/namespaces/a/controllerrevisions",
            "/api/v1/namespaces?fieldSelector=metadata.name%3Da",
            "/apis/everynode.dev/v1alpha1/namespaces/a/rolloutpolicies",
            "/apis/everynode.dev/v1alpha1/clusterrolloutpolicies",
            "/api/v1/namespaces/a/pods",
        ];
        assert_eq!(paths, expected);
        assert_eq!(WatchedResource::Namespace.path(None), "/api/v1/namespaces");
    }
}
