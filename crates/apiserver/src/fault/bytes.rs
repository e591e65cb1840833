//! The objects in the bytes of a response: where each ends, and how to make one invalid.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::effect::InvalidUtf8;

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Event {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

/// The offsets in a chunk at which objects end: the lines of a watch, the items of a list, or a
/// single object.
pub fn object_ends(bytes: &[u8], is_watch: bool) -> Vec<usize> {
    objects(bytes, is_watch).into_iter().map(|object| object.end).collect()
}

/// A copy of the chunk with the object made invalid; `None` if the chunk does not contain the
/// object and its text.
pub fn invalidate(bytes: &[u8], is_watch: bool, fault: &InvalidUtf8) -> Option<Vec<u8>> {
    let text = fault.text.as_bytes();
    let mut spoilt = None;
    for object in objects(bytes, is_watch) {
        if text.is_empty() || !is_target(&bytes[object.clone()], is_watch, fault) {
            continue;
        }
        let found = bytes[object.clone()].windows(text.len()).enumerate();
        for (at, _) in found.filter(|(_, window)| *window == text) {
            spoilt.get_or_insert_with(|| bytes.to_vec())[object.start + at] = 0xff;
        }
    }
    spoilt
}

fn objects(bytes: &[u8], is_watch: bool) -> Vec<Range<usize>> {
    if is_watch {
        return lines(bytes);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
    let Ok(List { items }) = serde_json::from_str(text) else {
        return vec![Range { start: 0, end: bytes.len() }];
    };
    let start = text.as_ptr() as usize;
    let range = |item: &RawValue| {
        let offset = item.get().as_ptr() as usize - start;
        offset..offset + item.get().len()
    };
    items.into_iter().map(range).collect()
}

fn lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(at, _)| std::mem::replace(&mut start, at + 1)..at + 1).collect()
}

fn is_target(bytes: &[u8], is_watch: bool, fault: &InvalidUtf8) -> bool {
    let object: Result<Object, _> = if is_watch {
        serde_json::from_slice(bytes).map(|Event { object }| object)
    } else {
        serde_json::from_slice(bytes)
    };
    let metadata = object.map(|object| object.metadata);
    metadata.is_ok_and(|found| found.namespace == fault.namespace && found.name == fault.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = concat!(
        r#"{"kind":"L","items":[{"metadata":{"namespace":"n","name":"a"},"data":"xx pause"},"#,
        r#"{"metadata":{"namespace":"n","name":"b"},"data":"pause"}]}"#,
        "\n"
    )
    .as_bytes();
    const WATCH: &[u8] =
        br#"{"type":"ADDED","object":{"metadata":{"namespace":"n","name":"a"},"data":"pause"}}
{"type":"ADDED","object":{"metadata":{"namespace":"n","name":"b"},"data":"pause"}}
"#;

    fn fault(name: &str) -> InvalidUtf8 {
        InvalidUtf8 { namespace: "n".to_owned(), name: name.to_owned(), text: "pause".to_owned() }
    }

    /// S17: the ends of list items and of watch events are found.
    #[test]
    fn the_ends_of_objects_are_found() {
        for end in object_ends(LIST, false) {
            assert_eq!(LIST[end - 1], b'}');
        }
        assert_eq!(object_ends(LIST, false).len(), 2);
        let half = WATCH.len() / 2;
        assert_eq!(object_ends(WATCH, true), [half, half * 2]);
        assert_eq!(object_ends(br#"{"metadata":{}}"#, false), [15]);
        assert_eq!(object_ends(b"", true), [0; 0]);
    }

    /// S17: one object is made invalid in any response, and the others stay unchanged.
    #[test]
    fn one_object_is_made_invalid() {
        for (bytes, is_watch) in [(LIST, false), (WATCH, true)] {
            let spoilt = invalidate(bytes, is_watch, &fault("b")).expect("b is in it");
            let changed: Vec<usize> =
                (0..bytes.len()).filter(|at| bytes[*at] != spoilt[*at]).collect();
            assert_eq!(changed.len(), 1, "is_watch {is_watch}");
            assert_eq!(spoilt[changed[0]], 0xff);
            assert!(changed[0] > bytes.len() / 2, "it is the second object");
            assert_eq!(invalidate(bytes, is_watch, &fault("c")), None);
        }
        let whole = br#"{"metadata":{"namespace":"n","name":"a"},"data":"pause pause"}"#;
        let spoilt = invalidate(whole, false, &fault("a")).expect("it is the object");
        assert_eq!(spoilt.iter().filter(|byte| **byte == 0xff).count(), 2);
        assert!(std::str::from_utf8(&spoilt).is_err());
    }
}
