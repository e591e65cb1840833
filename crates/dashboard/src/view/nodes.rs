//! Every node of a DaemonSet by name.

use everynode_core::api::{DaemonSetKey, NodeName};
use maud::{Markup, html};

use super::{class, failure, link, shown};
use crate::source::{Content, DaemonSetDetail, Reading};

pub(crate) fn page(key: &DaemonSetKey, reading: &Reading<DaemonSetDetail>) -> Markup {
    let title = format!("Nodes of {key}");
    let detail = match &reading.content {
        Content::Loading => return failure(&title, "not read yet"),
        Content::Missing(why) => return failure(&title, why),
        Content::Loaded(detail) => detail,
    };
    html! {
        h1 { "Nodes of " a href=(link::daemon_set(key)) { (shown(&key.to_string())) } }
        @for group in &detail.groups {
            section class=(class(group.situation)) {
                h2 {
                    (group.nodes.len()) " " span.badge { (group.situation) } " "
                    (shown(&group.why))
                }
                ul.nodes {
                    @for node in &group.nodes {
                        li { a href=(link::node(&NodeName::from(node.as_str()))) { (shown(node)) } }
                    }
                }
            }
        }
    }
}
