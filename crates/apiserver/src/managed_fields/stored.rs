//! `metadata.managedFields` as it is stored beside an object: compact, and sharing equal texts.
//!
//! The field set of a pod has about 2 KiB, and the pods of one template have the same. As a part of
//! each object's tree it would need several times the memory of the object itself.

use std::collections::HashSet;
use std::sync::Arc;

use everynode_core::api::Timestamp;

use super::fields_v1;
use super::managers::{Manager, ManagerId, Managers, Operation};
use crate::clock::rfc3339;
use crate::json::Value;

/// The stored entries, in the order in which they are served.
#[derive(Clone, Debug, Default)]
pub struct ManagedFields(Option<Arc<[Entry]>>);

/// An entry in the form in which it is served, but for its time.
#[derive(Clone, Copy, Debug)]
pub struct ManagedFieldsEntry<'a> {
    /// The name of the manager.
    pub manager: &'a str,
    /// `Apply` or `Update`.
    pub operation: &'static str,
    /// The version of the object in which the fields are.
    pub api_version: &'a str,
    /// When the manager last changed them.
    pub time: Option<Timestamp>,
    /// The JSON text of `fieldsV1`.
    pub fields: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
}

#[derive(Clone, Debug)]
struct Entry {
    writer: Arc<Writer>,
    /// The fields as FieldsV1.
    fields: Arc<str>,
    time: Option<Timestamp>,
}

/// An entry without its fields and its time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Writer {
    api_version: Box<str>,
    manager: Box<str>,
    operation: Operation,
    subresource: Box<str>,
}

impl ManagedFields {
    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The entries, in the order in which they are served.
    pub fn iter(&self) -> impl Iterator<Item = ManagedFieldsEntry<'_>> {
        self.entries().iter().map(Entry::served)
    }

    /// The stored form of managers.
    pub fn encode(managers: &Managers) -> Self {
        if managers.is_empty() {
            return Self::default();
        }
        let mut ordered: Vec<(&ManagerId, &Manager)> = managers.iter().collect();
        ordered.sort_by_key(|(id, manager)| {
            let seconds = manager.time.map_or(0, |time| time.0.div_euclid(1000));
            (id.operation, seconds, &id.name, &manager.api_version, &id.subresource)
        });
        Self(Some(ordered.into_iter().map(Entry::encode).collect()))
    }

    /// The managers, for changes.
    pub fn decode(&self) -> Managers {
        self.entries().iter().map(Entry::decode).collect()
    }

    /// True if the entries differ in their times at most.
    pub(crate) fn is_same_but_for_times(&self, other: &Self) -> bool {
        let (one, other) = (self.entries(), other.entries());
        let is_same = |(one, other): (&Entry, &Entry)| {
            one.writer == other.writer && one.fields == other.fields
        };
        one.len() == other.len() && one.iter().zip(other).all(is_same)
    }

    /// The JSON text of the list; `None` without entries.
    pub fn json(&self) -> Option<String> {
        let entries = self.0.as_ref()?;
        let mut json = String::with_capacity(self.bytes());
        for entry in entries.iter().map(Entry::served) {
            json.push(if json.is_empty() { '[' } else { ',' });
            entry.write(&mut json);
        }
        json.push(']');
        Some(json)
    }

    /// The list as a JSON tree; `None` without entries.
    pub fn value(&self) -> Option<Value> {
        let json = self.json()?;
        Some(serde_json::from_str(&json).expect("its parts are JSON"))
    }

    /// The size of the JSON text, roughly.
    pub fn bytes(&self) -> usize {
        /// The names of an entry's fields, and the time.
        const NAMES_BYTES: usize = 150;
        let entry = |entry: &Entry| {
            let writer = &entry.writer;
            NAMES_BYTES
                + entry.fields.len()
                + writer.api_version.len()
                + writer.manager.len()
                + writer.subresource.len()
        };
        self.entries().iter().map(entry).sum()
    }

    fn entries(&self) -> &[Entry] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Entry {
    fn encode((id, manager): (&ManagerId, &Manager)) -> Self {
        let writer = Writer {
            api_version: manager.api_version.clone(),
            manager: id.name.clone(),
            operation: id.operation,
            subresource: id.subresource.clone(),
        };
        let fields = fields_v1::text(&manager.fields).into();
        Self { writer: Arc::new(writer), fields, time: manager.time }
    }

    fn decode(&self) -> (ManagerId, Manager) {
        let Writer { api_version, manager, operation, subresource } = &*self.writer;
        let id = ManagerId {
            name: manager.clone(),
            ..ManagerId::new("", *operation, api_version, subresource)
        };
        let fields = fields_v1::parse(&self.fields).expect("it was written from a set");
        (id, Manager { fields, api_version: api_version.clone(), time: self.time })
    }

    fn served(&self) -> ManagedFieldsEntry<'_> {
        ManagedFieldsEntry {
            manager: &self.writer.manager,
            operation: self.writer.operation.name(),
            api_version: &self.writer.api_version,
            time: self.time,
            fields: &self.fields,
            subresource: &self.writer.subresource,
        }
    }
}

impl ManagedFieldsEntry<'_> {
    fn write(&self, json: &mut String) {
        let text = |text: &str| Value::from(text).to_string();
        json.push_str(&format!(
            r#"{{"apiVersion":{},"fieldsType":"FieldsV1","fieldsV1":{},"manager":{},"operation":"{}""#,
            text(self.api_version),
            self.fields,
            text(self.manager),
            self.operation,
        ));
        if !self.subresource.is_empty() {
            json.push_str(&format!(r#","subresource":{}"#, text(self.subresource)));
        }
        if let Some(time) = self.time {
            json.push_str(&format!(r#","time":"{}""#, rfc3339(time)));
        }
        json.push('}');
    }
}

/// The texts that stored entries share.
#[derive(Debug, Default)]
pub(crate) struct SharedTexts {
    writers: HashSet<Arc<Writer>>,
    fields: HashSet<Arc<str>>,
    /// The number of texts at which unused ones are dropped.
    limit: usize,
}

impl SharedTexts {
    /// The entries with shared texts.
    pub(crate) fn share(&mut self, managed: ManagedFields) -> ManagedFields {
        let Some(entries) = managed.0 else { return managed };
        let share = |entry: &Entry| Entry {
            writer: shared(&mut self.writers, &entry.writer),
            fields: shared(&mut self.fields, &entry.fields),
            time: entry.time,
        };
        let entries = entries.iter().map(share).collect();
        self.drop_unused();
        ManagedFields(Some(entries))
    }

    /// Drops unused texts each time when the number of texts has doubled.
    fn drop_unused(&mut self) {
        const LIMIT_MIN: usize = 1_000;
        if self.writers.len() + self.fields.len() <= self.limit.max(LIMIT_MIN) {
            return;
        }
        self.writers.retain(|text| Arc::strong_count(text) > 1);
        self.fields.retain(|text| Arc::strong_count(text) > 1);
        self.limit = 2 * (self.writers.len() + self.fields.len());
    }
}

fn shared<T: ?Sized + std::hash::Hash + Eq>(known: &mut HashSet<Arc<T>>, text: &Arc<T>) -> Arc<T> {
    if let Some(shared) = known.get(text) {
        return Arc::clone(shared);
    }
    known.insert(Arc::clone(text));
    Arc::clone(text)
}
