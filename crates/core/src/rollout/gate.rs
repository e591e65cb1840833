//! Which revision governs a node: the one that decides whether a pod may run there, and from which
//! a missing pod is created (G1).
//!
//! Without a policy and a pause, that is the current revision, the *target*, on every node, and
//! nothing here is read. Otherwise nodes whose wave is open, or that have a pod of the target, are
//! governed by the target. Other nodes keep the revision that they have, and nodes without a pod
//! get the *base*. While a failed rollout goes back, the base governs the nodes that have the
//! target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{
    Labels, Node, Overrides, RecordState, Revision, RevisionHash, RolloutPhase, Template,
};
use crate::node::{Direction, PodView, Wanted, Wave};
use crate::placement::{self, Eligibility};
use crate::revisions::{RevisionLabels, RevisionSet};

/// Which nodes the target governs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// All of them.
    #[default]
    Open,
    /// Not all of them.
    Guarded(GuardedGate),
}

/// How a guarded or paused rollout governs nodes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GuardedGate {
    /// The stored revisions of other templates than the target's.
    templates: BTreeMap<RevisionHash, Template>,
    /// The revision of nodes without a pod. `None` if that is the target.
    base: Option<RevisionHash>,
    /// The hashes of all revisions that store the base's template, with any overrides (G57).
    of_base: BTreeSet<RevisionHash>,
    /// The overrides of the base.
    base_overrides: Option<Arc<Overrides>>,
    /// True if the target is stored, or was until another client changed that. If not, labels still
    /// tell which pods had the previous target.
    is_target_known: bool,
    movement: Movement,
}

/// Which pods are replaced. None is while the rollout is paused or without a valid policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Movement {
    /// Open nodes get the target, if any pod is replaced.
    Forward { replaces: bool },
    /// Nodes with the target get the base, if any pod is replaced.
    Back { replaces: bool },
    /// None is replaced, and the target governs all nodes, although there are no waves.
    Everywhere,
}

impl Movement {
    const fn direction(self) -> Direction {
        match self {
            Self::Forward { .. } | Self::Everywhere => Direction::Forward,
            Self::Back { .. } => Direction::Back,
        }
    }

    const fn replaces(self) -> bool {
        match self {
            Self::Forward { replaces } | Self::Back { replaces } => replaces,
            Self::Everywhere => false,
        }
    }
}

/// The revision that governs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoverningRevision<'a> {
    /// Hash and template of an older revision. `None` if the target governs.
    pub old: Option<(&'a RevisionHash, &'a Template)>,
    /// Which of the node's pods the rollout wants there.
    pub wanted: Wanted,
}

/// The verdict of the governing revision on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// A pod stays, and leaves within the budget, which only the placement of another revision
    /// than its own removes.
    pub eligibility: Eligibility,
    /// True if the node has such a pod, or would have one if the target governed it (G42).
    pub loses_pod: bool,
    /// True if the node has no pod, and neither the target nor the base may run there.
    pub is_barred: bool,
}

impl<'a> GoverningRevision<'a> {
    pub(crate) const TARGET: Self = Self { old: None, wanted: Wanted::Target };

    /// The template of the revision; `target` is the DaemonSet's.
    pub(crate) fn template(self, target: &'a Template) -> &'a Template {
        self.old.map_or(target, |(_, template)| template)
    }
}

impl Gate {
    /// The gate of a paused or guarded rollout. The base is the revision that was last rolled out
    /// to the end (G36). While no record states one, it is the newest old revision that a pod has
    /// and of which no rollout is known. If no pod has one, the target is rolled out already,
    /// unless it has no pods either: then the base remains what it was, or what was the target.
    /// `in_use` is the revision that is about to be recorded as complete, because it is in use
    /// (G37). `labels` may be those of the previous target.
    pub(crate) fn guarded(
        &self,
        revisions: &RevisionSet<'_>,
        in_use: Option<&Revision>,
        labels: &RevisionLabels,
        is_target_known: bool,
        movement: Movement,
    ) -> Self {
        let stored = |old: &&Revision| Some((old.pod_hash(), old.template.clone().ok()?));
        let templates: BTreeMap<_, _> = revisions.old.iter().filter_map(stored).collect();
        let is_stored = |hash: &RevisionHash| templates.contains_key(hash);
        let known = revisions.old.iter().filter(|old| old.record.is_known());
        let known: Vec<_> = known.map(|old| old.pod_hash()).collect();
        let may_be_base = |hash: &RevisionHash| is_stored(hash) && !known.contains(hash);
        let newest_first = || revisions.old.iter().rev();
        let hashes = newest_first().map(|old| old.pod_hash());
        let used = hashes.filter(may_be_base).find(|hash| labels.is_live(hash));
        // Its record may have been that of the base.
        let is_unreadable = |old: &&&Revision| matches!(old.record, RecordState::Malformed(_));
        let unreadable = newest_first().filter(is_unreadable).map(|old| old.pod_hash());
        let used = used.or_else(|| unreadable.filter(is_stored).find(|hash| labels.is_live(hash)));
        let is_rolled_out = || revisions.current_hashes().iter().any(|hash| labels.is_live(hash));
        let before = || self.base().into_iter().chain(labels.current_hashes()).cloned();
        // Without a guard somebody has gone back to the target, which was complete before.
        let is_left = |hash: &RevisionHash| {
            let current = revisions.current.and_then(|current| current.record.stored());
            let was_complete = current.is_some_and(|it| it.phase == RolloutPhase::Complete);
            was_complete && is_rolled_out() && !labels.is_live(hash)
        };
        let stated = revisions.current.and_then(|current| current.record.stored()?.base.as_ref());
        let complete = match in_use {
            Some(it) if revisions.current.is_some_and(|current| current.uid == it.uid) => {
                Some(Complete::Current)
            }
            Some(old) => Some(Complete::Old(old.pod_hash())),
            None => last_complete(revisions),
        };
        let base = match (complete, used) {
            // Another controller has merged it with the target, and all nodes keep what they have.
            _ if stated.is_some_and(|stated| !is_stored(stated)) => None,
            (Some(Complete::Old(hash)), _) if is_left(&hash) => None,
            (Some(Complete::Old(hash)), _) if is_stored(&hash) => Some(hash),
            (Some(Complete::Current), _) => None,
            (_, Some(hash)) => Some(hash),
            (_, None) if is_rolled_out() => None,
            (_, None) => before().find(may_be_base),
        };
        let base_template = base.as_ref().and_then(|base| templates.get(base));
        let all = revisions.old.iter().chain(&revisions.duplicates).chain(&revisions.current);
        let of_base = all.filter(|it| base_template.is_some_and(|base| it.stores(base)));
        let of_base = of_base.map(|it| it.pod_hash()).collect();
        let is_base = |old: &&&Revision| Some(old.pod_hash()) == base;
        let base_overrides = revisions.old.iter().find(is_base);
        let base_overrides = base_overrides.and_then(|base| base.overrides.clone());
        Self::Guarded(GuardedGate {
            templates,
            base,
            of_base,
            base_overrides,
            is_target_known,
            movement,
        })
    }

    /// The hash of the base, unless that is the target. History keeps it (G16).
    pub(crate) const fn base(&self) -> Option<&RevisionHash> {
        match self {
            Self::Open => None,
            Self::Guarded(guarded) => guarded.base.as_ref(),
        }
    }

    /// The hashes of pods that have the template of the base, unless that is the target.
    pub(crate) const fn of_base(&self) -> Option<&BTreeSet<RevisionHash>> {
        match self {
            Self::Open => None,
            Self::Guarded(guarded) => Some(&guarded.of_base),
        }
    }

    /// The overrides of the base, unless that is the target.
    pub(crate) const fn base_overrides(&self) -> Option<&Arc<Overrides>> {
        match self {
            Self::Open => None,
            Self::Guarded(guarded) => guarded.base_overrides.as_ref(),
        }
    }

    /// True if the target governs all nodes.
    pub(crate) const fn is_open(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Guarded(_) => false,
        }
    }

    /// True unless labels still tell which pods had the previous target.
    pub(crate) const fn is_target_known(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Guarded(guarded) => guarded.is_target_known,
        }
    }

    /// The direction of the rollout.
    pub(crate) const fn direction(&self) -> Direction {
        match self {
            Self::Open => Direction::Forward,
            Self::Guarded(guarded) => guarded.movement.direction(),
        }
    }

    /// True if any pod is replaced for its revision.
    pub(crate) const fn replaces(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Guarded(guarded) => guarded.movement.replaces(),
        }
    }

    /// The revision that governs a node with these pods, whose wave is open or not.
    pub(crate) fn governing(
        &self,
        pods: &[PodView],
        wave: Wave,
        labels: &RevisionLabels,
    ) -> GoverningRevision<'_> {
        match self {
            Self::Open => GoverningRevision::TARGET,
            Self::Guarded(guarded) => guarded.governing(pods, wave, labels),
        }
    }

    /// The verdict beside the built-in controller, which places all pods by the target, at once: in
    /// open waves, too, a pod is counted that it has removed.
    pub(crate) fn verdict_beside(
        &self,
        target: &Template,
        namespace_node_selector: &Labels,
        node: &Node,
        pods: &[PodView],
        labels: &RevisionLabels,
    ) -> Verdict {
        let by = |template: &Template| {
            placement::eligibility(&template.placement, namespace_node_selector, node)
        };
        let eligibility = by(target);
        let loses_pod = match self {
            Self::Guarded(guarded)
                if self.direction() == Direction::Forward
                    && !eligibility.should_continue_running() =>
            {
                let allows = |(_, own): (_, &Template)| {
                    own.placement != target.placement && by(own).should_run()
                };
                guarded.kept(pods.iter(), labels).is_some_and(allows)
            }
            Self::Open | Self::Guarded(_) => false,
        };
        let is_barred = self.is_barred(eligibility, pods, by);
        Verdict { eligibility, loses_pod, is_barred }
    }

    /// True if the node has no pod, and neither the target, of which it is `found` whether it may
    /// run, nor the base may run there. Where no base is stored, the target may be why.
    fn is_barred(
        &self,
        found: Eligibility,
        pods: &[PodView],
        by: impl Fn(&Template) -> Eligibility,
    ) -> bool {
        let Self::Guarded(guarded) = self else { return false };
        let base = guarded.base.as_ref().and_then(|base| guarded.templates.get(base));
        !found.should_run()
            && !pods.iter().any(PodView::counts)
            && base.is_some_and(|base| !by(base).should_run())
    }

    /// The verdict on a node with these pods, by the revision that governs it.
    pub(crate) fn verdict(
        &self,
        governing: GoverningRevision<'_>,
        target: &Template,
        namespace_node_selector: &Labels,
        node: &Node,
        pods: &[PodView],
        labels: &RevisionLabels,
    ) -> Verdict {
        let by = |template: &Template| {
            placement::eligibility(&template.placement, namespace_node_selector, node)
        };
        let template = governing.template(target);
        let found = by(template);
        let Self::Guarded(guarded) = self else { return Verdict::new(found) };
        let removes = |from: &Template, to: &Template| {
            from.placement != to.placement && !by(to).should_continue_running()
        };
        let own = |pod: &PodView| guarded.stored_revision(pod, labels).map(|(_, own)| own);
        let is_forward = self.direction() == Direction::Forward;
        let mut counted = pods.iter().filter(|pod| pod.counts());
        match (governing.wanted, found.should_continue_running()) {
            (Wanted::Kept, true) => {
                let loses_pod = is_forward
                    && counted.any(|pod| !pod.is_terminating())
                    && removes(template, target);
                Verdict { loses_pod, ..Verdict::new(found) }
            }
            // Nothing states where a pod may run whose revision is not stored, so it stays, and is
            // one that only the target would remove.
            (Wanted::Kept, false) => {
                let is_known = |pod: &PodView| guarded.is_target(pod, labels) || own(pod).is_some();
                let stays = !pods.iter().all(is_known);
                let eligibility = if stays { Eligibility::ContinueRunning } else { found };
                let loses_pod = is_forward
                    && stays
                    && counted.any(|pod| !pod.is_terminating())
                    && !by(target).should_continue_running();
                Verdict { loses_pod, ..Verdict::new(eligibility) }
            }
            (Wanted::Target, _) if self.is_barred(found, pods, by) => {
                Verdict { is_barred: true, ..Verdict::new(found) }
            }
            (Wanted::Target | Wanted::Base, true) => Verdict::new(found),
            (Wanted::Target | Wanted::Base, false) => {
                let allows = |own: &Template| removes(own, template) && by(own) != found;
                let loses_pod = counted.any(|pod| {
                    let own = if guarded.is_target(pod, labels) { Some(target) } else { own(pod) };
                    own.map_or(is_forward, allows)
                });
                let eligibility = if loses_pod { Eligibility::ContinueRunning } else { found };
                Verdict { loses_pod, ..Verdict::new(eligibility) }
            }
        }
    }
}

impl Verdict {
    pub(crate) const fn new(eligibility: Eligibility) -> Self {
        Self { eligibility, loses_pod: false, is_barred: false }
    }
}

impl GuardedGate {
    fn governing(
        &self,
        pods: &[PodView],
        wave: Wave,
        labels: &RevisionLabels,
    ) -> GoverningRevision<'_> {
        let base = || self.templates.get_key_value(self.base.as_ref()?);
        let present = || pods.iter().filter(|pod| !pod.has_left());
        let has_target = || {
            // Beside another pod, one that terminates is left from an earlier rollout, and an
            // orphan may turn out to be one too many.
            let stays = |pod: &&PodView| !pod.is_terminating() && !pod.is_orphan();
            let any_stays = pods.iter().any(|pod| stays(&pod));
            let mut pods = present().filter(|pod| !any_stays || stays(pod));
            pods.any(|pod| self.is_target(pod, labels))
        };
        let has_failed =
            || self.is_target_known && present().any(|pod| pod.is_of_target_revision(labels));
        match self.movement.direction() {
            Direction::Forward
                if wave.is_open() || self.movement == Movement::Everywhere || has_target() =>
            {
                GoverningRevision::TARGET
            }
            Direction::Back if wave.is_held() && has_failed() => {
                GoverningRevision { old: None, wanted: Wanted::Kept }
            }
            // A pod that cannot be changed to the base is half of the target's. Without a base
            // there is nothing to go back to, and no other pod becomes one of the target.
            Direction::Back if has_failed() || present().any(PodView::is_given_up) => {
                match base() {
                    Some(base) => GoverningRevision { old: Some(base), wanted: Wanted::Base },
                    None if has_target() => GoverningRevision::TARGET,
                    None => {
                        let old = self.kept(present(), labels);
                        GoverningRevision { old, wanted: Wanted::Kept }
                    }
                }
            }
            Direction::Forward | Direction::Back => {
                GoverningRevision { old: self.kept(present(), labels), wanted: Wanted::Kept }
            }
        }
    }

    /// The older revision that a node with these pods has, or else the base.
    fn kept<'a>(
        &self,
        pods: impl Iterator<Item = &'a PodView>,
        labels: &RevisionLabels,
    ) -> Option<(&RevisionHash, &Template)> {
        let mut stored = pods.filter_map(|pod| self.stored_revision(pod, labels));
        stored.next().or_else(|| self.templates.get_key_value(self.base.as_ref()?))
    }

    fn is_target(&self, pod: &PodView, labels: &RevisionLabels) -> bool {
        self.is_target_known
            && pod.is_updated(labels)
            && self.stored_revision(pod, labels).is_none_or(|(hash, _)| labels.is_variant(hash))
    }

    fn stored_revision(
        &self,
        pod: &PodView,
        labels: &RevisionLabels,
    ) -> Option<(&RevisionHash, &Template)> {
        self.templates.get_key_value(labels.hash(pod.labels)?)
    }
}

/// The revision to which a rollout goes back that was promoted in full and needs no policy (G43).
pub(crate) fn base_without_policy(revisions: &RevisionSet<'_>) -> Option<RevisionHash> {
    let record = revisions.current?.record.stored()?;
    match last_complete(revisions).filter(|_| record.is_promoted_in_full())? {
        Complete::Current => None,
        Complete::Old(hash) => Some(hash),
    }
}

/// The revision whose rollout was completed last.
enum Complete {
    Current,
    Old(RevisionHash),
}

fn last_complete(revisions: &RevisionSet<'_>) -> Option<Complete> {
    let completed = |revision: &Revision| {
        let record = revision.record.stored()?;
        (record.phase == RolloutPhase::Complete).then_some((record.since, revision.number))
    };
    let current = revisions.current.and_then(completed).map(|at| (at, Complete::Current));
    let old = revisions
        .old
        .iter()
        .filter_map(|old| Some((completed(old)?, Complete::Old(old.pod_hash()))));
    old.chain(current).max_by_key(|(at, _)| *at).map(|(_, complete)| complete)
}
