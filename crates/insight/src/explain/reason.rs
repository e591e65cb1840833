//! Reasons against a pod on a node, in a form that nodes with different labels can share.

use everynode_core::placement::Reason;

/// All reasons as one text. It omits the node's label values, so that nodes with different values
/// form one group.
pub(super) fn shared_text(reasons: &[Reason<'_>]) -> String {
    let texts: Vec<String> = reasons.iter().map(text).collect();
    texts.join("; ")
}

fn text(reason: &Reason<'_>) -> String {
    match reason {
        Reason::NodeSelector { key, wanted, found } => {
            format!("nodeSelector wants {key}={wanted}, {}", mismatch(*found))
        }
        Reason::NamespaceNodeSelector { key, wanted, found } => {
            format!("the namespace's node selector wants {key}={wanted}, {}", mismatch(*found))
        }
        Reason::NodeName { .. } | Reason::NodeAffinity { .. } | Reason::Taint(_) => {
            reason.to_string()
        }
    }
}

const fn mismatch(found: Option<&str>) -> &'static str {
    match found {
        Some(_) => "the node has another value",
        None => "the node has no such label",
    }
}
