//! The sizes of values.

use super::{Number, SmolStr, Value};

/// The sizes of a value: in bytes, and its nesting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// As JSON text.
    pub json: usize,
    /// As a tree in memory, roughly.
    pub tree: usize,
    /// The nesting: 1 for a value that is neither an array nor an object.
    pub depth: usize,
}

impl Value {
    /// The sizes of the value, without making its text. They are determined once for what copies
    /// share.
    pub fn size(&self) -> Size {
        /// The bytes that an array or an object needs besides its items.
        const CONTENT_BYTES: usize = 96;
        let tree = size_of::<Self>();
        let scalar = |json: usize| Size { json, tree, depth: 1 };
        match self {
            Self::Null => scalar(4),
            Self::Bool(value) => scalar(if *value { 4 } else { 5 }),
            Self::Number(number) => scalar(number_bytes(number)),
            Self::String(text) => {
                Size { json: json_bytes(text), tree: tree + heap_bytes(text), depth: 1 }
            }
            Self::Array(items) => items.0.size(|items| {
                let json = 1 + items.len().max(1);
                let own = Size { json, tree: tree + CONTENT_BYTES, depth: 0 };
                items.iter().map(Self::size).fold(own, Size::and).nested()
            }),
            Self::Object(fields) => fields.size(|fields| {
                let json = 1 + fields.len().max(1);
                let own = Size { json, tree: tree + CONTENT_BYTES, depth: 0 };
                let field = |(name, value): (&SmolStr, &Self)| {
                    let tree = size_of::<SmolStr>() + heap_bytes(name);
                    Size { json: json_bytes(name) + 1, tree, depth: 0 }.and(value.size())
                };
                fields.map(field).fold(own, Size::and).nested()
            }),
        }
    }
}

impl Size {
    fn and(self, other: Self) -> Self {
        Self {
            json: self.json + other.json,
            tree: self.tree + other.tree,
            depth: self.depth.max(other.depth),
        }
    }

    fn nested(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

/// The length of a number in JSON.
fn number_bytes(number: &Number) -> usize {
    match number.as_u64() {
        Some(number) => 1 + number.checked_ilog10().unwrap_or(0) as usize,
        None => number.to_string().len(),
    }
}

/// The length of a string in JSON.
fn json_bytes(text: &str) -> usize {
    // Hardly any string has them, and the processor compares many bytes at a time.
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if !text.bytes().fold(false, |any, byte| any | is_escaped(byte)) {
        return 2 + text.len();
    }
    let more = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 => 5,
        _ => 0,
    });
    2 + text.len() + more.sum::<usize>()
}

/// The bytes of a string that are not in the value itself.
fn heap_bytes(text: &SmolStr) -> usize {
    if text.is_heap_allocated() { text.len() } else { 0 }
}
