//! Bytes that are not UTF-8 in the objects that lists and watches serve.

use everynode_sandbox::fault::InvalidUtf8;
use everynode_sandbox::json::json;
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET, POD};
use everynode_sim::workload::{NAMESPACE, manifest};
use everynode_sim::world::{Setting, World};

const NODES: u32 = 3;
/// Longer than a rollout over all nodes takes.
const ROLLOUT_MS: i64 = 60_000;

/// C1, C2, C4: a DaemonSet with such bytes in its template is reported, and its pods get U+FFFD
/// instead. Another DaemonSet gets its pods meanwhile. The first one is rolled out as soon as its
/// template is valid.
#[test]
fn bytes_in_a_template_cost_no_other_daemon_set_its_pods() {
    // With some seeds the server streams lists, with others it does not.
    for seed in 0..6 {
        let mut world = world(seed);
        world.invalid_objects.push(invalid("a", "image:1"));
        create(&mut world, "a");
        create(&mut world, "b");
        world.start_replicas();
        world.run_for(ROLLOUT_MS);
        let nodes = NODES as usize;
        assert_eq!(pods(&world, "image:1"), nodes, "seed {seed}: pods of b");
        assert_eq!(pods(&world, "\u{fffd}mage:1"), nodes, "seed {seed}: pods of a");
        let problem = "default/a: bytes that are not UTF-8 are read as U+FFFD";
        assert!(
            world.read_report.problems.iter().any(|reported| reported == problem),
            "seed {seed}"
        );

        set_image(&mut world, "a", "image:2");
        world.run_for(ROLLOUT_MS);
        assert_eq!(pods(&world, "image:2"), nodes, "seed {seed}: pods of a, rolled out");
        assert_eq!(pods(&world, "image:1"), nodes, "seed {seed}: pods of b, as before");
        world.run_to_quiescence();
        assert_eq!(world.violation, None, "seed {seed}");
    }
}

/// C1, C4: A ControllerRevision with such bytes in its data, which any client may have
/// stored, is reported. Every DaemonSet still gets its revisions and pods.
#[test]
fn bytes_in_the_data_of_a_revision_stop_no_rollout() {
    for seed in 0..6 {
        let mut world = world(seed);
        world.invalid_objects.push(invalid("restored", "note"));
        let options = world.write_options();
        let revision = json!({
            "metadata": {"name": "restored", "namespace": NAMESPACE},
            "data": {"text": "note"},
            "revision": 1,
        });
        world.registry().create(&CONTROLLER_REVISION, NAMESPACE, revision, &options).unwrap();
        create(&mut world, "a");
        world.start_replicas();
        world.run_for(ROLLOUT_MS);
        assert_eq!(pods(&world, "image:1"), NODES as usize, "seed {seed}");
        let problem = "default/restored: bytes that are not UTF-8 are read as U+FFFD";
        assert!(
            world.read_report.problems.iter().any(|reported| reported == problem),
            "seed {seed}"
        );

        set_image(&mut world, "a", "image:2");
        world.run_for(ROLLOUT_MS);
        assert_eq!(pods(&world, "image:2"), NODES as usize, "seed {seed}");
        world.run_to_quiescence();
        assert_eq!(world.violation, None, "seed {seed}");
    }
}

/// An object in the test's namespace, whose texts get a byte that is not UTF-8.
fn invalid(name: &str, text: &str) -> InvalidUtf8 {
    InvalidUtf8 { namespace: NAMESPACE.to_owned(), name: name.to_owned(), text: text.to_owned() }
}

fn world(seed: u64) -> World {
    let setting = Setting { seed, nodes: NODES, nodes_max: NODES, ..Setting::default() };
    World::new(setting)
}

fn create(world: &mut World, name: &str) {
    let options = world.write_options();
    let created = world.registry().create(&DAEMON_SET, NAMESPACE, manifest(name, 1), &options);
    created.expect("the name is free");
}

fn set_image(world: &mut World, name: &str, image: &str) {
    let stored = world.cluster.store().find(&DAEMON_SET, NAMESPACE, name).expect("it was created");
    let mut ds = stored.value().clone();
    ds["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    let options = world.write_options();
    let updated = world.registry().update(&DAEMON_SET, NAMESPACE, name, ds, &options);
    updated.expect("no other client has changed the DaemonSet");
    world.settle();
}

/// Number of pods with this image.
fn pods(world: &World, image: &str) -> usize {
    let pods = world.cluster.store().iter(&POD, None);
    pods.filter(|pod| pod.value()["spec"]["containers"][0]["image"] == image).count()
}
