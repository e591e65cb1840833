//! Decoders of the watched resources. Each keeps only what decisions read.
//!
//! DaemonSets and ControllerRevisions are read in JSON, so that no field of a template is lost that
//! a newer API server knows (C2), and so are policies, which have no other form. The others are
//! read in protobuf, which costs the API server less (C82).

use std::collections::BTreeMap;

use everynode_core::api::{ConfigMap, DaemonSetKey, NamespaceNodeSelector, Node};
use everynode_k8s::convert::{
    self, DaemonSetObject, Error, Interner, NamespaceObject, PodObject, PolicyObject,
    RevisionObject,
};

use crate::watch::{Decode, Encoded};

/// Decodes nodes.
#[derive(Default)]
pub struct Nodes(Interner);

/// Decodes namespaces.
#[derive(Default)]
pub struct Namespaces {
    interner: Interner,
    has_only_labels: bool,
}

/// Decodes RolloutPolicies and ClusterRolloutPolicies.
#[derive(Default)]
pub struct Policies;

/// Decodes ConfigMaps.
#[derive(Default)]
pub struct ConfigMaps;

/// Decodes pods.
#[derive(Default)]
pub struct Pods(Interner);

/// Decodes ControllerRevisions.
#[derive(Default)]
pub struct Revisions(Interner);

/// Decodes DaemonSets. Keeps the last state of each, so that an unchanged template is not decoded
/// again.
#[derive(Default)]
pub struct DaemonSets {
    /// Each with the length of its text.
    known: BTreeMap<DaemonSetKey, (DaemonSetObject, usize)>,
    bytes: usize,
}

/// Maximum number of bytes of the DaemonSets whose last state is kept, as text: some may not exist
/// any more.
const DAEMON_SETS_BYTES_MAX: usize = 64 << 20;

impl Decode for Nodes {
    type Item = Node;

    const READS_PROTOBUF: bool = true;

    fn decode(&mut self, object: Encoded<'_>) -> Result<Node, Error> {
        match object {
            Encoded::Json(json) => convert::node(json, &mut self.0),
            Encoded::Protobuf(message) => convert::node_of_protobuf(message, &mut self.0),
        }
    }

    fn key(node: &Node) -> String {
        node.name.to_string()
    }
}

impl Namespaces {
    /// A decoder that may leave out node selectors, which then do not count (C15).
    pub fn new(has_only_labels: bool) -> Self {
        Self { interner: Interner::default(), has_only_labels }
    }
}

impl Decode for Namespaces {
    type Item = NamespaceObject;

    const READS_PROTOBUF: bool = true;

    fn decode(&mut self, object: Encoded<'_>) -> Result<NamespaceObject, Error> {
        let mut namespace = match object {
            Encoded::Json(json) => convert::namespace(json, &mut self.interner),
            Encoded::Protobuf(message) => {
                convert::namespace_of_protobuf(message, &mut self.interner)
            }
        }?;
        if self.has_only_labels {
            namespace.node_selector = NamespaceNodeSelector::default();
        }
        Ok(namespace)
    }

    fn key(namespace: &NamespaceObject) -> String {
        namespace.name.to_string()
    }
}

impl Decode for Policies {
    type Item = PolicyObject;

    fn decode(&mut self, object: Encoded<'_>) -> Result<PolicyObject, Error> {
        convert::policy_object(object.json("RolloutPolicy")?)
    }

    fn key(policy: &PolicyObject) -> String {
        policy.uid.to_string()
    }
}

impl Decode for ConfigMaps {
    type Item = ConfigMap;

    fn decode(&mut self, object: Encoded<'_>) -> Result<ConfigMap, Error> {
        convert::config_map(object.json("ConfigMap")?)
    }

    fn key(map: &ConfigMap) -> String {
        map.uid.to_string()
    }
}

impl Decode for Pods {
    type Item = PodObject;

    const READS_PROTOBUF: bool = true;

    fn decode(&mut self, object: Encoded<'_>) -> Result<PodObject, Error> {
        match object {
            Encoded::Json(json) => convert::pod(json, &mut self.0),
            Encoded::Protobuf(message) => convert::pod_of_protobuf(message, &mut self.0),
        }
    }

    fn is_foreign(pod: &PodObject) -> bool {
        match pod {
            PodObject::Pod(_) | PodObject::Puller(_) => false,
            PodObject::Foreign { .. } => true,
        }
    }

    fn key(pod: &PodObject) -> String {
        match pod {
            PodObject::Pod(pod) => pod.uid.to_string(),
            PodObject::Puller(puller) => puller.uid.to_string(),
            PodObject::Foreign { uid, .. } => uid.to_string(),
        }
    }
}

impl Decode for Revisions {
    type Item = RevisionObject;

    fn decode(&mut self, object: Encoded<'_>) -> Result<RevisionObject, Error> {
        convert::revision(object.json("ControllerRevision")?, &mut self.0)
    }

    fn is_foreign(revision: &RevisionObject) -> bool {
        match revision {
            RevisionObject::Revision { .. } => false,
            RevisionObject::Foreign { .. } => true,
        }
    }

    fn key(revision: &RevisionObject) -> String {
        match revision {
            RevisionObject::Revision { revision, .. } => revision.uid.to_string(),
            RevisionObject::Foreign { uid, .. } => uid.to_string(),
        }
    }
}

impl Decode for DaemonSets {
    type Item = DaemonSetObject;

    fn decode(&mut self, object: Encoded<'_>) -> Result<DaemonSetObject, Error> {
        let json = object.json("DaemonSet")?;
        let key = convert::meta(json)
            .ok()
            .map(|meta| DaemonSetKey::new(meta.namespace.unwrap_or_default(), meta.name));
        let previous = key.and_then(|key| self.known.get(&key)).map(|(known, _)| known);
        let daemon_set = convert::daemon_set(json, previous)?;
        if self.bytes + json.len() > DAEMON_SETS_BYTES_MAX {
            *self = Self::default();
        }
        let entry = (daemon_set.clone(), json.len());
        let replaced = self.known.insert(daemon_set.raw.key.clone(), entry);
        self.bytes += json.len();
        self.bytes -= replaced.map_or(0, |(_, bytes)| bytes);
        Ok(daemon_set)
    }

    fn key(daemon_set: &DaemonSetObject) -> String {
        daemon_set.raw.uid.to_string()
    }
}
