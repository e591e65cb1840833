//! Scenarios for the exhaustive tests: what users do, in fixed steps and without other faults, so
//! that one fault can be injected at each single write.

mod ended_pods;
mod guarded;

use everynode_core::api::HASH_LABEL;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use everynode_sandbox::nodes;
use everynode_sandbox::store::{DeleteOptions, PropagationPolicy};
use everynode_sim::failure::Failure;
use everynode_sim::fault::Faults;
use everynode_sim::mutation::Mutation;
use everynode_sim::workload::{NAMESPACE, manifest};
use everynode_sim::world::{ElectionTiming, InjectedFault, Setting, World};

/// An action of a user.
type Step = fn(&mut World);

/// A named sequence of actions of a user, with time for the controller to react to each.
pub(crate) struct Scenario {
    /// The name, by which regression files refer to the scenario.
    pub(crate) name: &'static str,
    steps: &'static [Step],
}

const SETTING: Setting =
    Setting { seed: 7, nodes: 3, nodes_max: 4, replicas: 2, ..Setting::DEFAULT };
const STEP_MS: i64 = 12_000;

/// All scenarios.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "first placement", steps: &[create] },
    Scenario { name: "rollout", steps: &[create, second_image] },
    Scenario { name: "rollout of two at a time", steps: &[create_two_at_a_time, second_image] },
    Scenario {
        name: "rollout with minReadySeconds",
        steps: &[create_with_min_ready, wait, second_image],
    },
    Scenario { name: "long minReadySeconds", steps: &[create_with_long_min_ready] },
    Scenario { name: "surge", steps: &[create_with_surge, second_image] },
    Scenario { name: "undo", steps: &[create, second_image, first_image] },
    Scenario { name: "history limit", steps: &[create_without_history, second_image, third_image] },
    Scenario {
        name: "duplicate revision",
        steps: &[create, second_image, duplicate_revision, first_image],
    },
    Scenario {
        name: "collision",
        steps: &[create, second_image, delete_orphan, replace_revisions, create],
    },
    Scenario { name: "adoption", steps: &[create, delete_orphan, create_second] },
    Scenario { name: "default", steps: &[create, second_image, drop_default] },
    Scenario { name: "release", steps: &[create, relabel] },
    Scenario { name: "deletion", steps: &[create, delete, create, replace] },
    Scenario { name: "foreground deletion", steps: &[create, delete_foreground, create] },
    Scenario { name: "failed pod", steps: &[create, ended_pods::fail, ended_pods::fail] },
    Scenario {
        name: "failed pods of a node that recovers",
        steps: &[create, ended_pods::fail_again_and_again, ended_pods::reboot],
    },
    Scenario { name: "deleted and added nodes", steps: &[create, delete_node, add_node] },
    Scenario {
        name: "revision without labels",
        steps: &[create, remove_revision_labels, second_image],
    },
    Scenario {
        name: "guarded rollout",
        steps: &[guarded::create, second_image, guarded::approve, wait],
    },
    Scenario {
        name: "guarded rollout with surge",
        steps: &[guarded::create_with_surge, second_image, guarded::approve, wait],
    },
    Scenario {
        name: "guarded rollout that is aborted and retried",
        steps: &[guarded::create, second_image, guarded::abort, guarded::retry, guarded::approve],
    },
    Scenario {
        name: "guarded rollout that fails and goes back",
        steps: &[
            guarded::create_that_goes_back,
            second_image,
            guarded::fail_canary,
            third_image,
            guarded::restart_canary,
        ],
    },
    Scenario {
        name: "guarded rollout whose canary restarts",
        steps: &[
            guarded::create_without_restarts,
            guarded::roll_out_slowly,
            guarded::restart_canary,
            guarded::keep_fewer_revisions,
            third_image,
            guarded::approve,
        ],
    },
    Scenario {
        name: "guarded rollout whose policy is removed",
        steps: &[guarded::create, second_image, guarded::remove_policy, guarded::promote_in_full],
    },
    Scenario {
        name: "guarded rollout with a node that is down",
        steps: &[
            guarded::create,
            guarded::stop_node,
            second_image,
            guarded::approve,
            wait,
            guarded::start_node,
        ],
    },
    Scenario {
        name: "guarded rollout whose canary is drained",
        steps: &[
            guarded::create,
            guarded::drain_canary,
            second_image,
            wait,
            guarded::return_canary,
            guarded::approve,
            wait,
        ],
    },
    Scenario {
        name: "guarded rollout that loses its canary",
        steps: &[
            guarded::create_that_loses_none,
            second_image,
            guarded::stop_canary,
            guarded::start_canary,
            guarded::promote_in_full,
            wait,
        ],
    },
    Scenario {
        name: "guarded rollout with an outage",
        steps: &[
            guarded::create,
            second_image,
            guarded::disturb_last_node,
            guarded::approve,
            guarded::promote_in_full,
            wait,
        ],
    },
    Scenario {
        name: "guarded rollout that goes back on all nodes",
        steps: &[guarded::create_with_gate, second_image, wait, guarded::abort, wait],
    },
    Scenario {
        name: "guarded rollout that goes back from unready pods",
        steps: &[
            guarded::create_with_gate,
            second_image,
            wait,
            guarded::disturb_all,
            guarded::abort,
            wait,
        ],
    },
    Scenario {
        name: "guarded rollout that removes pods",
        steps: &[
            guarded::create_without_steps,
            guarded::run_on_one_node,
            wait,
            guarded::promote_in_full,
            wait,
        ],
    },
    Scenario {
        name: "guarded rollout in windows",
        steps: &[guarded::create_with_windows, second_image, wait],
    },
    Scenario {
        name: SPOILED_CONFIG_MAP,
        steps: &[guarded::create_with_config_maps, wait, guarded::spoil_config_map],
    },
    Scenario {
        name: "guarded rollout of a corrected ConfigMap",
        steps: &[
            guarded::create_with_config_maps,
            wait,
            guarded::spoil_config_map,
            guarded::correct_config_map,
            wait,
            wait,
        ],
    },
    Scenario {
        name: "guarded rollout with a pace",
        steps: &[guarded::create_with_pace, second_image, wait],
    },
    Scenario {
        name: "guarded rollout with a check that fails",
        steps: &[guarded::create_with_failing_check, second_image, wait],
    },
    Scenario {
        name: "guarded rollout whose end is approved",
        steps: &[guarded::create_with_finally, second_image, wait, guarded::approve_end, wait],
    },
    Scenario {
        name: "guarded rollout whose canary becomes unready",
        steps: &[
            guarded::create,
            second_image,
            guarded::disturb_canary,
            guarded::approve,
            guarded::restore_canary,
            wait,
        ],
    },
    Scenario {
        name: "guarded rollout with a node that fails later",
        steps: &[
            guarded::create_with_held_nodes,
            second_image,
            guarded::release_nodes,
            guarded::restore_late_node,
            wait,
        ],
    },
    Scenario {
        name: KILLER,
        steps: &[guarded::create_for_killer, guarded::wait_for_pods, guarded::roll_out_killer],
    },
];
/// The scenario of a rollout that stops the nodes that it reaches.
pub(crate) const KILLER: &str = "guarded rollout that stops its nodes";

/// The name of the scenario in which a ConfigMap gets a bad content.
pub(crate) const SPOILED_CONFIG_MAP: &str = "guarded rollout of a bad ConfigMap";

pub(crate) use guarded::WAVES;

impl Scenario {
    /// Plays the scenario, optionally with a fault at one write and with a deliberate bug.
    pub(crate) fn play(
        &self,
        injected_fault: Option<(u64, InjectedFault)>,
        mutation: Option<Mutation>,
    ) -> World {
        self.run(injected_fault, mutation, false)
    }

    /// Plays the scenario with these faults from the start.
    pub(crate) fn play_with_faults(&self, faults: Faults) -> World {
        let mut world = World::new(SETTING);
        world.faults = faults;
        self.play_in(&mut world);
        world
    }

    fn run(
        &self,
        injected_fault: Option<(u64, InjectedFault)>,
        mutation: Option<Mutation>,
        is_recorded: bool,
    ) -> World {
        let mut world = World::new(setting(injected_fault));
        if is_recorded {
            world.record();
        }
        (world.injected_fault, world.mutation) = (injected_fault, mutation);
        self.play_in(&mut world);
        world
    }

    fn play_in(&self, world: &mut World) {
        world.start_replicas();
        for step in self.steps {
            step(world);
            world.settle();
            world.run_for(STEP_MS);
        }
        world.run_to_quiescence();
    }

    /// Plays the scenario once for each of its writes, with the fault at that write. Returns the
    /// number of writes.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub(crate) fn exhaust(&self, injected_fault: InjectedFault) -> Result<u64, Box<Failure>> {
        // No write has this number, so the fault is not injected.
        let without_fault = self.play(Some((0, injected_fault)), None);
        let writes = without_fault.writes;
        for write in 0..=writes {
            if self.play(Some((write, injected_fault)), None).violation.is_some() {
                return Err(self.failure(Some((write, injected_fault))));
            }
        }
        Ok(writes)
    }

    fn failure(&self, injected_fault: Option<(u64, InjectedFault)>) -> Box<Failure> {
        let world = self.run(injected_fault, None, true);
        let violation = world.violation.expect("the same schedule fails the same way");
        let replay = match injected_fault {
            Some((write, injected_fault)) => {
                format!("{}: {injected_fault:?} at write {write}", self.name)
            }
            None => format!("{}, without a fault", self.name),
        };
        Box::new(Failure { violation, transcript: world.transcript.unwrap_or_default(), replay })
    }
}

/// The cluster for a fault. Where no other replica takes over, there is none: its lease would cost
/// most of the time.
fn setting(injected_fault: Option<(u64, InjectedFault)>) -> Setting {
    match injected_fault {
        Some((_, InjectedFault::Combined(_))) => {
            Setting { replicas: 1, election: ElectionTiming::Rare, ..SETTING }
        }
        _ => SETTING,
    }
}

fn create(world: &mut World) {
    world.create(&DAEMON_SET, manifest("a", 1));
}

fn create_second(world: &mut World) {
    world.create(&DAEMON_SET, manifest("a", 2));
}

fn create_with(world: &mut World, strategy: Value, limit: u32) {
    let mut ds = manifest("a", 1);
    ds["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": strategy});
    ds["spec"]["revisionHistoryLimit"] = json!(limit);
    ds["spec"]["minReadySeconds"] = json!(1);
    world.create(&DAEMON_SET, ds);
}

fn create_two_at_a_time(world: &mut World) {
    create_with(world, json!({"maxUnavailable": 2, "maxSurge": 0}), 10);
}

fn create_with_surge(world: &mut World) {
    create_with(world, json!({"maxUnavailable": 0, "maxSurge": 1}), 10);
}

fn wait(_: &mut World) {}

fn create_with_min_ready(world: &mut World) {
    let mut ds = manifest("a", 1);
    ds["spec"]["minReadySeconds"] = json!(10);
    world.create(&DAEMON_SET, ds);
}

/// The wait exceeds the interval of bookmarks, which would otherwise start a sync even if timers do
/// not.
fn create_with_long_min_ready(world: &mut World) {
    let mut ds = manifest("a", 1);
    ds["spec"]["minReadySeconds"] = json!(90);
    world.create(&DAEMON_SET, ds);
}

fn create_without_history(world: &mut World) {
    create_with(world, json!({"maxUnavailable": 1, "maxSurge": 0}), 0);
}

fn set_image(world: &mut World, image: u32) {
    let Some(mut ds) = world.stored(&DAEMON_SET, NAMESPACE, "a") else { return };
    ds["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("image:{image}"));
    world.update(&DAEMON_SET, ds);
}

fn first_image(world: &mut World) {
    set_image(world, 1);
}

fn second_image(world: &mut World) {
    set_image(world, 2);
}

fn third_image(world: &mut World) {
    set_image(world, 3);
}

fn delete_with(world: &mut World, policy: PropagationPolicy) {
    let delete = DeleteOptions { propagation_policy: Some(policy), ..DeleteOptions::default() };
    world.delete(&DAEMON_SET, &named("a"), &delete);
}

/// Metadata with which an object is found.
fn named(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": NAMESPACE}})
}

fn delete(world: &mut World) {
    delete_with(world, PropagationPolicy::Background);
}

/// Deletes the DaemonSet and creates it anew, while the pods of the first one end.
fn replace(world: &mut World) {
    delete(world);
    create_second(world);
}

fn delete_foreground(world: &mut World) {
    delete_with(world, PropagationPolicy::Foreground);
}

fn delete_orphan(world: &mut World) {
    delete_with(world, PropagationPolicy::Orphan);
}

/// Creates a second revision of the same template, as an older controller may have left it.
fn duplicate_revision(world: &mut World) {
    let Some(mut copy) =
        world.all(&CONTROLLER_REVISION).into_iter().find(|revision| revision["revision"] == 1)
    else {
        return;
    };
    let metadata = copy["metadata"].as_object_mut().expect("objects have metadata");
    metadata.retain(|key, _| matches!(key.as_str(), "namespace" | "labels" | "ownerReferences"));
    metadata.insert("name".to_owned(), json!("a-double"));
    copy["metadata"]["labels"][HASH_LABEL] = json!("double");
    world.create(&CONTROLLER_REVISION, copy);
}

/// Replaces every revision with one that has the same name and other data.
fn replace_revisions(world: &mut World) {
    for revision in world.all(&CONTROLLER_REVISION) {
        let name = revision["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        world.delete(&CONTROLLER_REVISION, &revision, &DeleteOptions::default());
        let other = json!({
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {"spec": {"template": {"$patch": "replace", "spec": {"containers": []}}}},
            "revision": 1,
        });
        world.create(&CONTROLLER_REVISION, other);
    }
}

/// Replaces the newest revision with one that lacks a default, as an API server of an earlier
/// version has stored it.
fn drop_default(world: &mut World) {
    let newest = world
        .all(&CONTROLLER_REVISION)
        .into_iter()
        .max_by_key(|revision| revision["revision"].as_i64());
    let Some(mut revision) = newest else { return };
    world.delete(&CONTROLLER_REVISION, &revision, &DeleteOptions::default());
    let metadata = revision["metadata"].as_object_mut().expect("objects have metadata");
    metadata.retain(|key, _| !matches!(key.as_str(), "uid" | "resourceVersion"));
    let spec = revision["data"]["spec"]["template"]["spec"].as_object_mut();
    spec.and_then(|spec| spec.remove("dnsPolicy"));
    world.create(&CONTROLLER_REVISION, revision);
}

fn remove_revision_labels(world: &mut World) {
    for mut revision in world.all(&CONTROLLER_REVISION) {
        if let Some(labels) = revision["metadata"]["labels"].as_object_mut() {
            labels.remove(HASH_LABEL);
        }
        world.update(&CONTROLLER_REVISION, revision);
    }
}

fn relabel(world: &mut World) {
    let Some(mut pod) = ended_pods::first(world) else { return };
    pod["metadata"]["labels"]["app"] = json!("none");
    world.update(&POD, pod);
}

fn delete_node(world: &mut World) {
    let node = json!({"metadata": {"name": "node-0002"}});
    world.delete(&NODE, &node, &DeleteOptions::default());
}

fn add_node(world: &mut World) {
    let made = nodes::generate(4, 1).expect("the number is in range");
    let now = world.now;
    let done = world.cluster.add_nodes(made.into_iter().filter(is_new).collect(), now);
    world.log(|| format!("somebody adds nodes: {done:?}"));
}

fn is_new(node: &Value) -> bool {
    matches!(node["metadata"]["name"].as_str(), Some("node-0002" | "node-0004"))
}
