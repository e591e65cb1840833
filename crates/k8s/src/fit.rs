//! The fit of a pod on a node: its constraints and requests against the free capacity of the
//! node.
//!
//! The sandbox's scheduler (S21), the admission of its kubelets (S22) and forecasts use this.
//! Checks have the order, and messages the wording, of kube-scheduler's filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::json::Json;
use crate::resources::{Resources, pod_requests, quantity_value};
use everynode_core::api::{Labels, Node, Placement};
use everynode_core::placement::{Reason, reasons_against};

/// The constraints of a pod on its node, and its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNeeds {
    /// Node name, node selector, affinity and tolerations.
    pub placement: Placement,
    /// Resources and host ports.
    pub usage: Usage,
}

/// The capacity that a pod uses on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requested resources.
    pub requests: Resources,
    /// Host ports of the containers that run for the lifetime of the pod.
    pub host_ports: Vec<HostPort>,
}

/// A port of the node that a container uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// The number of the port, greater than zero.
    pub port: u16,
    /// The address; `0.0.0.0` stands for all addresses of the node.
    pub ip: Arc<str>,
}

const EVERY_ADDRESS: &str = "0.0.0.0";

impl HostPort {
    /// True if two pods with these ports can't run on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || &*self.ip == EVERY_ADDRESS || &*other.ip == EVERY_ADDRESS)
    }
}

impl Usage {
    /// The capacity that a pod uses.
    pub fn of_pod(pod: &impl Json) -> Self {
        pod.field("spec").map(Self::of_spec).unwrap_or_default()
    }

    /// The capacity that a pod with this spec uses.
    pub fn of_spec(spec: &impl Json) -> Self {
        Self { requests: pod_requests(spec), host_ports: host_ports(spec) }
    }
}

/// The host ports of containers and sidecars: init containers end before these start.
fn host_ports<J: Json>(spec: &J) -> Vec<HostPort> {
    let initial = spec.items_at(&["initContainers"]).iter();
    let sidecars = initial.filter(|c| c.string_at(&["restartPolicy"]) == "Always");
    spec.items_at(&["containers"]).iter().chain(sidecars).flat_map(container_host_ports).collect()
}

fn container_host_ports<J: Json>(container: &J) -> impl Iterator<Item = HostPort> {
    container.items_at(&["ports"]).iter().filter_map(|port| {
        let number = port.field("hostPort").and_then(Json::unsigned)?;
        let number = u16::try_from(number).ok().filter(|port| *port > 0)?;
        let or = |found: &str, default: &'static str| -> Arc<str> {
            if found.is_empty() { default.into() } else { found.into() }
        };
        Some(HostPort {
            protocol: or(port.string_at(&["protocol"]), "TCP"),
            port: number,
            ip: or(port.string_at(&["hostIP"]), EVERY_ADDRESS),
        })
    })
}

/// A reason why a pod does not fit on a node: the kube-scheduler filter that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The node is cordoned.
    Unschedulable,
    /// `spec.nodeName` names another node.
    NodeName,
    /// The pod does not tolerate a taint.
    Taint,
    /// The node selector or the required node affinity does not match.
    Affinity,
    /// A host port is in use.
    HostPorts,
    /// A resource does not suffice.
    Insufficient(Shortage),
}

/// A resource that does not suffice: CPU in thousandths of a core, all others in whole units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Name of the resource, such as `cpu`, `pods` or `nvidia.com/gpu`.
    pub resource: Arc<str>,
    /// Amount that the pod requests.
    pub requested: i64,
    /// Amount that other pods use.
    pub used: i64,
    /// Allocatable amount of the node.
    pub capacity: i64,
}

impl Misfit {
    /// kube-scheduler's message.
    pub fn reason(&self) -> String {
        match self {
            Self::Unschedulable => "node(s) were unschedulable".to_owned(),
            Self::NodeName => "node(s) didn't match the requested node name".to_owned(),
            Self::Taint => "node(s) had untolerated taint(s)".to_owned(),
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector".to_owned(),
            Self::HostPorts => {
                "node(s) didn't have free ports for the requested pod ports".to_owned()
            }
            Self::Insufficient(shortage) if &*shortage.resource == "pods" => {
                "Too many pods".to_owned()
            }
            Self::Insufficient(shortage) => format!("Insufficient {}", shortage.resource),
        }
    }

    /// True if the pod could fit if other pods were deleted.
    pub fn could_be_resolved(&self) -> bool {
        match self {
            Self::Unschedulable | Self::NodeName | Self::Taint | Self::Affinity => false,
            Self::HostPorts => true,
            Self::Insufficient(shortage) => shortage.requested <= shortage.capacity,
        }
    }
}

/// The capacity of one node, and its use.
#[derive(Clone, Debug)]
pub struct Room {
    /// Name, labels and taints.
    pub node: Node,
    /// True if the node is cordoned.
    pub unschedulable: bool,
    allocatable: Resources,
    pods_max: i64,
    used: Resources,
    pods: i64,
    ports: BTreeMap<HostPort, u32>,
}

impl Room {
    /// The capacity of a node without pods. `object` is the raw Node.
    pub fn new(node: Node, object: &impl Json) -> Self {
        let mut room = Self {
            node,
            unschedulable: false,
            allocatable: Resources::default(),
            pods_max: 0,
            used: Resources::default(),
            pods: 0,
            ports: BTreeMap::new(),
        };
        room.read(object);
        room
    }

    /// Applies the newest version of the node; the use by its pods stays. Returns whether anything
    /// changed.
    pub fn update(&mut self, node: Node, object: &impl Json) -> bool {
        let before = (self.unschedulable, self.allocatable.clone(), self.pods_max);
        let same_node = self.node == node;
        self.node = node;
        self.read(object);
        !same_node || before != (self.unschedulable, self.allocatable.clone(), self.pods_max)
    }

    fn read(&mut self, object: &impl Json) {
        let allocatable = object.at(&["status", "allocatable"]);
        let unschedulable = object.at(&["spec", "unschedulable"]).and_then(Json::boolean);
        self.unschedulable = unschedulable == Some(true);
        self.allocatable = allocatable.map(Resources::of_list).unwrap_or_default();
        let pods_max = allocatable.and_then(|list| list.field("pods"));
        self.pods_max = pods_max.and_then(quantity_value).unwrap_or(0);
    }

    /// Number of pods on the node.
    pub fn pods(&self) -> i64 {
        self.pods
    }

    /// The allocatable amount of a resource, `pods` included.
    pub fn capacity(&self, resource: &str) -> i64 {
        if resource == "pods" { self.pods_max } else { self.allocatable.amount(resource) }
    }

    /// The amount of a resource that the pods on the node request; of `pods` their number.
    pub fn used(&self, resource: &str) -> i64 {
        if resource == "pods" { self.pods } else { self.used.amount(resource) }
    }

    /// Adds a pod.
    pub fn add(&mut self, usage: &Usage) {
        self.used.add(&usage.requests);
        self.pods += 1;
        for port in &usage.host_ports {
            *self.ports.entry(port.clone()).or_default() += 1;
        }
    }

    /// Removes a pod that was added.
    pub fn remove(&mut self, usage: &Usage) {
        self.used.subtract(&usage.requests);
        self.pods -= 1;
        for port in &usage.host_ports {
            if let Some(count) = self.ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.ports.remove(port);
                }
            }
        }
    }

    /// Why the pod does not fit on this node: the results of the first filter, in kube-scheduler's
    /// order, that fails. Empty if the pod fits.
    pub fn misfits(&self, needs: &PodNeeds) -> Vec<Misfit> {
        let placement = &needs.placement;
        if self.unschedulable && !tolerates_unschedulable(placement) {
            return vec![Misfit::Unschedulable];
        }
        match first_misfit(placement, &self.node) {
            Some(misfit) => vec![misfit],
            None => self.admission_misfits(&needs.usage),
        }
    }

    /// The same for the filters that a kubelet repeats at admission: host ports, then resources.
    pub fn admission_misfits(&self, usage: &Usage) -> Vec<Misfit> {
        let taken = |port: &HostPort| self.ports.keys().any(|used| used.conflicts(port));
        if usage.host_ports.iter().any(taken) {
            return vec![Misfit::HostPorts];
        }
        self.shortages(&usage.requests).into_iter().map(Misfit::Insufficient).collect()
    }

    fn shortages(&self, requests: &Resources) -> Vec<Shortage> {
        let mut shortages = Vec::new();
        if self.pods + 1 > self.pods_max {
            shortages.push(Shortage {
                resource: "pods".into(),
                requested: 1,
                used: self.pods,
                capacity: self.pods_max,
            });
        }
        for (resource, requested) in requests.iter().filter(|(_, requested)| *requested > 0) {
            let (used, capacity) =
                (self.used.amount(&resource), self.allocatable.amount(&resource));
            if requested > capacity - used {
                shortages.push(Shortage { resource, requested, used, capacity });
            }
        }
        shortages
    }
}

/// True if the node matches node selector and required node affinity, which a kubelet checks at
/// admission.
pub fn matches_affinity(placement: &Placement, node: &Node) -> bool {
    !reasons_against(placement, &Labels::default(), node).any(|reason| match reason {
        Reason::NodeSelector { .. } | Reason::NodeAffinity { .. } => true,
        Reason::NodeName { .. } | Reason::NamespaceNodeSelector { .. } | Reason::Taint(_) => false,
    })
}

/// The first of kube-scheduler's filters for node name, taints and affinity that fails.
fn first_misfit(placement: &Placement, node: &Node) -> Option<Misfit> {
    let no_labels = Labels::default();
    let misfits = reasons_against(placement, &no_labels, node).map(|reason| match reason {
        Reason::NodeName { .. } => (0, Misfit::NodeName),
        Reason::Taint(_) => (1, Misfit::Taint),
        Reason::NodeSelector { .. }
        | Reason::NamespaceNodeSelector { .. }
        | Reason::NodeAffinity { .. } => (2, Misfit::Affinity),
    });
    misfits.min_by_key(|(order, _)| *order).map(|(_, misfit)| misfit)
}

fn tolerates_unschedulable(placement: &Placement) -> bool {
    use everynode_core::api::{Taint, TaintEffect};
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: TaintEffect::NoSchedule,
    };
    placement.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
}
