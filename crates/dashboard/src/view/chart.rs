//! The course of a rollout as a small picture: nodes with an available pod of the current revision
//! over the time, and the estimate of the end.

use std::fmt::Write as _;

use everynode_core::api::Timestamp;
use everynode_insight::age;
use everynode_insight::course::Course;
use everynode_insight::overview::Estimate;
use maud::{Markup, html};

/// The picture without its margins, in units of the picture.
const WIDTH: i64 = 600;
const HEIGHT: i64 = 120;
/// The space for labels.
const MARGIN: i64 = 24;
/// The maximum number of points.
const POINTS_MAX: usize = 200;

/// The picture; `desired` is the number of nodes at the end.
pub(crate) fn chart(course: &Course, desired: u32, estimate: Estimate) -> Markup {
    let done = course.available_at.len();
    let is_over = estimate == Estimate::Done;
    let last = course.available_at.last().copied().unwrap_or(course.now);
    let now = if is_over { last } else { course.now };
    let end = match estimate {
        Estimate::In { seconds, .. } => now.as_millis() + seconds as i64 * 1000,
        Estimate::Done
        | Estimate::Paused
        | Estimate::AwaitsDeletion
        | Estimate::Blocked
        | Estimate::Unknown => now.as_millis(),
    };
    let began = course.began_at.as_millis();
    let scale = Scale {
        began,
        span: (end - began).max(1),
        nodes: i64::from(desired).max(done as i64).max(1),
    };
    let seconds = now.since(course.began_at).as_secs();
    let label = format!("{done} of {desired} nodes in {}", age::duration(seconds));
    let begins = format!("{} ago", age::duration(course.now.since(course.began_at).as_secs()));
    let ends = match estimate {
        Estimate::In { seconds, .. } => format!("in about {}", age::duration(seconds)),
        Estimate::Done => format!("{} ago", age::duration(course.now.since(last).as_secs())),
        Estimate::Paused | Estimate::AwaitsDeletion | Estimate::Blocked | Estimate::Unknown => {
            "now".to_owned()
        }
    };
    let (x, y) = (scale.x(now.as_millis()), scale.y(done as i64));
    html! {
        svg.chart role="img" aria-label=(label) width=(WIDTH) height=(HEIGHT + 2 * MARGIN)
            viewBox={ "0 0 " (WIDTH) " " (HEIGHT + 2 * MARGIN) } {
            path.goal d={ "M0 " (scale.y(i64::from(desired))) "h" (WIDTH) } {}
            path.axis d={ "M0 " (scale.y(0)) "h" (WIDTH) } {}
            path.area d={ (steps(course, &scale)) "H" (x) "V" (scale.y(0)) "z" } {}
            @if matches!(estimate, Estimate::In { .. }) {
                path.estimate
                    d={ "M" (x) " " (y) "L" (WIDTH) " " (scale.y(i64::from(desired))) } {}
            }
            text x="0" y=(MARGIN - 8) { (desired) " nodes" }
            text x="0" y=(HEIGHT + 2 * MARGIN - 6) { (begins) }
            text.end x=(WIDTH) y=(HEIGHT + 2 * MARGIN - 6) { (ends) }
        }
        p { (label) }
    }
}

struct Scale {
    began: i64,
    span: i64,
    nodes: i64,
}

impl Scale {
    fn x(&self, at: i64) -> i64 {
        (at - self.began).clamp(0, self.span) * WIDTH / self.span
    }

    fn y(&self, nodes: i64) -> i64 {
        MARGIN + HEIGHT - nodes.min(self.nodes) * HEIGHT / self.nodes
    }
}

/// A step for each pod, or for several if there are many.
fn steps(course: &Course, scale: &Scale) -> String {
    let mut path = format!("M0 {}", scale.y(0));
    let times: &[Timestamp] = &course.available_at;
    let each = times.len().div_ceil(POINTS_MAX).max(1);
    for (index, chunk) in times.chunks(each).enumerate() {
        let count = index * each + chunk.len();
        let at = chunk[chunk.len() - 1].as_millis();
        let _ = write!(path, "H{}V{}", scale.x(at), scale.y(count as i64));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_rollout_rises_to_its_goal() {
        let at = |seconds: i64| Timestamp::from_seconds(1000 + seconds);
        let course =
            Course { began_at: at(0), now: at(60), available_at: vec![at(15), at(30), at(45)] };
        let scale = Scale { began: 1_000_000, span: 120_000, nodes: 6 };
        expect!["M0 144H75V124H150V104H225V84"].assert_eq(&steps(&course, &scale));
        let html = chart(&course, 6, Estimate::Paused).into_string();
        assert!(html.contains("3 of 6 nodes in 60s"), "{html}");
        let many = Course { available_at: vec![at(1); 10_000], ..course };
        assert!(steps(&many, &scale).matches('V').count() <= POINTS_MAX);
    }
}
