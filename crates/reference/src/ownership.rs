//! Which objects belong to the DaemonSet (C21).

use everynode_core::api::{DaemonSet, Labels, Pod, Revision, Uid};

use crate::{Effect, Objects};

/// The relation of a pod or a revision to the DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It belongs to the DaemonSet.
    Own,
    /// The DaemonSet has yet to adopt it.
    Adopt,
    /// The DaemonSet owns it, and its labels no longer match.
    Release,
    /// It belongs to another owner or to nobody.
    Foreign,
}

/// The pods on which the DaemonSet has this claim. One that is to be adopted is a pod of the
/// DaemonSet once it is adopted (C21).
pub(crate) fn pods(objects: &Objects, with: Claim) -> impl Iterator<Item = &Pod> {
    let daemon_set = &objects.daemon_set;
    let is_near = move |pod: &&Pod| pod.namespace == daemon_set.key.namespace;
    let has_claim = move |pod: &&Pod| {
        claim(daemon_set, pod.controller.as_ref(), &pod.labels, pod.terminating) == with
    };
    objects.pods.iter().filter(move |pod| is_near(pod) && has_claim(pod))
}

/// The revisions on which the DaemonSet has this claim (C21).
pub(crate) fn revisions(objects: &Objects, with: Claim) -> impl Iterator<Item = &Revision> {
    let has_claim = move |it: &&Revision| {
        claim(&objects.daemon_set, it.controller.as_ref(), &it.labels, it.terminating) == with
    };
    objects.revisions.iter().filter(has_claim)
}

/// Adoptions and releases of pods and revisions (C21).
pub(crate) fn effects(objects: &Objects) -> Vec<Effect> {
    let adopted = pods(objects, Claim::Adopt).map(|pod| Effect::AdoptPod(pod.name.clone()));
    let released = pods(objects, Claim::Release).map(|pod| Effect::ReleasePod(pod.name.clone()));
    let adopted_revisions =
        revisions(objects, Claim::Adopt).map(|it| Effect::AdoptRevision(it.uid.clone()));
    let released_revisions =
        revisions(objects, Claim::Release).map(|it| Effect::ReleaseRevision(it.uid.clone()));
    adopted.chain(released).chain(adopted_revisions).chain(released_revisions).collect()
}

/// True if the selector matches these labels.
pub(crate) fn is_selected(objects: &Objects, labels: &Labels) -> bool {
    objects.daemon_set.selector.as_ref().is_some_and(|selector| selector.matches(labels))
}

fn claim(
    daemon_set: &DaemonSet,
    controller: Option<&Uid>,
    labels: &Labels,
    is_terminating: bool,
) -> Claim {
    let is_selected = daemon_set.selector.as_ref().is_some_and(|it| it.matches(labels));
    match controller {
        Some(uid) if *uid == daemon_set.uid && is_selected => Claim::Own,
        Some(uid) if *uid == daemon_set.uid => Claim::Release,
        None if is_selected && !is_terminating => Claim::Adopt,
        Some(_) | None => Claim::Foreign,
    }
}
