//! Answers as files that can be attached to a ticket: HTML without scripts, which refers to nothing
//! else.

use everynode_insight::explain::{Explanation, NodeExplanation};
use everynode_insight::forecast::Forecast;
use everynode_insight::rollout::{CauseGroup, Rollout, announced};
use maud::{Markup, html};

use crate::view::{self, class, shown};

/// A report of an answer.
#[derive(Clone, Debug)]
pub struct Report {
    /// When the cluster was read, such as `2026-11-23 20:00:00 UTC`.
    pub at: String,
    /// The context and the server; `None` if no cluster was read.
    pub cluster: Option<String>,
}

impl Report {
    /// The answer of `everynode explain`.
    pub fn explanations(&self, explanations: &[Explanation]) -> String {
        self.file("Nodes of DaemonSets", explanations, explanation)
    }

    /// The answer of `everynode explain --node`.
    pub fn node_explanations(&self, explanations: &[NodeExplanation]) -> String {
        self.file("DaemonSets on a node", explanations, |explanation| {
            let NodeExplanation { namespace, name, node, .. } = explanation;
            html! {
                h2 {
                    "DaemonSet " (shown(&format!("{namespace}/{name}"))) " on node " (shown(node))
                }
                p { (shown(&explanation.rollout)) }
                (view::node::on_node(explanation))
                (problems(&explanation.problems))
            }
        })
    }

    /// The answer of `everynode status`.
    pub fn rollout(&self, rollout: &Rollout) -> String {
        self.file("Rollout of a DaemonSet", std::slice::from_ref(rollout), self::rollout)
    }

    /// The answer of `everynode plan`.
    pub fn forecasts(&self, forecasts: &[Forecast]) -> String {
        self.file("Plan", forecasts, view::plan::forecast)
    }

    fn file<T>(&self, title: &str, answers: &[T], body: impl Fn(&T) -> Markup) -> String {
        let body = html! {
            h1 { (title) }
            p { @if let Some(cluster) = &self.cluster { (shown(cluster)) ", " } (self.at) }
            @for answer in answers { article { (body(answer)) } }
        };
        view::report(title, &body).into_string()
    }
}

fn explanation(explanation: &Explanation) -> Markup {
    let Explanation { namespace, name, nodes, desired, ready, available, updated, .. } =
        explanation;
    let counts = [
        ("nodes", *nodes),
        ("should run it", Some(*desired)),
        ("ready", *ready),
        ("available", *available),
        ("up to date", *updated),
    ];
    html! {
        h2 { "DaemonSet " (shown(&format!("{namespace}/{name}"))) }
        p { (shown(&explanation.update_strategy.to_string())) "; " (shown(&explanation.rollout)) }
        dl.counts {
            @for (name, count) in counts {
                @if let Some(count) = count { div { dt { (name) } dd { (count) } } }
            }
        }
        @if let Some(next) = &explanation.next { p.next { (shown(&announced(next))) } }
        (problems(&explanation.problems))
        (view::groups::groups(explanation.groups.iter().map(Into::into), None))
    }
}

fn rollout(rollout: &Rollout) -> Markup {
    let Rollout { namespace, name, .. } = rollout;
    html! {
        h2 { "DaemonSet " (shown(&format!("{namespace}/{name}"))) }
        (view::daemon_set::progress(rollout))
        (view::daemon_set::next(rollout))
        @if let Some(wave) = rollout.guard.as_ref().and_then(|guard| guard.wave.as_ref()) {
            p { (shown(&wave.to_string())) }
        }
        ul.groups { @for group in rollout.groups() { (cause(&group)) } }
    }
}

fn cause(group: &CauseGroup) -> Markup {
    html! {
        li class=(class(group.cause.situation())) {
            p { (shown(&group.to_string())) }
            @if let Some(next) = &group.cause.next { p.next { (shown(&announced(next))) } }
        }
    }
}

fn problems(problems: &[String]) -> Markup {
    html! { @for problem in problems { p.bad { (shown(problem)) } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_insight::explain::NodeGroup;
    use everynode_insight::rollout::Strategy;
    use everynode_insight::situation::Situation;

    fn explained(why: &str, nodes: usize) -> Explanation {
        Explanation {
            namespace: "infra".to_owned(),
            name: "agent".to_owned(),
            nodes: Some(nodes),
            desired: nodes,
            ready: Some(0),
            available: None,
            updated: None,
            update_strategy: Strategy(everynode_core::api::UpdateStrategy::OnDelete),
            rollout: "rollout progress is unknown".to_owned(),
            next: Some("kubectl get nodes".to_owned()),
            problems: vec![why.to_owned()],
            groups: vec![NodeGroup {
                situation: Situation::Failing,
                why: why.to_owned(),
                detail: Some(why.to_owned()),
                next: None,
                nodes: (0..nodes).map(|number| format!("node-{number:05}")).collect(),
                remarks: Vec::new(),
            }],
        }
    }

    #[test]
    fn a_report_is_one_file_in_which_text_is_text() {
        let report =
            Report { at: "2026-11-23 20:00:00 UTC".to_owned(), cluster: Some("<prod>".to_owned()) };
        let html = report.explanations(&[explained("<script>a</script>\u{202e}", 3)]);
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&lt;script&gt;a&lt;/script&gt;&lt;U+202E&gt;"), "{html}");
        for link in ["href=", "src=", "url("] {
            assert!(!html.contains(link), "{link} in {html}");
        }
        assert!(html.contains("node-00000..00002"), "{html}");
        assert!(html.contains("try: kubectl get nodes"), "{html}");
        assert!(html.contains("<p>&lt;prod&gt;, 2026-11-23 20:00:00 UTC</p>"), "{html}");
        assert!(report.explanations(&[explained("a", 10_000)]).len() < 20_000);
    }

    /// The digest in the policy is that of the style sheet as a browser reads it.
    #[test]
    fn the_style_sheet_has_the_digest_of_its_policy() {
        use base64::Engine as _;
        use sha2::{Digest as _, Sha256};
        let html = Report { at: String::new(), cluster: None }.forecasts(&[]);
        let (_, style) = html.split_once("<style>").unwrap();
        let (style, _) = style.split_once("</style>").unwrap();
        let digest = Sha256::digest(style);
        let digest = base64::engine::general_purpose::STANDARD.encode(digest);
        assert!(html.contains(&format!("sha256-{digest}")), "{digest}");
    }
}
