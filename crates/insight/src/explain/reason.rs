//! Reasons against a pod on a node, in words that many nodes can share.

use everynode_core::placement::Reason;

/// All reasons as one text. A label's value is not told: it may differ from node to node.
pub(super) fn shared(reasons: &[Reason<'_>]) -> String {
    let texts: Vec<String> = reasons.iter().map(one).collect();
    texts.join("; ")
}

fn one(reason: &Reason<'_>) -> String {
    match reason {
        Reason::NodeSelector { key, wanted, found } => {
            format!("nodeSelector wants {key}={wanted}, {}", instead(*found))
        }
        Reason::NamespaceNodeSelector { key, wanted, found } => {
            format!("the namespace's node selector wants {key}={wanted}, {}", instead(*found))
        }
        Reason::NodeName { .. } | Reason::NodeAffinity { .. } | Reason::Taint(_) => {
            reason.to_string()
        }
    }
}

const fn instead(found: Option<&str>) -> &'static str {
    match found {
        Some(_) => "the node has another value",
        None => "the node has no such label",
    }
}
