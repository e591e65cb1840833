//! Revisions: which are created, and which are deleted (C40, C42, C44).

use everynode_sandbox::kinds::CONTROLLER_REVISION;

use super::model::{Revision, is_same};
use super::situation::Situation;
use super::{PendingWrite, Property, Violation, violation};

pub(super) fn check(write: &PendingWrite, situation: &Situation) -> Option<Violation> {
    let (name, problem) = if write.creates(&CONTROLLER_REVISION) {
        let created = Revision::parse(write.body);
        let problem = creation_problem(&created, situation)?;
        (created.metadata.name, problem)
    } else if write.deletes(&CONTROLLER_REVISION) {
        let object = write.object()?;
        let version = write.body["preconditions"]["resourceVersion"].as_str();
        if version.is_some_and(|version| version != object.resource_version().to_string())
            || write.uid_precondition().is_some_and(|uid| uid != object.uid())
        {
            // The server refuses a write whose precondition fails.
            return None;
        }
        (object.name().to_owned(), deletion_problem(object.uid(), situation)?)
    } else {
        return None;
    };
    let ds = &situation.ds.metadata.name;
    violation(Property::Revision, format!("{ds}: revision {name} {problem}"))
}

/// Why a revision must not be created.
fn creation_problem(created: &Revision, situation: &Situation) -> Option<String> {
    let (ds, revisions) = (situation.ds, &situation.revisions);
    let metadata = &created.metadata;
    let number = revisions.old.last().map_or(0, |old| old.number).max(0) + 1;
    let is_labelled = ds.template["metadata"]["labels"].as_object().is_none_or(|labels| {
        labels.iter().all(|(key, value)| {
            metadata.labels.get(key.as_str()).map(String::as_str) == value.as_str()
        })
    });
    match () {
        () if !revisions.current.is_empty() => {
            Some("is created, although one stores the template".to_owned())
        }
        () if !is_same(&created.template, &ds.meaning) => {
            Some("is created with another template".to_owned())
        }
        () if !metadata.is_controlled_by(&ds.metadata.uid) => {
            Some("is created for another owner".to_owned())
        }
        () if !is_labelled || metadata.hash().is_none() => {
            Some("is created without the labels of the template or a hash".to_owned())
        }
        () if created.number != number => {
            Some(format!("is created with number {}, not {number}", created.number))
        }
        () => None,
    }
}

/// Why a revision must not be deleted.
fn deletion_problem(uid: &str, situation: &Situation) -> Option<String> {
    let revisions = &situation.revisions;
    let is_it = |revision: &&&Revision| revision.metadata.uid == uid;
    let is_used = |revision: &Revision| situation.is_needed(revision);
    if let Some(duplicate) = revisions.current.iter().find(is_it) {
        let current = revisions.current.last().expect("it contains the duplicate");
        let has_same_hash = current.metadata.hash() == duplicate.metadata.hash();
        return match () {
            () if current.metadata.uid == uid => {
                Some("is deleted, although it is the current one".to_owned())
            }
            () if is_used(duplicate) && !has_same_hash => {
                Some("is deleted, although a pod has its hash".to_owned())
            }
            () => None,
        };
    }
    let Some(old) = revisions.old.iter().find(is_it) else {
        return Some("is deleted, although the DaemonSet does not own it".to_owned());
    };
    if is_used(old) {
        return Some("is deleted, although a pod has its hash".to_owned());
    }
    let unused = revisions.old.iter().filter(|revision| !is_used(revision));
    let excess = revisions.old.len().saturating_sub(situation.ds.history_limit);
    // One of those that no pod has may be the base.
    let spared = usize::from(excess > 0 && situation.is_base_unknown());
    (!unused.take(excess + spared).any(|revision| is_it(&revision))).then(|| {
        format!(
            "is deleted, although it is not one of the oldest {excess} beyond the limit of {}",
            situation.ds.history_limit
        )
    })
}
