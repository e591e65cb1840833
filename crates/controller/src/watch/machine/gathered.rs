//! What a list has gathered so far. Mostly items only arrive; where some change or go before the list is complete, they
//! are found by their keys.

use std::collections::BTreeMap;

/// Items, each once.
#[derive(Debug)]
pub struct Gathered<T> {
    items: Vec<T>,
    /// Where each item is; made when it is first asked for, which with most servers is never.
    places: Option<BTreeMap<String, usize>>,
    key: fn(&T) -> String,
}

impl<T> Gathered<T> {
    pub fn new(key: fn(&T) -> String) -> Self {
        Self { items: Vec::new(), places: None, key }
    }

    /// Adds an item that is not among them.
    pub fn push(&mut self, item: T) {
        if self.places.is_some() {
            self.put(item);
        } else {
            self.items.push(item);
        }
    }

    /// Adds an item, or puts it into the place of its older state.
    pub fn put(&mut self, item: T) {
        let (key, end) = ((self.key)(&item), self.items.len());
        let place = *self.places().entry(key).or_insert(end);
        if place == end {
            self.items.push(item);
        } else {
            self.items[place] = item;
        }
    }

    /// Takes an item out, if it is among them.
    pub fn remove(&mut self, item: &T) {
        let key = (self.key)(item);
        let Some(place) = self.places().remove(&key) else { return };
        self.items.swap_remove(place);
        if let Some(moved) = self.items.get(place) {
            let key = (self.key)(moved);
            self.places().insert(key, place);
        }
    }

    pub fn take(&mut self) -> Vec<T> {
        self.places = None;
        std::mem::take(&mut self.items)
    }

    fn places(&mut self) -> &mut BTreeMap<String, usize> {
        let (items, key) = (&self.items, self.key);
        self.places.get_or_insert_with(|| items.iter().map(key).zip(0..).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keyed by the tens.
    fn gathered() -> Gathered<u8> {
        Gathered::new(|number| (number / 10).to_string())
    }

    /// C1: each item is there once, in its newest state, whatever happened to it.
    #[test]
    fn items_are_replaced_and_removed_by_their_keys() {
        let mut gathered = gathered();
        for item in [10, 20, 30, 40] {
            gathered.push(item);
        }
        gathered.put(21);
        gathered.remove(&15);
        gathered.remove(&99);
        gathered.put(41);
        gathered.remove(&41);
        gathered.push(50);
        gathered.push(31);
        gathered.put(51);
        let mut items = gathered.take();
        items.sort_unstable();
        assert_eq!(items, [21, 31, 51]);
        gathered.put(60);
        assert_eq!(gathered.take(), [60]);
    }
}
