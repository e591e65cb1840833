//! Namespaces: the node selector that one may have for its pods (C15).

use everynode_core::api::{
    Labels, NAMESPACE_NODE_SELECTOR_ANNOTATION, Namespace, NamespaceNodeSelector,
};
use serde::Deserialize;

use super::wire::{Text, TextMap};
use super::{Error, Interner};
use crate::go_json;

/// A Namespace, and what its annotation restricts its pods to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceObject {
    pub name: Namespace,
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
    annotations: Option<TextMap<'a>>,
}

/// # Errors
/// If it is no Namespace.
pub fn namespace(json: &[u8], interner: &mut Interner) -> Result<NamespaceObject, Error> {
    let text_of_json = go_json::text(json);
    let wire: WireNamespace =
        serde_json::from_str(&text_of_json).map_err(|e| Error::new("Namespace", json, e))?;
    let annotations = wire.metadata.annotations.unwrap_or_default();
    let selector = annotations.get(NAMESPACE_NODE_SELECTOR_ANNOTATION).unwrap_or("");
    Ok(NamespaceObject {
        name: interner.text(&wire.metadata.name).into(),
        node_selector: node_selector(selector).map_or_else(malformed, Into::into),
    })
}

/// `key=value` pairs with commas between. Upstream: `labels.ConvertSelectorToLabelsMap`.
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

    /// C15: the annotation is a list of labels; a malformed one is a problem, not a lost namespace.
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
