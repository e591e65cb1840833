//! The copies of ConfigMaps that a DaemonSet has and needs (G58).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    ConfigCopies, ConfigCopy, ConfigMaps, ConfigRule, KnownConfigMaps, Template, Timestamp,
    copy_name,
};
use crate::plan::{CopyReference, NewCopy, Write};

/// Time until a copy that the watch does not show is written or deleted again.
const RETRY_AFTER: Duration = Duration::from_secs(15);

/// For how long no revision is made because ConfigMaps have yet to be listed, or a first template
/// lacks some: its pods would wait as well.
const AWAITED_FOR: Duration = Duration::from_secs(30);

/// The hashes of copies by the names of the ConfigMaps.
type Hashes = BTreeMap<Arc<str>, Arc<str>>;

/// The copies of ConfigMaps that a DaemonSet has and needs.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    known: ConfigMaps,
    seen: Option<Seen>,
    change: Option<Change>,
    /// Since when no revision is made for lack of ConfigMaps.
    awaited_since: Option<Timestamp>,
    /// The writes of copies that the watch has yet to show, by their names.
    attempts: BTreeMap<Arc<str>, Attempt>,
    wait: Option<ConfigWait>,
}

/// The content of a target, as it was seen last.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    template: Arc<str>,
    /// `None` while the ConfigMaps are not known.
    hashes: Option<Hashes>,
}

/// The last change of the template or its ConfigMaps that has yet to settle.
#[derive(Debug)]
struct Change {
    at: Timestamp,
    what: Changed,
}

/// The part of a target that has changed.
#[derive(Debug)]
enum Changed {
    Template,
    ConfigMaps(Vec<Arc<str>>),
    /// The revision that stores the template has no copies of these ConfigMaps.
    Copied(Vec<Arc<str>>),
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (maps, [one, several]) = match self {
            Self::Template => return f.write_str("the template has changed"),
            Self::ConfigMaps(maps) => (maps, ["has changed", "have changed"]),
            Self::Copied(maps) => (maps, ["has yet to be copied", "have yet to be copied"]),
        };
        match &maps[..] {
            [map] => write!(f, "ConfigMap {map} {one}"),
            maps => write!(f, "ConfigMaps {} {several}", maps.join(", ")),
        }
    }
}

/// A write of a copy.
#[derive(Debug)]
struct Attempt {
    /// When it is repeated.
    retry_at: Timestamp,
    /// The answer of the API server that refused it.
    refusal: Option<Arc<str>>,
}

/// Why a rollout does not begin, as far as ConfigMaps are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigWait {
    /// They have yet to be listed.
    Unlisted,
    /// They or the template have changed a short while ago.
    Settles(Arc<str>),
    /// A copy has yet to be written.
    Copying(Arc<str>),
    /// Somebody must act.
    NotReady(Arc<str>),
}

/// The revisions that a target is compared with.
pub(crate) struct Stored<'a> {
    /// The copies of each revision that stores the template, oldest first; `None` for one without.
    pub with_template: Vec<Option<&'a Arc<ConfigCopies>>>,
    /// True if there is none at all.
    pub is_empty: bool,
}

impl<'a> Stored<'a> {
    fn has(&self, hashes: &Hashes) -> bool {
        self.with_template.iter().any(|copies| hashes_of(*copies) == hashes)
    }

    /// Those of the newest revision that stores the template.
    fn newest(&self) -> Option<&Hashes> {
        self.with_template.last().map(|copies| hashes_of(*copies))
    }

    /// Its copies, if it has any.
    fn newest_copies(&self) -> Option<&'a Arc<ConfigCopies>> {
        self.with_template.last().copied().flatten()
    }
}

fn hashes_of(copies: Option<&Arc<ConfigCopies>>) -> &Hashes {
    static NONE: Hashes = BTreeMap::new();
    copies.map_or(&NONE, |copies| &copies.hashes)
}

impl Copying {
    /// Records the ConfigMaps; returns whether they have changed.
    pub(crate) fn apply(&mut self, known: ConfigMaps) -> bool {
        if self.known == known {
            return false;
        }
        if let ConfigMaps::Known(known) = &known {
            self.attempts.retain(|copy, _| !known.has(copy));
        }
        self.known = known;
        true
    }

    /// True if nothing is known of ConfigMaps or a target that has copies.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.known, ConfigMaps::Unread) && self.seen.is_none()
    }

    /// True if copies are there.
    pub(crate) fn has_copies(&self) -> bool {
        matches!(&self.known, ConfigMaps::Known(known) if !known.copies.is_empty())
    }

    /// Forgets the target: its ConfigMaps are not copied.
    pub(crate) fn end(&mut self) {
        (self.seen, self.change, self.awaited_since, self.wait) = Default::default();
    }

    /// Determines which copies the target is to have: those of the ConfigMaps as they are. If only
    /// they have changed, they must have settled, unless a revision has them already. `before` are
    /// those that the target had.
    pub(crate) fn refresh(
        &mut self,
        rule: &ConfigRule,
        template: &Template,
        before: Option<&Arc<ConfigCopies>>,
        stored: &Stored<'_>,
        now: Timestamp,
    ) -> Option<Arc<ConfigCopies>> {
        let is_same_template =
            self.seen.as_ref().is_some_and(|seen| seen.template == template.canonical);
        let before = before.filter(|_| is_same_template);
        let kept = before.map(|before| &before.hashes).or(stored.newest());
        let hashes = self.present(template, rule, kept);
        self.record_change(template, hashes.as_ref(), stored, now);
        let is_settled = self.change.as_ref().is_none_or(|change| change.at + rule.settle <= now);
        let copies = match &hashes {
            Some(hashes) if is_settled || self.is_of_template_change() => match before {
                Some(before) if before.hashes == *hashes => Some(before.clone()),
                _ => Some(Arc::new(ConfigCopies::new(hashes.clone(), text_of(hashes)))),
            },
            // A new controller keeps those of the stored revision, also if that is lost meanwhile.
            Some(_) | None => before.or_else(|| stored.newest_copies()).cloned(),
        };
        let lacks_some = |hashes: &Hashes| {
            rule.copied(&template.config).any(|(name, _)| !hashes.contains_key(name))
        };
        let is_awaited = match &hashes {
            Some(hashes) => stored.is_empty && lacks_some(hashes),
            None => self.known == ConfigMaps::Pending,
        };
        self.awaited_since = is_awaited.then(|| self.awaited_since.unwrap_or(now));
        self.seen = Some(Seen { template: template.canonical.clone(), hashes });
        self.wait = self.waits_for(rule, template, copies.as_ref(), is_settled);
        copies
    }

    /// True if the template has changed, and not only its ConfigMaps.
    fn is_of_template_change(&self) -> bool {
        self.change.as_ref().is_some_and(|change| matches!(change.what, Changed::Template))
    }

    /// Records when the target changes. A change to what a revision has already needs no time.
    fn record_change(
        &mut self,
        template: &Template,
        hashes: Option<&Hashes>,
        stored: &Stored<'_>,
        now: Timestamp,
    ) {
        let Some(hashes) = hashes else { return };
        let seen = self.seen.as_ref();
        let is_other_template = seen.is_some_and(|seen| seen.template != template.canonical);
        let known = seen.and_then(|seen| seen.hashes.as_ref());
        // A new controller measures anew what has changed since the newest revision.
        let compared = known.or_else(|| stored.newest());
        let maps: Vec<Arc<str>> = match compared {
            Some(compared) if !is_other_template => {
                let names = hashes.keys().chain(compared.keys()).collect::<BTreeSet<_>>();
                let changed = names.into_iter().filter(|it| hashes.get(*it) != compared.get(*it));
                changed.cloned().collect()
            }
            Some(_) | None => Vec::new(),
        };
        let is_first = known.is_none() && stored.newest().is_none();
        if maps.is_empty() && !is_other_template && !is_first {
            return;
        }
        let what = match compared {
            _ if maps.is_empty() => Changed::Template,
            Some(compared) if compared.is_empty() => Changed::Copied(maps),
            Some(_) | None => Changed::ConfigMaps(maps),
        };
        let settles = !stored.has(hashes) && !stored.is_empty;
        self.change = settles.then_some(Change { at: now, what });
    }

    /// The hashes of the copies of ConfigMaps as they are. For one that is gone it is that which
    /// the target `kept`; one that may be missing has the hash of no content. `None` if they are
    /// not known.
    fn present(
        &self,
        template: &Template,
        rule: &ConfigRule,
        kept: Option<&Hashes>,
    ) -> Option<Hashes> {
        let mut copied = rule.copied(&template.config).peekable();
        if copied.peek().is_none() {
            return Some(Hashes::new());
        }
        let ConfigMaps::Known(known) = &self.known else { return None };
        let hashes = copied.filter_map(|(name, is_optional)| {
            let hash = match known.sources.get(name) {
                None if is_optional => known.absent.clone(),
                None => kept?.get(name)?.clone(),
                Some(hash) => hash.clone(),
            };
            Some((name.clone(), hash))
        });
        Some(hashes.collect())
    }

    /// The reason for which the rollout does not begin, if ConfigMaps hold it.
    fn waits_for(
        &self,
        rule: &ConfigRule,
        template: &Template,
        copies: Option<&Arc<ConfigCopies>>,
        is_settled: bool,
    ) -> Option<ConfigWait> {
        let known = match &self.known {
            _ if rule.copied(&template.config).next().is_none() => return None,
            // A snapshot without ConfigMaps.
            ConfigMaps::Unread => return None,
            ConfigMaps::Pending => return Some(ConfigWait::Unlisted),
            ConfigMaps::Refused => {
                let why = "the controller may not list the ConfigMaps of the namespace, which \
                           config.configMaps requires: it lacks the component config";
                return Some(ConfigWait::NotReady(why.into()));
            }
            ConfigMaps::Known(known) => known,
        };
        if let Some(change) = self.change.as_ref().filter(|_| !is_settled) {
            let changed = &change.what;
            let why =
                format!("{changed}; the rollout begins once nothing has changed for config.settle");
            return Some(ConfigWait::Settles(why.into()));
        }
        let copied = rule.copied(&template.config);
        let is_missing = |name: &Arc<str>| !hashes_of(copies).contains_key(name);
        let missing: Vec<&str> =
            copied.filter(|(name, _)| is_missing(name)).map(|(name, _)| &**name).collect();
        if !missing.is_empty() {
            let why = format!("missing ConfigMaps: {}", missing.join(", "));
            return Some(ConfigWait::NotReady(why.into()));
        }
        self.lacks_copy(known, copies)
    }

    /// The reason for which one of these copies is not there, if one is not.
    fn lacks_copy(
        &self,
        known: &KnownConfigMaps,
        copies: Option<&Arc<ConfigCopies>>,
    ) -> Option<ConfigWait> {
        let mut hashes = hashes_of(copies).iter().filter(|(_, hash)| **hash != known.absent);
        let (source, hash) = hashes.find(|(source, hash)| !known.has(&copy_name(source, hash)))?;
        let copy = copy_name(source, hash);
        let refusal = self.attempts.get(&*copy).and_then(|attempt| attempt.refusal.as_ref());
        Some(match refusal {
            Some(why) => {
                ConfigWait::NotReady(format!("ConfigMap {copy} cannot be written: {why}").into())
            }
            None if known.sources.get(source) == Some(hash) => {
                ConfigWait::Copying(format!("ConfigMap {copy} has yet to be written").into())
            }
            None => {
                let why = format!(
                    "ConfigMap {copy} is gone, and cannot be copied again, because {source} has \
                     another content by now"
                );
                ConfigWait::NotReady(why.into())
            }
        })
    }

    /// Why the rollout does not begin.
    pub(crate) const fn wait(&self) -> Option<&ConfigWait> {
        self.wait.as_ref()
    }

    /// True if no revision is made of the target yet, because its ConfigMaps may be there soon.
    pub(crate) fn withholds_revision(&self, now: Timestamp) -> bool {
        self.withheld_until().is_some_and(|until| now < until)
    }

    fn withheld_until(&self) -> Option<Timestamp> {
        self.awaited_since.map(|since| since + AWAITED_FOR)
    }

    /// When the ConfigMaps have settled, or a write is repeated.
    pub(crate) fn due_at(&self, rule: Option<&ConfigRule>, now: Timestamp) -> Option<Timestamp> {
        let settled = self.change.as_ref().zip(rule).map(|(it, rule)| it.at + rule.settle);
        let retries = self.attempts.values().map(|attempt| attempt.retry_at);
        let times = settled.into_iter().chain(self.withheld_until()).chain(retries);
        times.filter(|at| *at > now).min()
    }

    /// The writes that are due: of copies that revisions need, as far as the ConfigMaps still have
    /// the content, and of those that nothing needs. `needed` are the copies of all revisions and
    /// of the target; `keeps_others` is true if pods may have others.
    pub(crate) fn writes<'a>(
        &'a self,
        needed: impl Iterator<Item = &'a Arc<ConfigCopies>>,
        keeps_others: bool,
        now: Timestamp,
    ) -> Vec<Write> {
        let ConfigMaps::Known(known) = &self.known else { return Vec::new() };
        let needed: BTreeSet<(&Arc<str>, &Arc<str>)> =
            needed.flat_map(|copies| &copies.hashes).collect();
        let is_due =
            |copy: &str| self.attempts.get(copy).is_none_or(|attempt| attempt.retry_at <= now);
        let missing = needed.iter().filter(|(source, hash)| {
            let copy = copy_name(source, hash);
            known.sources.get(*source) == Some(*hash) && !known.has(&copy) && is_due(&copy)
        });
        let created = missing.map(|(source, hash)| {
            Write::CopyConfigMap(NewCopy { source: (*source).clone(), hash: (*hash).clone() })
        });
        let names: BTreeSet<String> =
            needed.iter().map(|(source, hash)| copy_name(source, hash)).collect();
        let unneeded = known.copies.iter().filter(|copy| {
            // A template may name a copy as well.
            let is_needed = names.contains(&*copy.name) || known.sources.contains_key(&copy.name);
            !keeps_others && !is_needed && is_due(&copy.name)
        });
        let deleted = unneeded.map(|ConfigCopy { name, uid }| {
            Write::DeleteCopy(CopyReference { name: name.clone(), uid: uid.clone() })
        });
        created.chain(deleted).collect()
    }

    /// Records that a write is about to be executed.
    pub(crate) fn record_planned(&mut self, write: &Write, now: Timestamp) {
        let copy = match write {
            Write::CopyConfigMap(new) => new.name().into(),
            Write::DeleteCopy(copy) => copy.name.clone(),
            _ => return,
        };
        let refusal = self.attempts.remove(&copy).and_then(|attempt| attempt.refusal);
        // No watch shows a copy that is deleted.
        self.attempts.retain(|_, attempt| attempt.retry_at > now || attempt.refusal.is_some());
        self.attempts.insert(copy, Attempt { retry_at: now + RETRY_AFTER, refusal });
    }

    /// Records whether a copy could be written, and why not.
    pub(crate) fn record_outcome(&mut self, new: &NewCopy, refusal: Option<String>) {
        if let Some(attempt) = self.attempts.get_mut(&*new.name()) {
            attempt.refusal = refusal.map(Into::into);
        }
    }
}

/// The hashes as JSON with sorted keys. Names of ConfigMaps have no characters to escape.
fn text_of(hashes: &Hashes) -> String {
    let members: Vec<String> =
        hashes.iter().map(|(name, hash)| format!("\"{name}\":\"{hash}\"")).collect();
    format!("{{{}}}", members.join(","))
}
