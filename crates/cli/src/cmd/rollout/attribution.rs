//! Who gives an order, and why: stated with the order, and shown (G49).

use everynode_core::api::Attribution;
use everynode_insight::guarded::{GuardedRollout, RolloutEvent};

use crate::cluster::Cluster;
use crate::output::{self, TextLayout, Tone};

/// Who gives an order now, as far as the server says who that is, for this reason.
pub(super) async fn now(cluster: &Cluster, reason: Option<&str>) -> Attribution {
    let user = cluster.user().await.unwrap_or_default();
    Attribution::new(&user, reason.unwrap_or_default())
}

/// The orders of the current rollout, one on each line; nothing without any.
pub(super) fn orders(rollout: &GuardedRollout, layout: TextLayout) -> String {
    let is_current =
        |event: &&RolloutEvent| event.revision.is_none() || event.revision == rollout.revision;
    let row = |event: &RolloutEvent| {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let cells = [
            event.order()?,
            output::date(event.time),
            or_none(&event.user),
            or_none(&event.reason),
        ];
        Some(cells.map(|text| (Tone::Plain, text)).to_vec())
    };
    let rows: Vec<_> = rollout.course.iter().filter(is_current).filter_map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => {
            let headings = ["ORDER", "TIME", "BY (AS CLAIMED)", "REASON"];
            format!("\n{}", output::table(layout, &headings, &rows))
        }
    }
}
