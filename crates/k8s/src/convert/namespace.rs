//! Namespaces: the node selector of their pods (C15).

use bytes::Bytes;
use everynode_core::api::{
    Labels, NAMESPACE_NODE_SELECTOR_ANNOTATION, Namespace, NamespaceNodeSelector,
};
use prost::Message;
use serde::Deserialize;

use super::wire::{Text, TextMap};
use super::{Error, Interner};
use crate::{go_json, protobuf};

/// A Namespace with the node selector of its pods (C15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceObject {
    /// `metadata.name`.
    pub name: Namespace,
    /// `metadata.labels`, by which policies select it (G4).
    pub labels: Labels,
    /// The node selector in the annotation.
    pub node_selector: NamespaceNodeSelector,
}

#[derive(Deserialize)]
struct WireNamespace<'a> {
    #[serde(borrow)]
    metadata: WireMetadata<'a>,
}

#[derive(Deserialize)]
struct WireMetadata<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    labels: Option<TextMap<'a>>,
    #[serde(borrow)]
    annotations: Option<TextMap<'a>>,
}

/// Decodes a Namespace.
///
/// # Errors
/// If a field has a wrong type, or the name is missing.
pub fn namespace(json: &[u8], interner: &mut Interner) -> Result<NamespaceObject, Error> {
    let text_of_json = go_json::text(json);
    let wire: WireNamespace =
        serde_json::from_str(&text_of_json).map_err(|e| Error::new("Namespace", json, e))?;
    Ok(wire.metadata.convert(interner))
}

/// The same of a Namespace's protobuf message.
///
/// # Errors
/// If the message is malformed, or the name is missing.
pub fn namespace_of_protobuf(
    message: &Bytes,
    interner: &mut Interner,
) -> Result<NamespaceObject, Error> {
    let failed = |e: String| Error::of_protobuf("Namespace", message, e);
    let namespace =
        protobuf::Namespace::decode(message.clone()).map_err(|e| failed(e.to_string()))?;
    let metadata = namespace.metadata.unwrap_or_default();
    let wire = WireMetadata {
        name: Text::of_field(&metadata.name)
            .ok_or_else(|| failed("metadata.name is missing".to_owned()))?,
        labels: Some(metadata.labels.iter().collect()),
        annotations: Some(metadata.annotations.iter().collect()),
    };
    Ok(wire.convert(interner))
}

impl WireMetadata<'_> {
    fn convert(self, interner: &mut Interner) -> NamespaceObject {
        let annotations = self.annotations.unwrap_or_default();
        let selector = annotations.get(NAMESPACE_NODE_SELECTOR_ANNOTATION).unwrap_or("");
        NamespaceObject {
            name: interner.text(&self.name).into(),
            labels: self.labels.unwrap_or_default().labels(interner),
            node_selector: node_selector(selector).map_or_else(malformed, Into::into),
        }
    }
}

/// Parses `key=value` pairs that are separated by commas. Upstream:
/// `labels.ConvertSelectorToLabelsMap`.
fn node_selector(text: &str) -> Result<Labels, String> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok((key.trim(), value.trim())),
            _ => Err(format!("\"{pair}\" is not of the form key=value")),
        })
        .collect()
}

fn malformed(message: String) -> NamespaceNodeSelector {
    NamespaceNodeSelector { labels: Labels::default(), malformed: Some(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(annotation: &str) -> NamespaceNodeSelector {
        let json = serde_json::json!({ "metadata": {
            "name": "ns", "annotations": { NAMESPACE_NODE_SELECTOR_ANNOTATION: annotation },
        } });
        namespace(json.to_string().as_bytes(), &mut Interner::default()).unwrap().node_selector
    }

    /// C15: the annotation is a list of labels; a malformed one is reported, and the namespace is
    /// kept.
    #[test]
    fn the_annotation_is_a_list_of_labels() {
        assert_eq!(selector("a=b, c=d"), Labels::from_iter([("a", "b"), ("c", "d")]).into());
        assert!(selector("").is_empty());
        assert_eq!(selector("a="), Labels::from_iter([("a", "")]).into());
        for annotation in ["a", "=b", "==", "a=b,c"] {
            let selector = selector(annotation);
            assert!(selector.labels.is_empty(), "{annotation}");
            assert!(selector.malformed.is_some(), "{annotation}");
        }
    }
}
