//! The commands about pods that pull images (G55).

use super::*;

pub(super) fn describe_pullers(world: &World) -> String {
    let mut text = String::new();
    for puller in world.server.pullers.pods.values() {
        let ImagePuller { name, node, revision, state, .. } = puller;
        writeln!(text, "{name} on {node} of {revision}: {state:?}").expect("a string grows");
    }
    text
}

/// Changes the puller of a node: `pulling`, `pulled`, `ended`, `gone`, or the reason for which it
/// cannot pull.
pub(super) fn pull(world: &mut World, node: &str, state: &str) -> String {
    let state = match state {
        "gone" => {
            world.remove_puller(&node.into());
            return String::new();
        }
        "pulling" => PullState::Pulling,
        "pulled" => PullState::Pulled,
        "ended" => PullState::Ended,
        reason => PullState::Troubled(PodTrouble::from_reason(reason).expect("a reason")),
    };
    let Some(known) = world.server.pullers.pods.get(node).cloned() else {
        return format!("no puller on {node}\n");
    };
    world.put_puller(ImagePuller { state, ..known });
    String::new()
}
