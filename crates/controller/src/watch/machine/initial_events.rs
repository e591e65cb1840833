//! The objects of a streaming list that is not complete. Usually objects are only added. Those that
//! change or are deleted before the list is complete are found by their keys.

use std::collections::BTreeMap;

/// Objects, each at most once.
#[derive(Debug)]
pub(super) struct InitialEvents<T> {
    items: Vec<T>,
    /// The index of each object, built when it is first needed, which with most servers is never.
    indices: Option<BTreeMap<String, usize>>,
    key: fn(&T) -> String,
}

impl<T> InitialEvents<T> {
    pub(super) fn new(key: fn(&T) -> String) -> Self {
        Self { items: Vec::new(), indices: None, key }
    }

    /// Adds an object that is not contained yet.
    pub(super) fn push(&mut self, item: T) {
        if self.indices.is_some() {
            self.replace(item);
        } else {
            self.items.push(item);
        }
    }

    /// Adds an object or replaces its older state.
    pub(super) fn replace(&mut self, item: T) {
        let (key, end) = ((self.key)(&item), self.items.len());
        let index = *self.indices().entry(key).or_insert(end);
        if index == end {
            self.items.push(item);
        } else {
            self.items[index] = item;
        }
    }

    /// Removes an object if it is contained.
    pub(super) fn remove(&mut self, item: &T) {
        let key = (self.key)(item);
        let Some(index) = self.indices().remove(&key) else { return };
        self.items.swap_remove(index);
        if let Some(moved) = self.items.get(index) {
            let key = (self.key)(moved);
            self.indices().insert(key, index);
        }
    }

    pub(super) fn take(&mut self) -> Vec<T> {
        self.indices = None;
        std::mem::take(&mut self.items)
    }

    fn indices(&mut self) -> &mut BTreeMap<String, usize> {
        let (items, key) = (&self.items, self.key);
        self.indices.get_or_insert_with(|| items.iter().map(key).zip(0..).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keyed by the tens.
    fn initial_events() -> InitialEvents<u8> {
        InitialEvents::new(|number| (number / 10).to_string())
    }

    /// C1: each object is contained once, in its newest state.
    #[test]
    fn items_are_replaced_and_removed_by_their_keys() {
        let mut initial_events = initial_events();
        for item in [10, 20, 30, 40] {
            initial_events.push(item);
        }
        initial_events.replace(21);
        initial_events.remove(&15);
        initial_events.remove(&99);
        initial_events.replace(41);
        initial_events.remove(&41);
        initial_events.push(50);
        initial_events.push(31);
        initial_events.replace(51);
        let mut items = initial_events.take();
        items.sort_unstable();
        assert_eq!(items, [21, 31, 51]);
        initial_events.replace(60);
        assert_eq!(initial_events.take(), [60]);
    }
}
