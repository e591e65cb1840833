//! The fields of an object, ordered by name.

use std::collections::{BTreeMap, btree_map};

use either::Either;
use smol_str::SmolStr;

use super::shared::Shared;
use super::{Size, Value};

/// The number of fields up to which they are one array.
const FEW_MAX: usize = 64;
/// The number of fields up to which comparing all names is faster than a binary search: most differ
/// in their length or their first byte.
const SCANNED_MAX: usize = 32;

/// The fields of an object, ordered by name. They are copied when they are changed while another
/// value has them.
#[derive(Clone, Debug, Default)]
pub struct Map(Shared<Fields>);

#[derive(Clone, Debug)]
enum Fields {
    /// Small, and fast to copy.
    Few(Vec<(SmolStr, Value)>),
    /// An insertion need not move many.
    Many(BTreeMap<SmolStr, Value>),
}

/// The place of a field, which may not be there yet.
pub enum Entry<'a> {
    /// The field is there.
    Occupied(&'a mut Value),
    /// The field is not there.
    Vacant(VacantEntry<'a>),
}

/// The place of a new field.
pub struct VacantEntry<'a> {
    map: &'a mut Map,
    name: SmolStr,
}

impl Default for Fields {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Fields {
    #[inline]
    fn iter(&self) -> Iter<'_> {
        Iter(match self {
            Self::Few(fields) => Either::Left(fields.iter()),
            Self::Many(fields) => Either::Right(fields.iter()),
        })
    }
}

impl Map {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// True if both have the same memory.
    #[inline]
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }

    /// The size of an object with these fields.
    pub(super) fn size(&self, of: impl FnOnce(Iter<'_>) -> Size) -> Size {
        self.0.size(|fields| of(fields.iter()))
    }

    /// The number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        match self.0.get() {
            Fields::Few(fields) => fields.len(),
            Fields::Many(fields) => fields.len(),
        }
    }

    /// True if there are no fields.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self.0.get() {
            Fields::Few(fields) => Some(&fields[position(fields, name)?].1),
            Fields::Many(fields) => fields.get(name),
        }
    }

    /// The value of a field, for changes.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        // Without a copy if there is no such field.
        if !self.contains_key(name) {
            return None;
        }
        match self.0.get_mut() {
            Fields::Few(fields) => {
                let index = position(fields, name)?;
                Some(&mut fields[index].1)
            }
            Fields::Many(fields) => fields.get_mut(name),
        }
    }

    /// True if there is a field.
    #[inline]
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a field; returns its earlier value.
    pub fn insert(&mut self, name: impl Into<SmolStr>, value: Value) -> Option<Value> {
        let name = name.into();
        let fields = self.0.get_mut();
        match fields {
            Fields::Few(few) => {
                match few.binary_search_by(|(other, _)| other.as_str().cmp(&name)) {
                    Ok(index) => Some(std::mem::replace(&mut few[index].1, value)),
                    Err(index) => {
                        few.insert(index, (name, value));
                        if few.len() > FEW_MAX {
                            *fields = Fields::Many(std::mem::take(few).into_iter().collect());
                        }
                        None
                    }
                }
            }
            Fields::Many(many) => many.insert(name, value),
        }
    }

    /// Removes a field; returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        if !self.contains_key(name) {
            return None;
        }
        match self.0.get_mut() {
            Fields::Few(fields) => Some(fields.remove(position(fields, name)?).1),
            Fields::Many(fields) => fields.remove(name),
        }
    }

    /// The place of a field.
    pub fn entry(&mut self, name: impl Into<SmolStr>) -> Entry<'_> {
        let name = name.into();
        if self.contains_key(&name) {
            return Entry::Occupied(self.get_mut(&name).expect("it contains the name"));
        }
        Entry::Vacant(VacantEntry { map: self, name })
    }

    /// Keeps the fields for which the function returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&SmolStr, &mut Value) -> bool) {
        match self.0.get_mut() {
            Fields::Few(fields) => fields.retain_mut(|(name, value)| keep(name, value)),
            Fields::Many(fields) => fields.retain(keep),
        }
    }

    /// The fields, ordered by name.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        self.0.get().iter()
    }

    /// The fields, for changes of their values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&SmolStr, &mut Value)> {
        match self.0.get_mut() {
            Fields::Few(fields) => {
                Either::Left(fields.iter_mut().map(|(name, value)| (&*name, value)))
            }
            Fields::Many(fields) => Either::Right(fields.iter_mut()),
        }
    }

    /// The names of the fields, in order.
    #[inline]
    pub fn keys(&self) -> impl Iterator<Item = &SmolStr> {
        self.iter().map(|(name, _)| name)
    }

    /// The values of the fields, ordered by name.
    #[inline]
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.iter().map(|(_, value)| value)
    }

    /// The values of the fields, for changes.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.iter_mut().map(|(_, value)| value)
    }
}

/// The position of a name.
#[inline]
fn position(fields: &[(SmolStr, Value)], name: &str) -> Option<usize> {
    if fields.len() <= SCANNED_MAX {
        let name = name.as_bytes();
        return fields.iter().position(|(other, _)| {
            let other = other.as_bytes();
            other.len() == name.len() && other.first() == name.first() && other == name
        });
    }
    fields.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()
}

impl<'a> Entry<'a> {
    /// The value, which is set if there is none.
    pub fn or_insert(self, value: Value) -> &'a mut Value {
        self.or_insert_with(|| value)
    }

    /// The value, which is made if there is none.
    pub fn or_insert_with(self, value: impl FnOnce() -> Value) -> &'a mut Value {
        match self {
            Self::Occupied(present) => present,
            Self::Vacant(place) => place.insert(value()),
        }
    }
}

impl<'a> VacantEntry<'a> {
    /// Adds the field.
    pub fn insert(self, value: Value) -> &'a mut Value {
        self.map.insert(self.name.clone(), value);
        self.map.get_mut(&self.name).expect("it was just added")
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || (self.len() == other.len() && self.iter().eq(other))
    }
}

impl Eq for Map {}

impl std::ops::Index<&str> for Map {
    type Output = Value;

    #[inline]
    fn index(&self, name: &str) -> &Value {
        self.get(name).expect("there is such a field")
    }
}

/// The fields of an object, ordered by name.
#[derive(Clone)]
pub struct Iter<'a>(
    Either<std::slice::Iter<'a, (SmolStr, Value)>, btree_map::Iter<'a, SmolStr, Value>>,
);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a SmolStr, &'a Value);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Left(fields) => fields.next().map(|(name, value)| (name, value)),
            Either::Right(fields) => fields.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Either::Left(fields) => fields.size_hint(),
            Either::Right(fields) => fields.size_hint(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a SmolStr, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The fields by value.
pub type IntoIter =
    Either<std::vec::IntoIter<(SmolStr, Value)>, btree_map::IntoIter<SmolStr, Value>>;

impl IntoIterator for Map {
    type Item = (SmolStr, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        match self.0.into_content() {
            Fields::Few(fields) => Either::Left(fields.into_iter()),
            Fields::Many(fields) => Either::Right(fields.into_iter()),
        }
    }
}

/// The last of several fields of one name counts.
impl<K: Into<SmolStr>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(fields: I) -> Self {
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value));
        let mut few: Vec<(SmolStr, Value)> = fields.collect();
        if !few.is_sorted_by(|(one, _), (other, _)| one < other) {
            few.sort_by(|(one, _), (other, _)| one.cmp(other));
            few.dedup_by(|later, earlier| {
                let is_same = later.0 == earlier.0;
                if is_same {
                    std::mem::swap(later, earlier);
                }
                is_same
            });
        }
        if few.len() > FEW_MAX {
            return Self(Shared::new(Fields::Many(few.into_iter().collect())));
        }
        Self(Shared::new(Fields::Few(few)))
    }
}

impl<K: Into<SmolStr>> Extend<(K, Value)> for Map {
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, fields: I) {
        for (name, value) in fields {
            self.insert(name, value);
        }
    }
}
