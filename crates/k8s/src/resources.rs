//! Amounts of resources: the requests of pods and the allocatable amounts of nodes.

use std::sync::Arc;

use crate::json::Json;
use crate::quantity::Quantity;

/// Amounts by resource: CPU in thousandths of a core, all others in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    cpu_millis: i64,
    memory: i64,
    ephemeral_storage: i64,
    /// All others, such as `nvidia.com/gpu` and `hugepages-2Mi`, in the order of their names.
    scalars: Vec<(Arc<str>, i64)>,
}

impl Resources {
    /// Reads a `ResourceList`. `pods` is skipped; a malformed amount counts as zero.
    pub fn of_list(list: &impl Json) -> Self {
        let mut resources = Self::default();
        for (name, value) in list.fields() {
            let Some(quantity) = read(value) else { continue };
            match name {
                "cpu" => resources.cpu_millis = quantity.milli_value(),
                "memory" => resources.memory = quantity.value(),
                "ephemeral-storage" => resources.ephemeral_storage = quantity.value(),
                "pods" => {}
                _ => resources.scalars.push((name.into(), quantity.value())),
            }
        }
        resources.scalars.sort();
        resources
    }

    /// Every resource with its amount, in kube-scheduler's order.
    pub fn iter(&self) -> impl Iterator<Item = (Arc<str>, i64)> {
        [
            ("cpu", self.cpu_millis),
            ("memory", self.memory),
            ("ephemeral-storage", self.ephemeral_storage),
        ]
        .into_iter()
        .filter(|(_, amount)| *amount != 0)
        .map(|(name, amount)| (Arc::from(name), amount))
        .chain(self.scalars.iter().cloned())
    }

    /// The amount of one resource; zero if it is not listed.
    pub fn amount(&self, resource: &str) -> i64 {
        match resource {
            "cpu" => self.cpu_millis,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            _ => self.scalars.iter().find(|(name, _)| &**name == resource).map_or(0, |(_, n)| *n),
        }
    }

    /// Adds the amounts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Subtracts the amounts of `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
    }

    /// Raises each amount to that of `other` if that is larger.
    pub fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, with: fn(i64, i64) -> i64) {
        self.cpu_millis = with(self.cpu_millis, other.cpu_millis);
        self.memory = with(self.memory, other.memory);
        self.ephemeral_storage = with(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            match self.scalars.binary_search_by(|(known, _)| known.cmp(name)) {
                Ok(at) => self.scalars[at].1 = with(self.scalars[at].1, *amount),
                Err(at) => self.scalars.insert(at, (name.clone(), with(0, *amount))),
            }
        }
    }

    /// Replaces CPU and memory by the amounts in `list`, if it contains them (pod-level requests).
    fn replace(&mut self, list: &impl Json) {
        let given = Self::of_list(list);
        if list.field("cpu").is_some() {
            self.cpu_millis = given.cpu_millis;
        }
        if list.field("memory").is_some() {
            self.memory = given.memory;
        }
    }
}

fn read(value: &impl Json) -> Option<Quantity> {
    Quantity::of_json(value).ok()
}

/// A quantity in whole units; `None` if it is malformed.
pub fn quantity_value(value: &impl Json) -> Option<i64> {
    read(value).map(|quantity| quantity.value())
}

/// The requests of a pod with this spec: the sum of its containers and sidecars, or the requests of
/// an init container and the sidecars before it, whichever is larger, plus the overhead. Upstream:
/// `PodRequests`.
pub fn pod_requests<J: Json>(spec: &J) -> Resources {
    let list = |of: &J, path: &[&str]| of.at(path).map(Resources::of_list).unwrap_or_default();
    let requests = |container: &J| list(container, &["resources", "requests"]);
    let mut total = Resources::default();
    for container in spec.items_at(&["containers"]) {
        total.add(&requests(container));
    }
    let mut sidecars = Resources::default();
    let mut initial = Resources::default();
    for container in spec.items_at(&["initContainers"]) {
        let mut needed = requests(container);
        if container.string_at(&["restartPolicy"]) == "Always" {
            total.add(&needed);
            sidecars.add(&needed);
            initial.raise_to(&sidecars);
        } else {
            needed.add(&sidecars);
            initial.raise_to(&needed);
        }
    }
    total.raise_to(&initial);
    if let Some(own) = spec.at(&["resources", "requests"]) {
        total.replace(own);
    }
    total.add(&list(spec, &["overhead"]));
    total
}

/// The quality of service class of a pod or a template: `Guaranteed` if every container's requests
/// for CPU and memory equal its limits, `BestEffort` if no container has any, else `Burstable`. The
/// resources of a pod as a whole count instead, if it has any. Upstream: `ComputePodQOS`.
pub fn qos_class<J: Json>(pod: &J) -> &'static str {
    let has_any = |list: &&str| {
        pod.at(&["spec", "resources", list]).is_some_and(|list| list.fields().next().is_some())
    };
    let of_pod = ["requests", "limits"].iter().any(has_any).then(|| pod.field("spec")).flatten();
    let lists = ["initContainers", "containers"];
    let containers = lists.into_iter().flat_map(|list| pod.items_at(&["spec", list]));
    let containers = containers.filter(|_| of_pod.is_none());
    let (mut any, mut is_guaranteed) = (false, true);
    for owner in of_pod.into_iter().chain(containers) {
        for resource in ["cpu", "memory"] {
            let amount = |list| {
                let amount = owner.at(&["resources", list, resource])?;
                Quantity::of_json(amount).ok()
            };
            let request = amount("requests");
            let limit = amount("limits").filter(|limit| !limit.is_zero());
            any |= limit.is_some() || request.is_some_and(|request| !request.is_zero());
            // A request of zero is none, but the limit does not become the request then.
            is_guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    /// S21: requests of containers, init containers, sidecars, overhead and the pod itself.
    #[test]
    fn requests_add_up_as_upstream_adds_them() {
        for (what, spec, expected) in [
            ("none", json!({"containers": [{}]}), 0),
            ("containers", json!({"containers": [container("100m"), container("1")]}), 1100),
            (
                "a large init container",
                json!({"containers": [container("1")], "initContainers": [container("3")]}),
                3000,
            ),
            (
                "an init container after a sidecar",
                json!({"containers": [container("1")],
                       "initContainers": [sidecar("500m"), container("3")]}),
                3500,
            ),
            (
                "a sidecar beside containers",
                json!({"containers": [container("1")], "initContainers": [sidecar("500m")]}),
                1500,
            ),
            ("overhead", json!({"containers": [container("1")], "overhead": {"cpu": "50m"}}), 1050),
            (
                "the pod's own",
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}),
                2000,
            ),
        ] {
            assert_eq!(pod_requests(&spec).amount("cpu"), expected, "{what}");
        }
    }
}
