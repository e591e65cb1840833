//! How clients' changes of a field are merged: the words at the end of a field's row in the table.

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStrategy {
    /// Objects are merged field by field, other values are replaced.
    Plain,
    /// A list of objects is merged element by element, matched by a key.
    MergeBy(&'static str),
    /// As `MergeBy`; clients also list the fields that each element keeps (`$retainKeys`).
    MergeRetainKeysBy(&'static str),
    /// A list of scalars is merged as an ordered set.
    MergeSet,
    /// Clients replace the object as a whole.
    Replace,
    /// Clients list the fields that the object keeps.
    RetainKeys,
}

/// Which parts of a list, map or struct server-side apply takes for one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A list as a whole; each entry of a map; a struct as its type says.
    Default,
    /// The whole value.
    Atomic,
    /// Each entry of a map or field of a struct.
    Granular,
    /// Each value of a list of scalars.
    Set,
    /// Each element of a list, identified by fields, which are joined by `+`.
    Keyed(&'static str),
}

impl MergeStrategy {
    /// True if lists are merged.
    pub(crate) fn merges_lists(self) -> bool {
        match self {
            Self::Plain | Self::Replace | Self::RetainKeys => false,
            Self::MergeBy(_) | Self::MergeRetainKeysBy(_) | Self::MergeSet => true,
        }
    }

    /// The key by which the elements are matched.
    pub fn key(self) -> Option<&'static str> {
        match self {
            Self::MergeBy(key) | Self::MergeRetainKeysBy(key) => Some(key),
            Self::Plain | Self::MergeSet | Self::Replace | Self::RetainKeys => None,
        }
    }

    fn parse(word: &'static str) -> Option<Self> {
        Some(match word.split_once(':') {
            Some(("merge", key)) => Self::MergeBy(key),
            Some(("merge+retainKeys", key)) => Self::MergeRetainKeysBy(key),
            Some(_) => return None,
            None => match word {
                "merge" => Self::MergeSet,
                "replace" => Self::Replace,
                "retainKeys" => Self::RetainKeys,
                _ => return None,
            },
        })
    }
}

impl Topology {
    /// The fields that identify the elements of a list.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        let keys = if let Self::Keyed(keys) = self { Some(keys) } else { None };
        keys.into_iter().flat_map(|keys| keys.split('+'))
    }

    fn parse(word: &'static str) -> Option<Self> {
        Some(match word {
            "set" => Self::Set,
            "atomic" => Self::Atomic,
            "granular" => Self::Granular,
            _ => Self::Keyed(word.strip_prefix("keys:")?),
        })
    }

    /// Upstream's rule for a list of which only the strategy of patches is known.
    fn of_strategy(merge: MergeStrategy) -> Self {
        match merge {
            MergeStrategy::MergeBy(key) | MergeStrategy::MergeRetainKeysBy(key) => Self::Keyed(key),
            MergeStrategy::MergeSet => Self::Set,
            MergeStrategy::Plain | MergeStrategy::Replace | MergeStrategy::RetainKeys => {
                Self::Default
            }
        }
    }
}

/// The strategy, the topology and the default in the last words of a field's row.
pub(super) fn parse(
    words: impl Iterator<Item = &'static str>,
) -> (MergeStrategy, Topology, Option<&'static str>) {
    let (mut merge, mut topology, mut default) = (MergeStrategy::Plain, None, None);
    for word in words {
        if let Some(strategy) = MergeStrategy::parse(word) {
            merge = strategy;
        } else if let Some(text) = word.strip_prefix('=') {
            default = Some(text);
        } else {
            topology = Some(Topology::parse(word).expect("the table has no other words"));
        }
    }
    (merge, topology.unwrap_or_else(|| Topology::of_strategy(merge)), default)
}
