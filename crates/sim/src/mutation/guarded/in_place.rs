//! The reading of pods that are changed in place, with a deliberate bug.

use everynode_core::api::{CHANGING_ANNOTATION, HASH_LABEL};
use everynode_sandbox::json::{Value, json};

use super::GuardedMutation;

impl GuardedMutation {
    pub(super) fn change_changing(self, pod: &mut Value) {
        let stated = pod["metadata"]["annotations"][CHANGING_ANNOTATION].as_str();
        let stated = stated.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let Some(stated) = stated else { return };
        match self {
            Self::ChangedAtOnce => {
                pod["metadata"]["labels"][HASH_LABEL] = stated["to"].clone();
                let annotations = pod["metadata"]["annotations"].as_object_mut();
                annotations.map(|all| all.remove(CHANGING_ANNOTATION));
            }
            Self::FinishEarly => {
                let generation = pod["metadata"]["generation"].clone();
                let status = &mut pod["status"];
                status["observedGeneration"] = generation;
                if let Some(conditions) = status["conditions"].as_array_mut() {
                    let is_resize = |it: &Value| {
                        it["type"].as_str().is_some_and(|kind| kind.starts_with("PodResize"))
                    };
                    conditions.retain(|condition| !is_resize(condition));
                }
                for container in status["containerStatuses"].as_array_mut().into_iter().flatten() {
                    container["containerID"] = json!("containerd://another");
                    let started = json!({"startedAt": "2026-01-01T00:00:00Z"});
                    container["state"] = json!({"running": started});
                }
            }
            _ => {}
        }
    }
}
