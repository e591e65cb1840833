//! The copies of ConfigMaps of a target and of the other revisions (G58): which content counts,
//! which copies are written and deleted, and what is there at rest.
//!
//! Which content counts depends on when a replica saw it change, so its view states the copies of
//! the target. [`check_statement`] judges it; everything else uses it as a part of the template.

use everynode_core::api::{CONFIG_LABEL, Timestamp};
use everynode_sandbox::kinds::CONFIG_MAP;

use super::history::{History, Objects};
use super::model::{ConfigMap, Pod, PolicySource, Revision, Snapshots, copy_name, is_same, named};
use super::situation::Situation;
use super::{PendingWrite, Property, Violation};
use crate::view::View;

/// Changes within this time may be shown together.
const TOGETHER_MS: i64 = 30_000;

/// Judges the copies that a replica states for the target.
pub(super) fn check_statement(
    view: &View,
    situation: &Situation,
    history: &History,
) -> Option<Violation> {
    let (ds, copies) = (situation.ds, &view.stated.copies);
    let problem = match (ds.snapshots(), &ds.policy) {
        (Some(rule), _) => uncounted(view, situation, history, rule)?,
        _ if copies.is_empty() => return None,
        (None, PolicySource::Valid(_)) => "although the policy wants none",
        (None, PolicySource::None | PolicySource::Invalid) => {
            let mut had = own_revisions(situation, history);
            let is_known = had.any(|it| it.copies == **copies);
            (!is_known).then_some("which no revision has, without a policy")?
        }
    };
    let problem = format!("the target has the copies {copies:?}, {problem}");
    Some(situation.violation(Property::Copies, problem))
}

/// The states of all revisions that the DaemonSet has had.
fn own_revisions<'a>(
    situation: &'a Situation,
    history: &'a History,
) -> impl Iterator<Item = &'a Revision> {
    let uid = &situation.ds.metadata.uid;
    let states = history.revisions.states().map(|(_, revision)| revision);
    states.filter(move |revision| revision.metadata.is_controlled_by(uid))
}

/// Why the copies do not count that a replica states. It has decided for them when it first stated
/// them, or, if they are the same since, with this plan.
fn uncounted(
    view: &View,
    situation: &Situation,
    history: &History,
    rule: &Snapshots,
) -> Option<&'static str> {
    let (ds, since) = (situation.ds, view.stated.since);
    let is_of_template = |it: &&Revision| is_same(&it.template, &ds.meaning);
    let is_known = own_revisions(situation, history).any(|it| is_of_template(&it));
    let is_unknown = since.feeds.config_maps == 0 && ds.copies.is_empty();
    // Before an orphan is adopted it does not say which copies the target has.
    if is_known || is_unknown || !situation.revisions.orphans.is_empty() {
        return None;
    }
    let daemon_sets = history.daemon_sets(view.role);
    // Another rule changes the copies once they have settled, as another content does.
    let then = daemon_sets.at(&view.daemon_set, since.feeds.daemon_sets);
    let rule_then = then.and_then(|then| then.snapshots()).unwrap_or(rule);
    let decided = [
        (rule_then, since.at, since.feeds.config_maps),
        (rule, view.planned_at, view.feeds.config_maps),
    ];
    let is_present = |(rule, _, version): &(&Snapshots, Timestamp, u64)| {
        situation.is_present(rule, &history.config_maps.seen(*version))
    };
    let mut present = decided.into_iter().filter(is_present).peekable();
    if present.peek().is_none() {
        return Some("which are neither those of a revision nor those of the ConfigMaps");
    }
    let is_settled = |(rule, at, version): (&Snapshots, Timestamp, u64)| {
        let copied = rule.copied(&ds.template);
        let changes = copied.iter().map(|map| last_change(version, situation, history, map));
        changes.flatten().max().is_none_or(|changed| changed.0 + rule.settle_ms <= at.0)
    };
    // It may see the revision of the template, which has other copies, after it has decided.
    let seen = history.revisions.seen(since.feeds.revisions);
    let own = seen.into_values().filter(|it| ds.owns(&it.metadata));
    let has_template = ds.has_revision_of_template(own);
    let counts = since.is_other_template || !has_template || present.any(is_settled);
    (!counts).then_some("although a ConfigMap has changed a short while ago")
}

/// When the content was stored that a ConfigMap had at a version. While it is gone, it has that of
/// its copy, if there is one. A content that was another one for a moment is the same: a watch may
/// have shown both changes together.
fn last_change(
    version: u64,
    situation: &Situation,
    history: &History,
    (name, is_optional): (&String, &bool),
) -> Option<Timestamp> {
    let ds = &situation.ds.metadata;
    let is_it =
        |map: &ConfigMap| map.metadata.namespace == ds.namespace && map.metadata.name == *name;
    let revisions = situation.revisions.current.iter().chain(&situation.revisions.old);
    let copied = revisions.max_by_key(|it| it.number).and_then(|it| it.copies.get(name));
    let histories = history.config_maps.histories().map(|(_, states)| states);
    let states = histories.filter(|states| states[0].1.as_deref().is_some_and(is_it));
    let mut states: Vec<_> = states.flatten().collect();
    states.retain(|(at, _)| *at <= version);
    states.sort_by_key(|(at, _)| *at);
    let mut contents = Vec::new();
    for (at, map) in states {
        let content = map.as_deref().map(|map| map.hash(&ds.name)).or_else(|| copied.cloned());
        let is_other = contents.last().is_none_or(|(last, _)| *last != content);
        if is_other && (content.is_some() || *is_optional) {
            contents.push((content, history.time_of(*at)));
        }
    }
    let (last, mut changed_at) = contents.pop()?;
    for pair in contents.windows(2).rev() {
        let [(content, at), (_, until)] = pair else { continue };
        if *content == last && changed_at.0 - until.0 < TOGETHER_MS {
            changed_at = *at;
        }
    }
    Some(changed_at)
}

impl<'a> Situation<'a> {
    /// The ConfigMap with this name in the namespace of the DaemonSet.
    fn config_map(&self, name: &str) -> Option<&'a ConfigMap> {
        self.find(self.config_maps.as_ref()?, name)
    }

    fn find<'m>(&self, maps: &Objects<'m, ConfigMap>, name: &str) -> Option<&'m ConfigMap> {
        let is_it = |map: &&&ConfigMap| {
            map.metadata.namespace == self.ds.metadata.namespace && map.metadata.name == name
        };
        maps.values().find(is_it).copied()
    }

    /// True if the pod names a ConfigMap with a bad content.
    pub(super) fn has_bad_content(&self, pod: &Pod) -> bool {
        let maps = pod.config_maps.iter().filter_map(|name| self.config_map(name));
        maps.into_iter().any(|map| map.is_bad)
    }

    /// True if the target has copies of its ConfigMaps as they are. Of one that is gone it keeps
    /// the copy, unless it may be missing.
    fn is_present(&self, rule: &Snapshots, maps: &Objects<'_, ConfigMap>) -> bool {
        let copied = rule.copied(&self.ds.template);
        let is_of_map = |(name, is_optional): (&String, &bool)| {
            let hash = self.ds.copies.get(name);
            match self.find(maps, name) {
                Some(map) => hash == Some(&map.hash(&self.ds.metadata.name)),
                None => hash.is_some() || !is_optional,
            }
        };
        copied.iter().all(is_of_map) && self.ds.copies.keys().all(|name| copied.contains_key(name))
    }

    /// True if the beginning of the rollout may have to wait for ConfigMaps, at any time.
    pub(super) fn may_await_config_maps(&self) -> bool {
        self.ds.snapshots().is_some()
    }

    /// True if ConfigMaps hold the rollout until somebody acts: one that it needs is missing, or a
    /// copy is gone that cannot be written again.
    pub(super) fn lacks_config_maps(&self) -> bool {
        let Some(rule) = self.ds.snapshots() else { return false };
        rule.copied(&self.ds.template).iter().any(|(name, is_optional)| {
            match (self.ds.copies.get(name), self.config_map(name)) {
                (None, map) => map.is_none() && !is_optional,
                (Some(hash), map) => {
                    let is_lost = self.config_map(&copy_name(name, hash)).is_none();
                    let is_other = map.is_some_and(|map| map.hash(&self.ds.metadata.name) != *hash);
                    is_lost && (is_other || map.is_none() && !is_optional)
                }
            }
        })
    }

    /// The names of the copies that the target or another revision has.
    fn needed_copies(&self) -> Vec<(&String, String)> {
        let copies =
            self.revisions.all().flat_map(|revision| &revision.copies).chain(&self.ds.copies);
        copies.map(|(name, hash)| (name, copy_name(name, hash))).collect()
    }

    /// The work left undone for copies by a replica that has had nothing to do for long enough
    /// (G58): content that has settled counts, copies that are needed are there while their
    /// ConfigMaps have the content, and no others are.
    pub(super) fn copies_left_undone(&self) -> Option<String> {
        let maps = self.config_maps.as_ref()?;
        if let Some(rule) = self.ds.snapshots().filter(|rule| !self.is_present(rule, maps)) {
            let copied = rule.copied(&self.ds.template);
            return Some(format!(
                "the target has the copies {:?}, although {copied:?} have another content",
                self.ds.copies
            ));
        }
        let needed = self.needed_copies();
        let lost = needed.iter().find(|(name, copy)| {
            let suffix = copy.strip_prefix(&format!("{name}-"));
            self.config_map(copy).is_none()
                && self
                    .config_map(name)
                    .is_some_and(|map| Some(&*map.hash(&self.ds.metadata.name)) == suffix)
        });
        if let Some((_, copy)) = lost {
            return Some(format!("copy {copy} is missing"));
        }
        // Nobody reads ConfigMaps then.
        if self.ds.snapshots().is_none() && needed.is_empty() {
            return None;
        }
        // Pods may have others of which no revision is known.
        let is_known =
            |pod: &Pod| self.revisions.all().any(|it| named(&it.template) == pod.config_maps);
        let has_tag = |pod: &Pod| pod.metadata.labels.contains_key(CONFIG_LABEL);
        if self.our_pods().any(|pod| has_tag(pod) && !is_known(pod)) {
            return None;
        }
        let is_own = |map: &&&ConfigMap| map.metadata.is_controlled_by(&self.ds.metadata.uid);
        let mut copies = maps.values().filter(is_own);
        let is_needed = |name: &String| needed.iter().any(|(_, copy)| copy == name);
        let left = copies.find(|map| !is_needed(&map.metadata.name))?;
        Some(format!("copy {} is left, which no revision has", left.metadata.name))
    }
}

/// Judges a write of a copy.
pub(super) fn check(
    write: &PendingWrite,
    view: &View,
    situation: &Situation,
    history: &History,
) -> Option<Violation> {
    let (name, problem) = if write.creates(&CONFIG_MAP) {
        let copy = ConfigMap::parse(write.body);
        let problem = creation_problem(&copy, view, situation, history)?;
        (copy.metadata.name, problem)
    } else if write.target.kind.kind == CONFIG_MAP.kind {
        let object = write.object()?;
        if write.uid_precondition().is_some_and(|uid| uid != object.uid()) {
            // The server refuses a write whose precondition fails (C61).
            return None;
        }
        let copy = ConfigMap::parse(object.value());
        let problem = match write.deletes(&CONFIG_MAP) {
            true => deletion_problem(&copy, situation)?,
            false => "is changed",
        };
        (copy.metadata.name, problem)
    } else {
        return None;
    };
    Some(situation.violation(Property::Copies, format!("ConfigMap {name} {problem}")))
}

/// Why a copy must not be written like this.
fn creation_problem(
    copy: &ConfigMap,
    view: &View,
    situation: &Situation,
    history: &History,
) -> Option<&'static str> {
    let ds = &situation.ds.metadata;
    let Some(source) = &copy.copy_of else { return Some("is created, which is no copy") };
    // The content is read after the plan.
    let since = history.version_before(view.planned_at);
    let had_content = history.config_maps.histories().any(|(uid, states)| {
        let later = states.iter().filter(|(at, _)| *at > since).filter_map(|(_, it)| it.as_deref());
        let mut had = history.config_maps.at(uid, since).into_iter().chain(later);
        had.any(|map| {
            (&map.metadata.namespace, &map.metadata.name) == (&ds.namespace, source)
                && map.content == copy.content
        })
    });
    match () {
        () if !copy.metadata.is_controlled_by(&ds.uid) || !copy.is_immutable => {
            Some("is created for another owner, or can be changed")
        }
        () if copy.metadata.name != copy_name(source, &copy.hash(&ds.name)) => {
            Some("is created with another content than its name says")
        }
        () if !had_content => Some("is created with a content that its ConfigMap does not have"),
        () => None,
    }
}

/// Why a copy must not be deleted.
fn deletion_problem(copy: &ConfigMap, situation: &Situation) -> Option<&'static str> {
    let (ds, name) = (situation.ds, &copy.metadata.name);
    let owner = &copy.metadata.controller;
    let is_foreign = owner.as_ref().is_some_and(|owner| owner.uid != ds.metadata.uid);
    let mut needed = situation.needed_copies().into_iter();
    match () {
        () if copy.copy_of.is_none() || is_foreign => Some("is deleted, which is no own copy"),
        () if needed.any(|(_, needed)| needed == *name) => {
            Some("is deleted, although a revision has it")
        }
        () if situation.our_pods().any(|pod| pod.config_maps.contains(name)) => {
            Some("is deleted, although a pod has it")
        }
        () => None,
    }
}
