//! Which pods and revisions belong to a DaemonSet (C21).
//!
//! The one place that knows these rules. Upstream: `BaseControllerRefManager.ClaimObject`.

use crate::api::{DaemonSet, LabelSelector, Labels, Pod, Uid};

/// The relation of a pod or a revision to a DaemonSet of the same namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The DaemonSet is its controller, and the selector matches.
    Owned,
    /// The DaemonSet is its controller, but the selector does not match: it is to be released.
    Released,
    /// It has no controller and the selector matches: it is to be adopted.
    Orphan,
    /// It belongs to another controller, or to none and is not to be adopted.
    Foreign,
}

impl Ownership {
    /// The relation of an object with this controller and these labels. `terminating` is whether
    /// the object has a deletion timestamp: such an object is never adopted.
    ///
    /// A malformed selector releases and adopts nothing.
    pub fn determine(
        daemon_set: &DaemonSet,
        controller: Option<&Uid>,
        labels: &Labels,
        terminating: bool,
    ) -> Self {
        let selector = daemon_set.selector.as_ref();
        Self::determine_for(&daemon_set.uid, selector, controller, labels, terminating)
    }

    /// The same, for a DaemonSet with this UID and this selector.
    pub(crate) fn determine_for(
        owner: &Uid,
        selector: Option<&LabelSelector>,
        controller: Option<&Uid>,
        labels: &Labels,
        terminating: bool,
    ) -> Self {
        match controller {
            Some(uid) if uid != owner => Self::Foreign,
            Some(_) if selector.is_none_or(|selector| selector.matches(labels)) => Self::Owned,
            Some(_) => Self::Released,
            None if !terminating && adopts(selector, labels) => Self::Orphan,
            None => Self::Foreign,
        }
    }
}

/// True if changes of an object with this controller and these labels may change what is planned
/// for the DaemonSet: it is the controller, or there is none and the selector matches.
///
/// Unlike [`Ownership::determine`], this includes terminating objects without a controller: the
/// DaemonSet may know them as orphans.
pub fn concerns(daemon_set: &DaemonSet, controller: Option<&Uid>, labels: &Labels) -> bool {
    match controller {
        Some(uid) => *uid == daemon_set.uid,
        None => adopts(daemon_set.selector.as_ref(), labels),
    }
}

/// True if the pod belongs to a former DaemonSet: one with the name and selector of this one that
/// was deleted. The garbage collector deletes its pods (C36).
pub fn is_former(daemon_set: &DaemonSet, pod: &Pod) -> bool {
    let of_former = pod.controller.as_ref().is_some_and(|uid| *uid != daemon_set.uid)
        && pod.controller_name.as_ref() == Some(&daemon_set.key.name)
        && pod.namespace == daemon_set.key.namespace;
    of_former && adopts(daemon_set.selector.as_ref(), &pod.labels)
}

/// True if a DaemonSet with this selector adopts objects with these labels. An empty selector
/// adopts nothing (C33).
pub(crate) fn adopts(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{
        DaemonSetKey, LabelOperator, LabelRequirement, Placement, PolicySource, ResourceVersion,
        Status, Template, UpdateStrategy,
    };

    fn daemon_set(selector: Option<LabelSelector>) -> DaemonSet {
        DaemonSet {
            copies: None,
            key: DaemonSetKey::new("ns", "d"),
            uid: "d".into(),
            resource_version: ResourceVersion(1),
            generation: 1,
            terminating: false,
            selector,
            template: Template::new("{}", Placement::default()),
            template_generation: None,
            paused: false,
            policy: PolicySource::None,
            order: None,
            retry: None,
            rolled_back: None,
            update_strategy: UpdateStrategy::OnDelete,
            min_ready_seconds: 0,
            revision_history_limit: 10,
            status: Status::default(),
            problems: Vec::new(),
        }
    }

    /// C21, C33: the controller, the selector and the deletion timestamp decide who owns an object.
    #[test]
    fn controller_and_selector_decide_ownership() {
        use Ownership::{Foreign, Orphan, Owned, Released};
        let app = LabelRequirement { key: "app".into(), operator: LabelOperator::Exists };
        let selecting = daemon_set(Some(LabelSelector { requirements: vec![app] }));
        let selecting_all = daemon_set(Some(LabelSelector::default()));
        let malformed = daemon_set(None);
        let (matching, other) = (Labels::from_iter([("app", "d")]), Labels::default());
        let (own, foreign) = (Uid::new("d"), Uid::new("e"));
        for (daemon_set, controller, labels, terminating, expected, concerned) in [
            (&selecting, Some(&own), &matching, true, Owned, true),
            (&selecting, Some(&own), &other, false, Released, true),
            (&selecting, Some(&foreign), &matching, false, Foreign, false),
            (&selecting, None, &matching, false, Orphan, true),
            (&selecting, None, &matching, true, Foreign, true),
            (&selecting, None, &other, false, Foreign, false),
            (&selecting_all, Some(&own), &other, false, Owned, true),
            (&selecting_all, None, &matching, false, Foreign, false),
            (&malformed, Some(&own), &other, false, Owned, true),
            (&malformed, None, &matching, false, Foreign, false),
        ] {
            let found = Ownership::determine(daemon_set, controller, labels, terminating);
            assert_eq!(found, expected, "{controller:?} {labels:?} {terminating}");
            assert_eq!(concerns(daemon_set, controller, labels), concerned);
        }
    }
}
