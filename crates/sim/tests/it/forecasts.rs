//! Compares the answers of `explain` and `plan`, over random clusters and manifests, with what the
//! real controller then does on the sandbox without faults.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{
    DaemonSetKey, HASH_LABEL, NAMESPACE_NODE_SELECTOR_ANNOTATION, NodeName, Timestamp,
};
use everynode_insight::explain::{Explanation, explain, explain_node};
use everynode_insight::forecast::{Forecast, Proposal, changes, forecast};
use everynode_insight::situation::Situation;
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use everynode_k8s::convert;
use everynode_sandbox::cluster::DOWN_ANNOTATION;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kind::Kind;
use everynode_sandbox::kinds::{
    CONTROLLER_REVISION, DAEMON_SET, NAMESPACE as NAMESPACE_KIND, NODE, POD,
};
use everynode_sandbox::store::{Action, WriteOptions};
use everynode_sim::workload::{NAMESPACE, manifest};
use everynode_sim::world::{Setting, World};
use rand::RngExt;

use crate::schedules::number;
use object::{NAME, base, foreign_pod, host_port, is_ready, name_of, node_of, replaced_at, text};

mod object;

/// Number of cases by day. `EVERYNODE_CASES` is another one.
const CASES: u64 = 2;
/// Longer than a rollout over all nodes takes.
const ROLLOUT_MS: i64 = 15 * 60_000;
/// Renewal interval of nodes. A node that has not renewed for one and a half intervals is dead.
const LEASE_MS: i64 = 30_000;
const DETECTION_MS: i64 = 2 * LEASE_MS;

/// C10, C12, C13, C15, C50, C52, C53, C55: the controller's decisions equal the forecast. This
/// covers which nodes should run a pod; which nodes gain, lose and keep one; the waves of the
/// rollout; and where it never ends. Nodes are tainted, cordoned, dead, full, excluded by the
/// namespace's node selector, or have their ports in use. `EVERYNODE_SEED` plays one case.
#[test]
fn the_controller_does_what_explain_and_plan_forecast() {
    let one = number("EVERYNODE_SEED");
    let cases = number("EVERYNODE_CASES").unwrap_or(CASES);
    let seeds = one.map_or(0..cases, |seed| seed..seed + 1);
    let (mut rollouts, mut unfinished) = (0, 0);
    for seed in seeds {
        let mut case = Case::new(seed);
        case.check_explanation();
        let forecasted = case.check_forecast();
        rollouts += usize::from(!forecasted.waves.is_empty());
        unfinished += usize::from(!forecasted.unfinished.is_empty());
    }
    let enough = |count: usize| one.is_some() || count as u64 > cases / 8;
    assert!(enough(rollouts), "only {rollouts} cases had waves");
    assert!(enough(unfinished), "only {unfinished} cases had nodes that are never done");
}

struct Case {
    seed: u64,
    world: World,
}

impl Case {
    /// Returns a random cluster, in most cases with a DaemonSet that is at rest.
    fn new(seed: u64) -> Self {
        let nodes = 2 + u32::try_from(seed % 7).expect("below seven");
        let mut world = World::new(Setting {
            seed,
            nodes,
            nodes_max: nodes,
            lease_ms: LEASE_MS,
            namespace_node_selectors: true,
            ..Setting::default()
        });
        world.start_replicas();
        let mut case = Self { seed, world };
        for node in case.objects(&NODE) {
            case.change_node(node);
        }
        if case.world.rng.random_ratio(1, 5) {
            case.restrict_namespace();
        }
        let other = case.other_daemon_set();
        case.create(&DAEMON_SET, other);
        case.run();
        if case.world.rng.random_ratio(5, 6) {
            let made = case.random_change(base());
            case.create(&DAEMON_SET, made);
            case.run();
            case.stop_nodes();
            // Some DaemonSets are changed again, so that they have new and old pods.
            if case.world.rng.random_ratio(1, 3) {
                let changed = case.random_change(case.live().expect("it was created"));
                case.apply(changed);
                case.run();
            }
        }
        case
    }

    fn run(&mut self) {
        self.world.settle();
        self.world.run_for(ROLLOUT_MS);
        let violation = self.world.violation.as_ref();
        assert!(violation.is_none(), "seed {}: {violation:?}", self.seed);
    }

    fn create(&mut self, kind: &'static Kind, object: Value) {
        let options = self.world.write_options();
        let created = self.world.registry().create(kind, NAMESPACE, object, &options);
        assert!(created.is_ok(), "seed {}: {created:?}", self.seed);
    }

    /// Returns another DaemonSet, which was created earlier and is not changed.
    fn other_daemon_set(&mut self) -> Value {
        let mut ds = manifest("neighbour", 1);
        let spec = &mut ds["spec"]["template"]["spec"];
        spec["nodeSelector"] = json!({ "role": "a" });
        spec["containers"][0]["resources"] = json!({ "requests": { "cpu": "50m" } });
        spec["containers"][0]["ports"] = self.pick(&[json!([]), host_port()]);
        ds
    }

    /// Stops some nodes and waits until the cluster has detected it.
    fn stop_nodes(&mut self) {
        for mut node in self.objects(&NODE) {
            if self.world.rng.random_ratio(7, 8) {
                continue;
            }
            node["metadata"]["annotations"][DOWN_ANNOTATION] = json!("true");
            self.update_node(node);
        }
        self.world.run_for(DETECTION_MS);
        self.run();
    }

    fn objects(&self, kind: &'static Kind) -> Vec<Value> {
        let store = self.world.cluster.store();
        store.iter(kind, None).map(|object| object.value().clone()).collect()
    }

    fn live(&self) -> Option<Value> {
        let found = self.world.cluster.store().find(&DAEMON_SET, NAMESPACE, NAME);
        found.map(|object| object.value().clone())
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.world.rng.random_range(0..choices.len())].clone()
    }

    fn change_node(&mut self, mut node: Value) {
        let taint = |effect: &str| json!([{ "key": "t", "value": "v", "effect": effect }]);
        node["metadata"]["labels"]["role"] = json!(self.pick(&["a", "a", "b"]));
        node["metadata"]["labels"]["rank"] = json!(self.pick(&["1", "5", "9"]));
        let taints = [
            json!([]),
            json!([]),
            json!([]),
            taint("NoSchedule"),
            taint("NoExecute"),
            taint("PreferNoSchedule"),
        ];
        node["spec"]["taints"] = self.pick(&taints);
        node["spec"]["unschedulable"] = json!(self.world.rng.random_ratio(1, 6));
        let cpu = self.pick(&["250m", "4", "4"]);
        self.set_cpu(&name_of(&node), cpu);
        if self.world.rng.random_ratio(1, 6) {
            self.create(&POD, foreign_pod(&name_of(&node)));
        }
        self.update_node(node);
    }

    /// Allows the pods of the namespace only on some nodes (C15).
    fn restrict_namespace(&mut self) {
        let options = self.world.write_options();
        let stored = self
            .world
            .cluster
            .store()
            .find(&NAMESPACE_KIND, "", NAMESPACE)
            .expect("the object exists");
        let mut namespace = stored.value().clone();
        let annotation = NAMESPACE_NODE_SELECTOR_ANNOTATION;
        namespace["metadata"]["annotations"][annotation] = json!("role=a");
        let stored =
            self.world.registry().update(&NAMESPACE_KIND, "", NAMESPACE, namespace, &options);
        assert!(stored.is_ok(), "seed {}: {stored:?}", self.seed);
        self.world.settle();
    }

    fn update_node(&mut self, node: Value) {
        let name = name_of(&node);
        let options = self.world.write_options();
        let stored = self.world.cluster.store().find(&NODE, "", &name).expect("the object exists");
        let version = stored.value()["metadata"]["resourceVersion"].clone();
        let mut node = node;
        node["metadata"]["resourceVersion"] = version;
        let stored = self.world.registry().update(&NODE, "", &name, node, &options);
        assert!(stored.is_ok(), "seed {}: {stored:?}", self.seed);
        self.world.settle();
    }

    fn set_cpu(&mut self, name: &str, cpu: &str) {
        let options = self.world.write_options();
        let stored = self.world.cluster.store().find(&NODE, "", name).expect("the object exists");
        let mut node = stored.value().clone();
        node["status"]["allocatable"]["cpu"] = json!(cpu);
        let stored = self.world.registry().update_status(&NODE, "", name, node, &options);
        assert!(stored.is_ok(), "seed {}: {stored:?}", self.seed);
    }

    fn random_change(&mut self, mut ds: Value) -> Value {
        for _ in 0..self.world.rng.random_range(1..4) {
            self.change(&mut ds["spec"]);
        }
        ds
    }

    fn change(&mut self, spec: &mut Value) {
        let rolling = |unavailable: Value, surge: Value| {
            json!({
                "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": unavailable, "maxSurge": surge },
            })
        };
        let in_rank = |operator: &str, values: &[&str]| {
            let key = "rank";
            json!({ "key": key, "operator": operator, "values": values })
        };
        let affinity = |expression: Value| {
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } } })
        };
        match self.world.rng.random_range(0..12) {
            10 => {
                let requests = self.pick(&["0", "100m", "200m", "300m"]);
                let requests = json!({ "requests": { "cpu": requests } });
                spec["template"]["spec"]["containers"][0]["resources"] = requests;
            }
            11 => {
                let ports = self.pick(&[json!([]), host_port()]);
                spec["template"]["spec"]["containers"][0]["ports"] = ports;
            }
            0..4 => {
                let image = self.pick(&["image:1", "image:2", "image:3"]);
                spec["template"]["spec"]["containers"][0]["image"] = json!(image);
            }
            4..6 => {
                spec["updateStrategy"] = self.pick(&[
                    json!({ "type": "OnDelete" }),
                    rolling(json!(1), json!(0)),
                    rolling(json!(2), json!(0)),
                    rolling(json!("40%"), json!(0)),
                    rolling(json!(0), json!(1)),
                    rolling(json!(0), json!("50%")),
                ]);
            }
            6 => spec["minReadySeconds"] = json!(self.pick(&[0, 5, 20])),
            7 => {
                let selectors = [json!({ "role": "a" }), json!({ "role": "b" }), Value::Null];
                spec["template"]["spec"]["nodeSelector"] = self.pick(&selectors);
            }
            8 => {
                let affinities = [
                    affinity(in_rank("Gt", &["3"])),
                    affinity(in_rank("NotIn", &["9"])),
                    Value::Null,
                ];
                spec["template"]["spec"]["affinity"] = self.pick(&affinities);
            }
            _ => {
                let tolerations = [json!([]), json!([{ "operator": "Exists" }])];
                spec["template"]["spec"]["tolerations"] = self.pick(&tolerations);
            }
        }
    }

    /// Reads a snapshot of the cluster as the command line does.
    fn snapshot(&self) -> Snapshot {
        // The simulated controller watches namespaces.
        let mut snapshot = Snapshot::default();
        snapshot.honors_namespace_node_selectors = true;
        for (read, kind) in [
            (ObjectKind::Node, &NODE),
            (ObjectKind::Namespace, &NAMESPACE_KIND),
            (ObjectKind::DaemonSet, &DAEMON_SET),
            (ObjectKind::Pod, &POD),
            (ObjectKind::ControllerRevision, &CONTROLLER_REVISION),
        ] {
            for object in self.objects(kind) {
                snapshot.add(read, object.to_string().as_bytes());
            }
        }
        assert_eq!(snapshot.problems, [""; 0], "seed {}", self.seed);
        snapshot
    }

    /// Returns the DaemonSet's pods.
    fn all_pods(&self) -> Vec<Value> {
        let pods = self.objects(&POD).into_iter();
        pods.filter(|pod| pod["metadata"]["ownerReferences"][0]["name"] == NAME).collect()
    }

    /// Returns one pod for each node that has one: not a terminating one, and of two the one that
    /// runs, or else the older one.
    fn pods(&self) -> BTreeMap<String, String> {
        let mut pods = self.all_pods();
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let rank = |pod: &Value| {
            (pod["spec"]["nodeName"].is_null(), text(&pod["metadata"]["creationTimestamp"]))
        };
        pods.sort_by_key(|pod| std::cmp::Reverse(rank(pod)));
        pods.iter().map(|pod| (node_of(pod), text(&pod["metadata"]["uid"]))).collect()
    }

    /// Returns nodes with two pods because of a stuck surge. The new pod, which no kubelet runs, is
    /// removed at once when there is a newer template. No object records when that was, so the
    /// start of the node's wave is unknown.
    fn nodes_with_two_pods(&self) -> BTreeSet<String> {
        let (mut nodes, mut with_two_pods) = (BTreeSet::new(), BTreeSet::new());
        for pod in self.all_pods() {
            if !nodes.insert(node_of(&pod)) {
                with_two_pods.insert(node_of(&pod));
            }
        }
        with_two_pods
    }

    fn explanation(&self) -> Option<Explanation> {
        explain(&self.snapshot(), &DaemonSetKey::new(NAMESPACE, NAME), self.world.now)
    }

    fn dead_nodes(&self) -> BTreeSet<String> {
        let is_down = |node: &Value| node["metadata"]["annotations"][DOWN_ANNOTATION] == "true";
        self.objects(&NODE).iter().filter(|node| is_down(node)).map(name_of).collect()
    }

    /// At rest every node that should run a pod has one, and no node that must not run one has any.
    /// A dead node keeps its pods.
    fn check_explanation(&self) {
        let Some(explained) = self.explanation() else { return };
        let are = |situations: &[Situation]| nodes_in(&explained, situations);
        let with_pods: BTreeSet<String> = self.pods().into_keys().collect();
        let dead = self.dead_nodes();
        let on_living_nodes = are(&[
            Situation::UpToDate,
            Situation::Outdated,
            Situation::NotYetAvailable,
            Situation::Lingering,
            Situation::Unschedulable,
        ]);
        let on_dead_nodes = are(&[
            Situation::NodeNotReady,
            Situation::Terminating,
            Situation::Stuck,
            Situation::ToBeDeleted,
        ]);
        let excluded = are(&[Situation::Excluded]);
        let all = [&on_living_nodes, &on_dead_nodes, &excluded].map(BTreeSet::len);
        assert_eq!(
            Some(all.iter().sum::<usize>()),
            explained.nodes,
            "seed {}: {explained:#?}",
            self.seed
        );
        let (dead_with_pods, with_pods) =
            with_pods.into_iter().partition(|node| dead.contains(node));
        assert_eq!(on_living_nodes, with_pods, "seed {}: {explained:#?}", self.seed);
        assert!(on_dead_nodes.is_superset(&dead_with_pods), "seed {}: {explained:#?}", self.seed);
        assert!(on_dead_nodes.is_subset(&dead), "seed {}: {explained:#?}", self.seed);
        let status = self.live().expect("it was explained")["status"].clone();
        assert_eq!(
            status["desiredNumberScheduled"], explained.desired,
            "seed {}: {explained:#?}",
            self.seed
        );
    }

    fn check_forecast(&mut self) -> Forecast {
        let live = self.live();
        let wanted = self.random_change(live.clone().unwrap_or_else(base));
        let proposed = self.dry_run(live.is_none(), wanted.clone());
        let proposal = Proposal {
            object: convert::daemon_set(proposed.to_string().as_bytes(), None)
                .expect("a DaemonSet"),
            changes: live.as_ref().map(|live| changes(&live.into(), &(&proposed).into())),
            knows_room: true,
            start_up: None,
        };
        let forecasted = forecast(&self.snapshot(), &proposal, self.world.now);
        let before = self.pods();
        let with_two_pods = self.nodes_with_two_pods();
        let since = self.world.cluster.store().resource_version();
        match live {
            None => self.create(&DAEMON_SET, wanted),
            Some(_) => self.apply(wanted),
        }
        self.run();
        let (after, seed) = (self.node_changes(&before), self.seed);
        assert_eq!(NodeChanges::of(&forecasted), after, "seed {seed}: {forecasted:#?}");
        let [forecast_waves, waves] = [waves_of(&forecasted), self.waves(since, &after)]
            .map(|waves| waves_without(waves, &with_two_pods));
        assert_eq!(forecast_waves, waves, "seed {seed}: {forecasted:#?}");
        let unfinished = forecasted.unfinished.iter().flat_map(|group| group.nodes.iter().cloned());
        let unfinished: BTreeSet<String> = unfinished.collect();
        assert_eq!(unfinished, self.unfinished(), "seed {seed}: {forecasted:#?}");
        forecasted
    }

    /// Compares the pods before with the current ones.
    fn node_changes(&self, before: &BTreeMap<String, String>) -> NodeChanges {
        let mut node_changes = NodeChanges::between(before, &self.pods());
        let explained = self.explanation().expect("the object exists");
        // The new pod of a dead node waits until the old one is deleted, which never happens.
        let dead = [Situation::Terminating, Situation::Stuck, Situation::NodeNotReady];
        for node in nodes_in(&explained, &dead) {
            if node_changes.lose.contains(&node) && self.should_run(&node) {
                node_changes.lose.remove(&node);
                node_changes.replace.insert(node);
            }
        }
        node_changes
    }

    fn should_run(&self, node: &str) -> bool {
        let key = DaemonSetKey::new(NAMESPACE, NAME);
        let node = explain_node(&self.snapshot(), &key, &NodeName::from(node), self.world.now);
        node.expect("the node and the DaemonSet exist").should_run
    }

    /// Returns nodes that should have an available pod of the current revision and have none.
    fn unfinished(&self) -> BTreeSet<String> {
        let live = self.live().expect("the object exists");
        let newest = self.objects(&CONTROLLER_REVISION).into_iter();
        let newest = newest
            .filter(|revision| revision["metadata"]["ownerReferences"][0]["name"] == NAME)
            .max_by_key(|revision| revision["revision"].as_i64());
        let current = newest.expect("it has one")["metadata"]["labels"][HASH_LABEL].clone();
        let is_rolled = live["spec"]["updateStrategy"]["type"] != "OnDelete";
        let is_done = |pod: &Value| {
            let is_current = pod["metadata"]["labels"][HASH_LABEL] == current;
            is_ready(pod) && (is_current || !is_rolled)
        };
        let done: BTreeSet<String> =
            self.all_pods().iter().filter(|pod| is_done(pod)).map(node_of).collect();
        let nodes = self.objects(&NODE).iter().map(name_of).collect::<BTreeSet<String>>();
        nodes.into_iter().filter(|node| self.should_run(node) && !done.contains(node)).collect()
    }

    fn dry_run(&mut self, is_new: bool, wanted: Value) -> Value {
        let options = WriteOptions { dry_run: true, ..self.world.write_options() };
        let registry = self.world.registry();
        let answered = if is_new {
            registry.create(&DAEMON_SET, NAMESPACE, wanted, &options)
        } else {
            registry.update(&DAEMON_SET, NAMESPACE, NAME, wanted, &options)
        };
        answered.expect("it is valid").value().clone()
    }

    fn apply(&mut self, wanted: Value) {
        let options = self.world.write_options();
        let done = self.world.registry().update(&DAEMON_SET, NAMESPACE, NAME, wanted, &options);
        assert!(done.is_ok(), "seed {}: {done:?}", self.seed);
    }

    /// Returns the nodes whose pods were replaced, grouped by the start of the replacement.
    fn waves(&self, since: u64, node_changes: &NodeChanges) -> Vec<BTreeSet<String>> {
        let mut begun: BTreeMap<String, Timestamp> = BTreeMap::new();
        for change in
            self.world.cluster.store().changes_since(&POD, since, usize::MAX).expect("kept")
        {
            let pod = change.object.value();
            if pod["metadata"]["ownerReferences"][0]["name"] != NAME {
                continue;
            }
            let is_new = matches!(change.action, Action::Added);
            let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
            if is_new || is_going {
                begun.entry(node_of(pod)).or_insert(replaced_at(pod, is_new));
            }
        }
        let mut waves: BTreeMap<Timestamp, BTreeSet<String>> = BTreeMap::new();
        for node in &node_changes.replace {
            waves.entry(begun[node]).or_default().insert(node.clone());
        }
        waves.into_values().collect()
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct NodeChanges {
    gain: BTreeSet<String>,
    lose: BTreeSet<String>,
    replace: BTreeSet<String>,
    keep: BTreeSet<String>,
}

impl NodeChanges {
    fn of(forecasted: &Forecast) -> Self {
        let set = |nodes: &[String]| nodes.iter().cloned().collect();
        let nodes = forecasted.nodes.as_ref().expect("the nodes are read");
        Self {
            gain: set(&nodes.gain),
            lose: set(&nodes.lose),
            replace: set(&nodes.replace),
            keep: set(&nodes.keep),
        }
    }

    fn between(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Self {
        let mut node_changes = Self::default();
        for node in before.keys().chain(after.keys()) {
            let side = match (before.get(node), after.get(node)) {
                (None, _) => &mut node_changes.gain,
                (Some(_), None) => &mut node_changes.lose,
                (Some(old), Some(new)) if old == new => &mut node_changes.keep,
                (Some(_), Some(_)) => &mut node_changes.replace,
            };
            side.insert(node.clone());
        }
        node_changes
    }
}

fn waves_without(waves: Vec<BTreeSet<String>>, nodes: &BTreeSet<String>) -> Vec<BTreeSet<String>> {
    let rest = waves.into_iter().map(|wave| wave.difference(nodes).cloned().collect());
    rest.filter(|wave: &BTreeSet<String>| !wave.is_empty()).collect()
}

fn waves_of(forecasted: &Forecast) -> Vec<BTreeSet<String>> {
    forecasted.waves.iter().map(|wave| wave.nodes.iter().cloned().collect()).collect()
}

fn nodes_in(explained: &Explanation, situations: &[Situation]) -> BTreeSet<String> {
    let groups = explained.groups.iter().filter(|group| situations.contains(&group.situation));
    groups.flat_map(|group| group.nodes.iter().cloned()).collect()
}
