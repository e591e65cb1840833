//! Excerpts of what a client's request makes as long as it likes: the first items, within limits of
//! number and size.

/// Maximum number of items that an answer lists.
const ITEMS_MAX: usize = 100;
/// Size in bytes of all listed items above which no other one is listed.
const BYTES_MAX: usize = 64 * 1024;

/// A list of items, and the number of those that were left out and never made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt<T = String> {
    pub items: Vec<T>,
    bytes: usize,
    pub left_out: usize,
}

impl<T> Default for Excerpt<T> {
    fn default() -> Self {
        Self { items: Vec::new(), bytes: 0, left_out: 0 }
    }
}

impl<T: PartialEq> Excerpt<T> {
    /// True if further items are left out. Then they need not be made.
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= ITEMS_MAX || self.bytes >= BYTES_MAX
    }

    /// Adds an item with a number of bytes, unless it is listed already.
    pub(crate) fn add_new(&mut self, item: T, bytes: usize) {
        if self.is_full() {
            self.left_out += 1;
        } else if !self.items.contains(&item) {
            self.bytes += bytes;
            self.items.push(item);
        }
    }
}

impl Excerpt {
    /// Adds a text, which is made only if it is listed.
    pub(crate) fn add(&mut self, text: impl FnOnce() -> String) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        let text = shortened(text());
        self.bytes += text.len();
        self.items.push(text);
    }

    /// The same in the order of the texts.
    pub(crate) fn sorted(mut self) -> Self {
        self.items.sort_unstable();
        self
    }

    /// Adds the texts of another list, within the limits.
    pub(crate) fn append(&mut self, other: Self) {
        other.items.into_iter().for_each(|text| self.add(|| text));
        self.left_out += other.left_out;
    }

    /// True if no text is listed.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The texts, with one at the end that says how many there are more.
    pub(crate) fn into_vec(mut self) -> Vec<String> {
        if self.left_out > 0 {
            self.items.push(format!("and {} more", self.left_out));
        }
        self.items
    }
}

/// Maximum size of a text in bytes.
const TEXT_BYTES_MAX: usize = 4 * 1024;

/// A text, cut if it is very long. Upstream quotes any length.
pub(crate) fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str("...");
    }
    text
}

/// As much of a text as [`shortened`] can leave of it, so that the rest need not be quoted.
pub(crate) fn beginning(text: &str) -> &str {
    /// More than one character has.
    const MORE: usize = 8;
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX + MORE)]
}
