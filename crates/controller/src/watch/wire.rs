//! The JSON around the objects of lists and watches. The objects themselves stay bytes, for their decoders.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A page of a list.
#[derive(Deserialize)]
pub struct List<'a> {
    pub metadata: ListMeta,
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    pub resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub continue_token: Option<String>,
}

/// One line of a watch.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    #[serde(rename = "type")]
    pub event: EventType,
    #[serde(borrow)]
    pub object: &'a RawValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// What every object of a watch has.
#[derive(Deserialize)]
pub struct Versioned<'a> {
    #[serde(borrow)]
    pub metadata: VersionedMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionedMeta<'a> {
    pub resource_version: String,
    #[serde(borrow, default)]
    pub annotations: Option<&'a RawValue>,
}

impl VersionedMeta<'_> {
    /// Does this bookmark end the initial events of a streaming list?
    pub fn ends_initial_events(&self) -> bool {
        #[derive(Default, Deserialize)]
        struct Annotations {
            #[serde(rename = "k8s.io/initial-events-end", default)]
            end: String,
        }
        let annotations = self.annotations.map(RawValue::get).unwrap_or("{}");
        serde_json::from_str::<Annotations>(annotations).unwrap_or_default().end == "true"
    }
}
