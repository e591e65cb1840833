//! Which revision is current, which pods are of it, and what the history needs (C40–C45).

use std::time::Duration;

use everynode_core::api::{
    HASH_LABEL, Pod, Revision, RevisionHash, TEMPLATE_GENERATION_LABEL, Timestamp,
};

use crate::ownership::{self, Claim};
use crate::{Effect, Objects};

/// For how long a duplicate stays: its author may still delete the other one.
const DUPLICATE_STAYS: Duration = Duration::from_secs(5);

/// The revisions of the DaemonSet, oldest first.
fn history(objects: &Objects) -> Vec<&Revision> {
    let mut history: Vec<&Revision> = ownership::revisions(objects, Claim::Own).collect();
    history.sort_by_key(|revision| (revision.number, &revision.name));
    history
}

/// True if the revision stores the template: both mean the same (C41).
fn stores_template(objects: &Objects, revision: &Revision) -> bool {
    let template = &objects.daemon_set.template;
    revision.template.as_ref().is_ok_and(|stored| stored.canonical == template.canonical)
}

/// The revisions that store the template, and those that store others (C40). If none stores it, but
/// the newest one has the DaemonSet's template generation, they differ by a default only (C41).
fn by_template(objects: &Objects) -> (Vec<&Revision>, Vec<&Revision>) {
    let (mut same, mut others): (Vec<_>, Vec<_>) =
        history(objects).into_iter().partition(|it| stores_template(objects, it));
    let generation = objects.daemon_set.template_generation;
    if same.is_empty()
        && let Some(newest) = others.last()
        && newest.template.is_ok()
        && generation.is_some()
        && newest.template_generation == generation
    {
        same.extend(others.pop());
    }
    (same, others)
}

/// The revision that stores the template, the newest one if there are several (C40, C42).
fn current(objects: &Objects) -> Option<&Revision> {
    by_template(objects).0.last().copied()
}

/// True if more than one revision stores the template; `None` while pods cannot be created, because
/// none does or the newest one has no label (C42).
pub fn has_duplicates(objects: &Objects) -> Option<bool> {
    hash_of_new_pods(objects).map(|_| by_template(objects).0.len() > 1)
}

/// The hash for new pods. There is none before the revision is stored and has its label: one write
/// follows the other (C40, C42).
pub fn hash_of_new_pods(objects: &Objects) -> Option<RevisionHash> {
    current(objects).filter(|it| has_label(it)).map(hash)
}

fn has_label(revision: &Revision) -> bool {
    revision.labels.get(HASH_LABEL).is_some()
}

/// The hash of a revision: its label, which is written from its name if it is missing (C42).
pub(crate) fn hash(revision: &Revision) -> RevisionHash {
    let label = revision.labels.get(HASH_LABEL).map(|value| &**value);
    RevisionHash::new(label.unwrap_or(revision.name.as_str()))
}

/// True if the pod is of the current revision or of a duplicate, by hash; or by template
/// generation, if its hash is not that of a revision with another template (C42, C45).
pub(crate) fn is_current(objects: &Objects, pod: &Pod) -> bool {
    let label = |key| pod.labels.get(key).map(|value| &**value);
    let generation = objects.daemon_set.template_generation.map(|number| number.to_string());
    let has_generation =
        generation.is_some() && label(TEMPLATE_GENERATION_LABEL) == generation.as_deref();
    let has_hash = |revision: &&Revision| label(HASH_LABEL) == Some(hash(revision).as_str());
    let (current, mut others) = by_template(objects);
    let orphans = ownership::revisions(objects, Claim::Adopt);
    others.extend(orphans.filter(|it| !stores_template(objects, it)));
    let is_of_another = others.iter().filter(|it| it.template.is_ok()).any(has_hash);
    current.iter().any(has_hash) || has_generation && !is_of_another
}

/// The writes by which each revision gets its label, and one stores the template and has the
/// highest number (C40, C42). An orphan may be that one, so it is adopted first (C21).
pub(crate) fn repairs(objects: &Objects, now: Timestamp) -> Vec<Effect> {
    let unlabelled = history(objects).into_iter().filter(|it| !has_label(it));
    let mut effects: Vec<Effect> =
        unlabelled.map(|it| Effect::LabelRevision(it.uid.clone(), hash(it))).collect();
    let highest = by_template(objects).1.last().map_or(0, |it| it.number.max(0));
    let number = highest.saturating_add(1);
    match current(objects) {
        None if ownership::revisions(objects, Claim::Adopt).next().is_none() => {
            let may_create = objects.memory.revision_from.is_none_or(|from| from <= now);
            effects.extend(may_create.then_some(Effect::CreateRevision(number)));
        }
        Some(current) if has_label(current) => {
            if current.number < number {
                effects.push(Effect::RaiseRevision(current.uid.clone(), number));
            }
            effects.extend(merges(objects, current, now));
        }
        None | Some(_) => {}
    }
    effects
}

/// Pods with the hash of a duplicate get that of the current revision, then the duplicate is
/// deleted, not at once (C42).
fn merges(objects: &Objects, current: &Revision, now: Timestamp) -> Vec<Effect> {
    let mut effects = Vec::new();
    let since = objects.memory.duplicates_since.unwrap_or(now);
    for duplicate in by_template(objects).0.into_iter().filter(|it| it.uid != current.uid) {
        let is_same = hash(duplicate) == hash(current);
        if is_same || !has_pods(objects, duplicate) {
            let may_delete = !duplicate.terminating && since + DUPLICATE_STAYS <= now;
            effects.extend(may_delete.then(|| Effect::DeleteRevision(duplicate.uid.clone())));
            continue;
        }
        let pods = ownership::pods(objects, Claim::Own).filter(|pod| has_hash_of(pod, duplicate));
        effects.extend(pods.map(|pod| Effect::RelabelPod(pod.name.clone(), hash(current))));
    }
    effects
}

/// True if any pod has the hash of this revision, be it yet to be adopted, terminating or ended.
fn has_pods(objects: &Objects, revision: &Revision) -> bool {
    let mut pods =
        ownership::pods(objects, Claim::Own).chain(ownership::pods(objects, Claim::Adopt));
    pods.any(|pod| has_hash_of(pod, revision))
}

/// True if the pod has the hash of this revision.
fn has_hash_of(pod: &Pod, revision: &Revision) -> bool {
    pod.labels.get(HASH_LABEL).is_some_and(|label| **label == *hash(revision).as_str())
}

/// Deletions of old revisions beyond `revisionHistoryLimit`, the oldest first. Those that a pod has
/// stay, and count; so do those that are being deleted, until they are gone (C44).
pub(crate) fn beyond_limit(objects: &Objects) -> Vec<Effect> {
    let old = by_template(objects).1;
    let surplus = old.len().saturating_sub(objects.daemon_set.revision_history_limit as usize);
    let unused = old.into_iter().filter(|it| !has_pods(objects, it)).take(surplus);
    let deleted = unused.filter(|it| !it.terminating);
    deleted.map(|it| Effect::DeleteRevision(it.uid.clone())).collect()
}
