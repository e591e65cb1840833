//! The copies of ConfigMaps that a DaemonSet has and needs (G58).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    ConfigCopies, ConfigCopy, ConfigMaps, ConfigRule, KnownConfigMaps, Template, Timestamp,
    copy_name,
};
use crate::plan::{CopyReference, NewCopy, Write};

/// Time until a copy that the watch does not show is written or deleted again.
const RETRY_AFTER: Duration = Duration::from_secs(15);

/// The copies of ConfigMaps that a DaemonSet has and needs.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    known: ConfigMaps,
    seen: Option<Seen>,
    /// When template or ConfigMaps changed last, since they were first seen.
    changed_at: Option<Timestamp>,
    /// When the write of a copy is repeated, by its name.
    retry_at: BTreeMap<Arc<str>, Timestamp>,
    /// Why the last copy could not be written.
    refusal: Option<Arc<str>>,
    wait: Option<ConfigWait>,
}

/// The content of a target, as it was seen last.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    template: Arc<str>,
    hashes: Option<BTreeMap<Arc<str>, Arc<str>>>,
}

/// Why a rollout does not begin, as far as ConfigMaps are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigWait {
    /// They have changed a short while ago, or the template has.
    Settles,
    /// This keeps them from being copied.
    NotReady(Arc<str>),
}

impl Copying {
    /// Records the ConfigMaps; returns whether they have changed.
    pub(crate) fn apply(&mut self, known: ConfigMaps) -> bool {
        if self.known == known {
            return false;
        }
        if let ConfigMaps::Known(known) = &known {
            self.retry_at.retain(|copy, _| !known.has(copy));
        }
        self.known = known;
        true
    }

    /// Determines which copies the target is to have: those of the ConfigMaps as they are, once
    /// they and the template have not changed for a while, or at once if a revision has them
    /// already, or none has the template. `before` are those that it had, `stored` those of the
    /// revisions with the template, `None` for one without copies.
    pub(crate) fn refresh(
        &mut self,
        rule: Option<&ConfigRule>,
        template: &Template,
        before: Option<&Arc<ConfigCopies>>,
        stored: &[Option<&Arc<ConfigCopies>>],
        now: Timestamp,
    ) -> Option<Arc<ConfigCopies>> {
        let Some(rule) = rule else {
            (self.seen, self.changed_at, self.wait) = Default::default();
            return None;
        };
        let hashes = match &self.known {
            ConfigMaps::Known(known) => Some(wanted(known, template, &rule.except)),
            ConfigMaps::Unread | ConfigMaps::Pending | ConfigMaps::Refused => None,
        };
        let seen = Seen { template: template.canonical.clone(), hashes };
        let is_same_template =
            self.seen.as_ref().is_some_and(|before| before.template == seen.template);
        let was_known = self.seen.as_ref().is_some_and(|before| before.hashes.is_some());
        if was_known && self.seen.as_ref() != Some(&seen) {
            self.changed_at = Some(now);
        }
        let is_stored = seen
            .hashes
            .as_ref()
            .is_some_and(|hashes| stored.iter().flatten().any(|copies| copies.hashes == *hashes));
        if is_stored && is_same_template {
            self.changed_at = None;
        }
        let is_settled = self.changed_at.is_none_or(|at| at + rule.settle <= now);
        let before = before.filter(|_| is_same_template);
        let copies = match &seen.hashes {
            Some(hashes) if stored.is_empty() || is_settled => match before {
                Some(before) if before.hashes == *hashes => Some(before.clone()),
                _ => Some(Arc::new(ConfigCopies::new(hashes.clone(), text_of(hashes)))),
            },
            Some(_) | None => before.cloned(),
        };
        self.seen = Some(seen);
        self.wait = self.unready(rule, template, copies.as_deref()).map(ConfigWait::NotReady);
        if self.wait.is_none() && !is_settled {
            self.wait = Some(ConfigWait::Settles);
        }
        copies
    }

    /// What keeps the ConfigMaps of the template from being copied, or their copies from being used.
    fn unready(
        &self,
        rule: &ConfigRule,
        template: &Template,
        copies: Option<&ConfigCopies>,
    ) -> Option<Arc<str>> {
        let known = match &self.known {
            // Whoever looks from outside does not know.
            ConfigMaps::Unread => return None,
            ConfigMaps::Pending => return Some("the ConfigMaps have yet to be listed".into()),
            ConfigMaps::Refused => {
                let why = "the controller may not list the ConfigMaps of the namespace, which \
                           config.configMaps requires: it lacks the component config";
                return Some(why.into());
            }
            ConfigMaps::Known(known) => known,
        };
        let named = template.config.iter().flat_map(|config| config.config_maps());
        let required = named.filter(|(name, is_optional)| {
            !is_optional && !rule.except.contains(name) && !known.sources.contains_key(*name)
        });
        let missing: Vec<&str> = required.map(|(name, _)| &**name).collect();
        if !missing.is_empty() {
            return Some(format!("missing ConfigMaps: {}", missing.join(", ")).into());
        }
        let copy = copies.into_iter().flat_map(|copies| copies.names());
        let copy = copy.into_iter().find(|copy| !known.has(copy))?;
        Some(match &self.refusal {
            Some(why) => format!("ConfigMap {copy} cannot be written: {why}").into(),
            None => format!("ConfigMap {copy} has yet to be written").into(),
        })
    }

    /// Why the rollout does not begin.
    pub(crate) const fn wait(&self) -> Option<&ConfigWait> {
        self.wait.as_ref()
    }

    /// True if the ConfigMaps of the target are about to be known: until then no revision is made
    /// of it.
    pub(crate) fn is_pending(&self) -> bool {
        self.wait.is_some() && self.known == ConfigMaps::Pending
    }

    /// When the ConfigMaps have settled, or a write is repeated.
    pub(crate) fn due_at(&self, rule: Option<&ConfigRule>) -> Option<Timestamp> {
        let settled = self.changed_at.zip(rule).map(|(at, rule)| at + rule.settle);
        settled.into_iter().chain(self.retry_at.values().copied()).min()
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
        let is_due = |copy: &str| self.retry_at.get(copy).is_none_or(|at| *at <= now);
        let missing = needed.iter().filter(|(source, hash)| {
            let copy = copy_name(source, hash);
            known.sources.get(*source) == Some(*hash) && !known.has(&copy) && is_due(&copy)
        });
        let created = missing.map(|(source, hash)| {
            Write::CopyConfigMap(NewCopy { source: (*source).clone(), hash: (*hash).clone() })
        });
        let names: BTreeSet<String> =
            needed.iter().map(|(source, hash)| copy_name(source, hash)).collect();
        let unneeded = known
            .copies
            .iter()
            .filter(|copy| !keeps_others && !names.contains(&*copy.name) && is_due(&copy.name));
        let deleted = unneeded.map(|ConfigCopy { name, uid }| {
            Write::DeleteCopy(CopyReference { name: name.clone(), uid: uid.clone() })
        });
        created.chain(deleted).collect()
    }

    /// Records that a write is about to be executed.
    pub(crate) fn record_planned(&mut self, write: &Write, now: Timestamp) {
        let copy = match write {
            Write::CopyConfigMap(new) => copy_name(&new.source, &new.hash).into(),
            Write::DeleteCopy(copy) => copy.name.clone(),
            _ => return,
        };
        self.retry_at.retain(|_, at| *at > now);
        self.retry_at.insert(copy, now + RETRY_AFTER);
    }

    /// Records why a copy could not be written.
    pub(crate) fn record_refusal(&mut self, why: String) {
        self.refusal = Some(why.into());
    }

    /// Records that a copy was written.
    pub(crate) fn end_refusal(&mut self) {
        self.refusal = None;
    }
}

/// The ConfigMaps of a template that exist and are copied, with the hashes of their copies.
fn wanted(
    known: &KnownConfigMaps,
    template: &Template,
    except: &[Arc<str>],
) -> BTreeMap<Arc<str>, Arc<str>> {
    let named = template.config.iter().flat_map(|config| config.config_maps());
    let copied = named.filter(|(name, _)| !except.contains(name));
    let hashes = copied.filter_map(|(name, _)| {
        let hash = known.sources.get(name)?;
        Some((name.clone(), hash.clone()))
    });
    hashes.collect()
}

/// The hashes as JSON with sorted keys. Names of ConfigMaps have no characters to escape.
fn text_of(hashes: &BTreeMap<Arc<str>, Arc<str>>) -> String {
    let members: Vec<String> =
        hashes.iter().map(|(name, hash)| format!("\"{name}\":\"{hash}\"")).collect();
    format!("{{{}}}", members.join(","))
}
