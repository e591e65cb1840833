//! Whether `explain` and `plan` tell the truth: over random clusters and manifests, what they say is compared with
//! what the real controller then does on the sandbox, without faults.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::name::DaemonSetKey;
use everynode_core::time::Timestamp;
use everynode_insight::explain::{Explanation, Situation, explain};
use everynode_insight::forecast::{Forecast, Proposal, changes, forecast};
use everynode_insight::snapshot::{Kind as SnapshotKind, Snapshot};
use everynode_k8s::convert;
use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET, Kind, NODE, POD};
use everynode_sandbox::store::{Action, WriteOptions};
use everynode_sim::workload::{NAMESPACE, manifest};
use everynode_sim::world::{LEASE_NEVER_MS, Setting, World};
use rand::RngExt;
use serde_json::{Value, json};

/// In a debug build a case takes ten times as long: `make test` uses the profile `sim`.
const CASES: u64 = if cfg!(debug_assertions) { 60 } else { 400 };
const NAME: &str = "a";
/// So long a rollout over all nodes may take.
const ROLLOUT_MS: i64 = 15 * 60_000;

/// C10, C12, C13, C50, C52, C53, C55: which nodes should run a pod, who gains, loses and keeps one, and the waves of the
/// rollout, are as the controller then has it. `EVERYNODE_SEED` plays one case.
#[test]
fn what_is_explained_and_forecast_is_what_happens() {
    let one = std::env::var("EVERYNODE_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = one.map_or(0..CASES, |seed| seed..seed + 1);
    let mut rollouts = 0;
    for seed in seeds {
        let mut case = Case::new(seed);
        case.check_explanation();
        rollouts += usize::from(case.check_forecast());
    }
    assert!(one.is_some() || rollouts > CASES as usize / 8, "only {rollouts} cases had waves");
}

struct Case {
    seed: u64,
    world: World,
}

impl Case {
    /// A random cluster, mostly with a DaemonSet that has come to rest on it.
    fn new(seed: u64) -> Self {
        let nodes = 2 + u32::try_from(seed % 7).expect("below seven");
        let mut world = World::new(Setting {
            seed,
            nodes,
            nodes_max: nodes,
            lease_ms: LEASE_NEVER_MS,
            burst_replicas: 250,
        });
        world.elect();
        let mut case = Self { seed, world };
        for node in case.objects(&NODE) {
            case.change_node(node);
        }
        if case.world.rng.random_ratio(5, 6) {
            let made = case.random_change(base());
            let options = case.world.at();
            let created = case.world.store().create(&DAEMON_SET, NAMESPACE, made, &options);
            assert!(created.is_ok(), "seed {seed}: {created:?}");
            case.act();
            // Once more, so that there is history, and some pods are of it.
            if case.world.rng.random_ratio(1, 3) {
                let changed = case.random_change(case.live().expect("it was created"));
                case.apply(changed);
                case.act();
            }
        }
        case
    }

    fn act(&mut self) {
        self.world.settle();
        self.world.run_for(ROLLOUT_MS);
        let violation = self.world.violation.as_ref();
        assert!(violation.is_none(), "seed {}: {violation:?}", self.seed);
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
        let name = node["metadata"]["name"].as_str().expect("nodes have names").to_owned();
        let options = self.world.at();
        let stored = self.world.store().update(&NODE, "", &name, node, &options);
        assert!(stored.is_ok(), "seed {}: {stored:?}", self.seed);
        self.world.settle();
    }

    fn random_change(&mut self, mut ds: Value) -> Value {
        for _ in 0..self.world.rng.random_range(1..4) {
            self.change(&mut ds["spec"]);
        }
        ds
    }

    fn change(&mut self, spec: &mut Value) {
        let rolling = |unavailable: Value, surge: Value| json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": unavailable, "maxSurge": surge } });
        let in_rank = |operator: &str, values: &[&str]| json!({ "key": "rank", "operator": operator, "values": values });
        let affinity = |expression: Value| {
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } } })
        };
        match self.world.rng.random_range(0..10) {
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

    /// What a person's program reads of the cluster.
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (read, kind) in [
            (SnapshotKind::Node, &NODE),
            (SnapshotKind::DaemonSet, &DAEMON_SET),
            (SnapshotKind::Pod, &POD),
            (SnapshotKind::ControllerRevision, &CONTROLLER_REVISION),
        ] {
            for object in self.objects(kind) {
                snapshot.add(read, object.to_string().as_bytes());
            }
        }
        assert_eq!(snapshot.problems, [""; 0], "seed {}", self.seed);
        snapshot
    }

    /// The pod of each node that is not on its way out.
    fn pods(&self) -> BTreeMap<String, String> {
        let pods = self
            .objects(&POD)
            .into_iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.map(|pod| (node_of(&pod), text(&pod["metadata"]["uid"]))).collect()
    }

    /// At rest every node has a pod that should run one, and no other node has one that must not.
    fn check_explanation(&self) {
        let key = DaemonSetKey::new(NAMESPACE, NAME);
        let Some(told) = explain(&self.snapshot(), &key, self.world.now) else { return };
        let with_pods: BTreeSet<String> = self.pods().into_keys().collect();
        let are = |situations: &[Situation]| nodes_that_are(&told, situations);
        let running = are(&[Situation::UpToDate, Situation::Outdated, Situation::NotYetAvailable]);
        let lingering = are(&[Situation::Lingering]);
        let excluded = are(&[Situation::Excluded]);
        let all = with_pods.clone();
        assert_eq!(
            running.union(&lingering).cloned().collect::<BTreeSet<_>>(),
            all,
            "{}: {told:#?}",
            self.seed
        );
        assert_eq!(told.desired, running.len(), "{}: {told:#?}", self.seed);
        assert_eq!(excluded.len() + all.len(), told.nodes, "{}: {told:#?}", self.seed);
    }

    /// Returns whether there were waves.
    fn check_forecast(&mut self) -> bool {
        let live = self.live();
        let wanted = self.random_change(live.clone().unwrap_or_else(base));
        let proposed = self.dry_run(live.is_none(), wanted.clone());
        let proposal = Proposal {
            object: convert::daemon_set(proposed.to_string().as_bytes(), None)
                .expect("a DaemonSet"),
            changes: live.as_ref().map(|live| changes(live, &proposed)),
            knows_room: true,
            start_up: None,
        };
        let told = forecast(&self.snapshot(), &proposal, self.world.now);
        let before = self.pods();
        let since = self.world.cluster.store().resource_version();
        let (options, seed) = (self.world.at(), self.seed);
        let done = match live {
            None => self.world.store().create(&DAEMON_SET, NAMESPACE, wanted, &options),
            Some(_) => self.world.store().update(&DAEMON_SET, NAMESPACE, NAME, wanted, &options),
        };
        assert!(done.is_ok(), "seed {seed}: {done:?}");
        self.act();
        let after = self.pods();
        assert_eq!(Sides::of(&told), Sides::between(&before, &after), "seed {seed}: {told:#?}");
        assert_eq!(waves_told(&told), self.waves(since, &before, &after), "seed {seed}: {told:#?}");
        assert_eq!(told.unfinished, [], "seed {seed}: {told:#?}");
        !told.waves.is_empty()
    }

    fn dry_run(&mut self, is_new: bool, wanted: Value) -> Value {
        let options = WriteOptions { dry_run: true, ..self.world.at() };
        let store = self.world.store();
        let answered = if is_new {
            store.create(&DAEMON_SET, NAMESPACE, wanted, &options)
        } else {
            store.update(&DAEMON_SET, NAMESPACE, NAME, wanted, &options)
        };
        answered.expect("it is valid").value().clone()
    }

    fn apply(&mut self, wanted: Value) {
        let options = self.world.at();
        let done = self.world.store().update(&DAEMON_SET, NAMESPACE, NAME, wanted, &options);
        assert!(done.is_ok(), "seed {}: {done:?}", self.seed);
    }

    /// The nodes whose pods were replaced, by when that began.
    fn waves(
        &self,
        since: u64,
        before: &BTreeMap<String, String>,
        after: &BTreeMap<String, String>,
    ) -> Vec<BTreeSet<String>> {
        let replaced = Sides::between(before, after).replace;
        let mut begun: BTreeMap<String, Timestamp> = BTreeMap::new();
        for change in
            self.world.cluster.store().changes_since(&POD, since, usize::MAX).expect("kept")
        {
            let pod = change.object.value();
            let is_new = matches!(change.action, Action::Added);
            let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
            if is_new || is_going {
                begun.entry(node_of(pod)).or_insert(touched_at(pod, is_new));
            }
        }
        let mut waves: BTreeMap<Timestamp, BTreeSet<String>> = BTreeMap::new();
        for node in replaced {
            waves.entry(begun[&node]).or_default().insert(node);
        }
        waves.into_values().collect()
    }
}

/// Seconds are all that objects tell; a rollout's waves are further apart, for pods take a second to be ready.
fn touched_at(pod: &Value, is_new: bool) -> Timestamp {
    let metadata = &pod["metadata"];
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let (time, grace) = if is_new {
        (&metadata["creationTimestamp"], 0)
    } else {
        (&metadata["deletionTimestamp"], grace)
    };
    let time: jiff::Timestamp = text(time).parse().expect("the API writes RFC 3339");
    Timestamp(time.as_millisecond() - grace * 1000)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Sides {
    gain: BTreeSet<String>,
    lose: BTreeSet<String>,
    replace: BTreeSet<String>,
    keep: BTreeSet<String>,
}

impl Sides {
    fn of(told: &Forecast) -> Self {
        let set = |nodes: &[String]| nodes.iter().cloned().collect();
        let nodes = &told.nodes;
        Self {
            gain: set(&nodes.gain),
            lose: set(&nodes.lose),
            replace: set(&nodes.replace),
            keep: set(&nodes.keep),
        }
    }

    fn between(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Self {
        let mut sides = Self::default();
        for node in before.keys().chain(after.keys()) {
            let side = match (before.get(node), after.get(node)) {
                (None, _) => &mut sides.gain,
                (Some(_), None) => &mut sides.lose,
                (Some(old), Some(new)) if old == new => &mut sides.keep,
                (Some(_), Some(_)) => &mut sides.replace,
            };
            side.insert(node.clone());
        }
        sides
    }
}

fn waves_told(told: &Forecast) -> Vec<BTreeSet<String>> {
    told.waves.iter().map(|wave| wave.nodes.iter().cloned().collect()).collect()
}

fn nodes_that_are(told: &Explanation, situations: &[Situation]) -> BTreeSet<String> {
    let groups = told.groups.iter().filter(|group| situations.contains(&group.situation));
    groups.flat_map(|group| group.nodes.iter().cloned()).collect()
}

/// A DaemonSet whose pods all take the same time to start and to stop.
fn base() -> Value {
    let mut ds = manifest(NAME, 1);
    let stages = "[{stage: pull, delay: 10ms, jitter: 0s}, {stage: start, delay: 10ms, jitter: 0s}, \
                  {stage: ready, delay: 3s, jitter: 0s}, {stage: stop, delay: 10ms, jitter: 0s}]";
    ds["spec"]["template"]["metadata"]["annotations"] =
        json!({ "sandbox.everynode.dev/lifecycle": stages });
    ds
}

fn node_of(pod: &Value) -> String {
    let bound = text(&pod["spec"]["nodeName"]);
    if !bound.is_empty() {
        return bound;
    }
    let field = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    text(pod.pointer(field).unwrap_or(&Value::Null))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
