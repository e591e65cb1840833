//! A DaemonSet that is deleted and created again under the same name.

use everynode_core::api::{DaemonSet, LabelSelector, Template};

use crate::support::{World, daemon_set, node};

/// C1, C62: the state of a DaemonSet continues with each of its versions, but neither with a
/// successor of the same name nor with another selector, which selects other pods.
#[test]
fn a_successor_needs_a_new_state() {
    let mut world = World::new(daemon_set());
    world.apply_node(node("a"));
    world.settle();
    let known = world.server.daemon_set.clone();
    let template = Template::new("B", (*known.template.placement).clone());
    let changed = DaemonSet { generation: 2, template, ..known.clone() };
    let successor = DaemonSet { uid: "another-uid".into(), ..known.clone() };
    let selector = Some(LabelSelector::default());
    let reselected = DaemonSet { selector, ..known.clone() };
    assert!(world.state.accepts(&known) && world.state.accepts(&changed));
    assert!(!world.state.accepts(&successor));
    assert!(!world.state.accepts(&reselected));
}
