//! Pods that pull images (G55).

use everynode_core::api::{PULLS_FOR_LABEL, PULLS_OF_LABEL};
use everynode_core::daemon_set::Mode;

use super::*;

fn puller(name: &str, daemon_set: &str) -> PodObject {
    let json = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "labels": { PULLS_FOR_LABEL: format!("uid-{daemon_set}"), PULLS_OF_LABEL: "h" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ControllerRevision", "name": "r", "uid": "r",
                "controller": true,
            }],
        },
        "spec": { "nodeName": "n1" },
    });
    convert::pod(json.to_string().as_bytes(), &mut Interner::default()).unwrap()
}

/// G55: a puller affects the DaemonSet for which it pulls, whenever that comes, until it is gone.
#[test]
fn a_puller_affects_its_daemon_set_only() {
    let mut index = index(vec![puller("listed", "a"), puller("of-another", "c")]);
    let effects = index.observe(Observation::Pod(applied(puller("new", "a"), 2)));
    assert_eq!(changed(&effects), ["a"]);
    let again = index.observe(Observation::Pod(applied(puller("new", "a"), 3)));
    assert_eq!(changed(&again), Vec::<&str>::new(), "nothing has changed");
    let gone = |name: &str, number: u64| {
        let item = puller(name, "a");
        Observation::Pod(Change::Deleted { item, version: version(number) })
    };
    assert_eq!(changed(&index.observe(gone("new", 4))), ["a"]);
    assert_eq!(changed(&index.observe(gone("never-seen", 5))), Vec::<&str>::new());
    index.observe(Observation::DaemonSet(applied(daemon_set("c", "c"), 6)));
    let effects = index.observe(Observation::Pod(reset(vec![puller("listed", "a")], 7)));
    assert_eq!(changed(&effects), ["c"], "that of c, which came later than its puller, is gone");
}

/// G55: a controller that does not guard rollouts leaves the pullers of one beside it alone.
#[test]
fn a_controller_without_guarded_rollouts_ignores_pullers() {
    let mut index = index(vec![]);
    let mut unguarded = Index::new(Config { mode: Mode::Unguarded, ..Config::default() });
    for index in [&mut index, &mut unguarded] {
        index.observe(Observation::DaemonSet(applied(daemon_set("a", "a"), 2)));
    }
    let applied_to = |index: &mut Index| {
        changed(&index.observe(Observation::Pod(applied(puller("new", "a"), 3)))).len()
    };
    assert_eq!([applied_to(&mut index), applied_to(&mut unguarded)], [1, 0]);
}
