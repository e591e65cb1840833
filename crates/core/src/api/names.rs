//! Names, UIDs and versions: ordered and cheap to clone.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a name, unchecked.
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// The name as a string.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.into())
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(name.into())
            }
        }

        impl From<Arc<str>> for $name {
            fn from(name: Arc<str>) -> Self {
                Self(name)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    )*};
}

names! {
    /// `metadata.name` of a Node.
    NodeName;
    /// `metadata.name` of a Pod.
    PodName;
    /// `metadata.namespace`.
    Namespace;
    /// `metadata.name` of a DaemonSet.
    DaemonSetName;
    /// `metadata.name` of a ControllerRevision.
    RevisionName;
    /// The value of the label `controller-revision-hash`.
    RevisionHash;
}

/// Namespace and name of a DaemonSet: its identity in work queues and messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DaemonSetKey {
    /// `metadata.namespace`.
    pub namespace: Namespace,
    /// `metadata.name`.
    pub name: DaemonSetName,
}

impl DaemonSetKey {
    /// The key of the DaemonSet with this namespace and name.
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<DaemonSetName>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for DaemonSetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `metadata.uid`. A UUID, which API servers assign, takes 16 bytes; any other text is stored as it
/// is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(UidForm);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UidForm {
    /// A UUID in canonical form (lower case, hyphens): printing it returns the original text.
    Uuid([u8; 16]),
    Other(Arc<str>),
}

impl Uid {
    /// Parses a UID. Every text is valid.
    pub fn new(uid: &str) -> Self {
        Self(parse_uuid(uid).map_or_else(|| UidForm::Other(uid.into()), UidForm::Uuid))
    }
}

impl From<&str> for Uid {
    fn from(uid: &str) -> Self {
        Self::new(uid)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Other(uid) => f.write_str(uid),
            UidForm::Uuid(bytes) => {
                let mut text = [b'-'; 36];
                let mut at = 0;
                for (i, byte) in bytes.iter().enumerate() {
                    at += usize::from(HYPHEN_BEFORE_BYTE.contains(&i));
                    text[at] = HEX_DIGITS[usize::from(byte >> 4)];
                    text[at + 1] = HEX_DIGITS[usize::from(byte & 0xf)];
                    at += 2;
                }
                f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `metadata.resourceVersion`: a decimal number that grows with every write of a kind (C60).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(pub u64);

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

const HYPHEN_BEFORE_BYTE: [usize; 4] = [4, 6, 8, 10];
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut at = 0;
    for (i, byte) in bytes.iter_mut().enumerate() {
        if HYPHEN_BEFORE_BYTE.contains(&i) {
            if text[at] != b'-' {
                return None;
            }
            at += 1;
        }
        *byte = hex_digit(text[at])? << 4 | hex_digit(text[at + 1])?;
        at += 2;
    }
    Some(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_prints_the_text_that_it_was_parsed_from() {
        for uid in [
            "0c6ff5b8-21ad-4d3c-9f0e-8b1a2c3d4e5f",
            "0C6FF5B8-21AD-4D3C-9F0E-8B1A2C3D4E5F",
            "0c6ff5b8x21ad-4d3c-9f0e-8b1a2c3d4e5f",
            "not a uuid",
            "",
        ] {
            assert_eq!(Uid::new(uid).to_string(), uid);
        }
        assert!(size_of::<Uid>() <= 24);
    }
}
