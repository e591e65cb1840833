//! Admission of pods by the kubelet (S22), with the messages of upstream's kubelet.

use everynode_core::api::TaintEffect;

use super::machine::Machine;
use super::machine_state::MachineState;
use crate::cluster::placement::placement;
use crate::json::Value;
use everynode_k8s::fit::{Misfit, Usage, matches_affinity};

/// The reason and the message of a rejected pod.
pub(super) type Rejection = (String, String);

/// Checks resources, affinity, ports, NoExecute taints and shutdown, in upstream's order.
pub(super) fn check(machine: &Machine, pod: &Value, usage: &Usage) -> Result<(), Rejection> {
    let misfits = machine.room.admission_misfits(usage);
    for misfit in &misfits {
        if let Misfit::Insufficient(shortage) = misfit
            && (shortage.capacity > 0 || !shortage.resource.contains('/'))
        {
            let message = format!(
                "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}",
                shortage.resource, shortage.requested, shortage.used, shortage.capacity
            );
            return Err((format!("OutOf{}", shortage.resource), message));
        }
    }
    let placement = placement(&pod["spec"]);
    if !matches_affinity(&placement, &machine.room.node) {
        return Err(predicate("NodeAffinity", &Misfit::Affinity.reason()));
    }
    if misfits.contains(&Misfit::HostPorts) {
        return Err(predicate("NodePorts", &Misfit::HostPorts.reason()));
    }
    let untolerated = machine.room.node.taints.iter().any(|taint| {
        taint.effect == TaintEffect::NoExecute
            && !placement.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    });
    if untolerated {
        let reason = "node(s) had taints that the pod didn't tolerate";
        return Err(predicate("TaintToleration", reason));
    }
    if let MachineState::ShuttingDown { .. } = machine.state {
        let message = "Pod was rejected as the node is shutting down.";
        return Err(("NodeShutdown".to_owned(), message.to_owned()));
    }
    Ok(())
}

fn predicate(name: &str, reason: &str) -> Rejection {
    (name.to_owned(), format!("Predicate {name} failed: {reason}"))
}
