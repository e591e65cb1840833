//! ControllerRevisions: their controller, and the template that they store.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{
    CONFIG_ANNOTATION, ConfigCopies, Namespace, OVERRIDES_ANNOTATION, Overrides, RECORD_ANNOTATION,
    Revision, TEMPLATE_GENERATION_ANNOTATION, Template, Uid,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::config::stored_config;
use super::placement::termination_grace_period_seconds;
use super::policy::stored_overrides;
use super::wire::{Metadata, TextMap, text};
use super::{Controller, Error, Interner, placement, resource_version};
use crate::go_json;
use crate::in_place::fixed_parts;
use crate::json_path::read_first;
use crate::record::record_state;
use crate::revision_data::template_of_data;

/// A decoded ControllerRevision.
#[expect(clippy::large_enum_variant, reason = "nearly all that are read are of DaemonSets")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionObject {
    /// A revision that a DaemonSet controls, or one without a controller.
    Revision {
        /// `metadata.namespace`.
        namespace: Namespace,
        /// The revision.
        revision: Revision,
    },
    /// A revision that another kind controls, such as a StatefulSet; only its identity is kept
    /// (C3).
    Foreign {
        /// `metadata.namespace`.
        namespace: Namespace,
        /// `metadata.uid`.
        uid: Uid,
    },
}

#[derive(Deserialize)]
struct WireRevision<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    revision: Option<i64>,
}

/// Decodes a ControllerRevision.
///
/// # Errors
/// If a field other than `data` has a wrong type, or the name is missing.
pub fn revision(json: &[u8], interner: &mut Interner) -> Result<RevisionObject, Error> {
    let error = |cause: String| Error::new("ControllerRevision", json, cause);
    let text_of_json = go_json::text(json);
    let wire: WireRevision =
        serde_json::from_str(&text_of_json).map_err(|e| error(e.to_string()))?;
    let name = wire.metadata.name().map_err(|e| error(e.to_owned()))?;
    let namespace = interner.text(text(wire.metadata.namespace.as_ref())).into();
    let uid = wire.metadata.uid();
    let controller = match wire.metadata.controller() {
        Controller::None => None,
        Controller::DaemonSet(uid) => Some(uid),
        Controller::Foreign => return Ok(RevisionObject::Foreign { namespace, uid }),
    };
    let annotations = annotations(&text_of_json);
    let mut template = template(wire.data, interner);
    let overrides = match annotations.get(OVERRIDES_ANNOTATION).map(stored_overrides) {
        None => None,
        Some(Ok(overrides)) => Some(overrides).filter(|it| !it.list.is_empty()),
        Some(Err(error)) => {
            template = Err(format!("its annotation {OVERRIDES_ANNOTATION} is malformed: {error}"));
            None
        }
    };
    let overrides = overrides.map(Arc::new);
    let copies = match annotations.get(CONFIG_ANNOTATION).map(stored_copies) {
        None => None,
        Some(Ok(copies)) => Some(Arc::new(copies)),
        Some(Err(error)) => {
            template = Err(format!("its annotation {CONFIG_ANNOTATION} is malformed: {error}"));
            None
        }
    };
    let revision = Revision {
        name: name.into(),
        record: record_state(annotations.get(RECORD_ANNOTATION), &uid),
        template_generation: annotations
            .get(TEMPLATE_GENERATION_ANNOTATION)
            .and_then(|text| text.parse().ok()),
        uid,
        resource_version: resource_version(text(wire.metadata.resource_version.as_ref())),
        labels: wire.metadata.labels(interner),
        controller,
        terminating: wire.metadata.deletion_timestamp.is_some(),
        number: wire.revision.unwrap_or(0),
        template: template.map_err(|message| interner.text(&message)),
        overrides: Overrides::with_copies(overrides.as_ref(), copies.as_ref()),
    };
    Ok(RevisionObject::Revision { namespace, revision })
}

/// The copies of ConfigMaps in the annotation of a revision.
fn stored_copies(text: &str) -> Result<ConfigCopies, serde_json::Error> {
    let hashes: BTreeMap<Arc<str>, Arc<str>> = serde_json::from_str(text)?;
    Ok(ConfigCopies::new(hashes.clone(), serde_json::to_string(&hashes)?))
}

/// `metadata.annotations`; malformed ones count as none.
fn annotations(json: &str) -> TextMap<'_> {
    let annotations: Option<Option<TextMap>> =
        read_first(json, &["metadata", "annotations"]).ok().flatten();
    annotations.flatten().unwrap_or_default()
}

/// The template in `data`. The core reports an error as a problem (C4). Malformed parts of its
/// placement were reported when the DaemonSet had this template.
fn template(data: Option<&RawValue>, interner: &mut Interner) -> Result<Template, String> {
    let data = data.ok_or("it has no data")?;
    let data = go_json::parse(data.get().as_bytes()).map_err(|error| error.to_string())?;
    let template = template_of_data(&data)?;
    let stored = data.pointer("/spec/template").unwrap_or(&Value::Null);
    let spec = stored.get("spec").unwrap_or(&Value::Null);
    let (placement, _) = placement(spec, "data.spec.template.spec");
    Ok(Template::new(interner.text(&template), placement)
        .with_termination_grace_period(termination_grace_period_seconds(spec))
        .with_config(stored_config(stored))
        .with_fixed_parts(fixed_parts(stored)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: &Value) -> RevisionObject {
        revision(value.to_string().as_bytes(), &mut Interner::default()).unwrap()
    }

    fn owned_by(api_version: &str, kind: &str) -> Value {
        let owner = json!({ "apiVersion": api_version, "kind": kind, "name": "o", "uid": "o",
            "controller": true });
        json!({ "metadata": { "name": "r", "namespace": "ns", "uid": "u",
            "ownerReferences": [owner] } })
    }

    fn with_data(data: Value) -> Result<Template, std::sync::Arc<str>> {
        let value =
            json!({ "metadata": { "name": "r", "namespace": "ns" }, "data": data, "revision": 4 });
        match of(&value) {
            RevisionObject::Revision { revision, .. } => {
                assert_eq!(revision.number, 4);
                revision.template
            }
            RevisionObject::Foreign { .. } => panic!("foreign"),
        }
    }

    /// C41: other versions of Go write other JSON for the same template.
    #[test]
    fn a_template_that_another_version_of_go_wrote_is_equal() {
        let new = json!({ "spec": { "template": { "$patch": "replace",
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c" }] } } } });
        let old = json!({ "spec": { "template": { "$patch": "replace",
            "metadata": { "creationTimestamp": null, "labels": { "a": "b" } },
            "spec": { "securityContext": {},
                "containers": [{ "name": "c", "resources": {} }] } } } });
        assert!(with_data(new.clone()).is_ok());
        assert_eq!(with_data(new), with_data(old));
    }

    /// C4: a revision whose data contains no template is kept.
    #[test]
    fn a_revision_without_a_template_is_kept() {
        for data in [Value::Null, json!("text"), json!({ "spec": [] })] {
            assert!(with_data(data).is_err());
        }
    }

    /// C41: a revision created by Kubernetes 1.8 or older names its DaemonSet with the API group
    /// `extensions`.
    #[test]
    fn a_revision_whose_owner_has_the_old_api_group_is_kept() {
        let value = owned_by("extensions/v1beta1", "DaemonSet");
        let RevisionObject::Revision { revision, .. } = of(&value) else { panic!("foreign") };
        assert_eq!(revision.controller, Some(Uid::new("o")));
    }

    /// C1, C4: a revision with invalid UTF-8 in its data is kept. API servers serve data as it is
    /// stored.
    #[test]
    fn a_revision_with_invalid_utf_8_is_kept() {
        let json = b"{\"metadata\":{\"name\":\"r\",\"namespace\":\"ns\",\
            \"annotations\":{\"a\":\"\xc3\"}},\
            \"data\":{\"spec\":{\"template\":{\"x\":\"a\xff\xe2\x80z\"}}},\"revision\":4}";
        let object = revision(json, &mut Interner::default()).unwrap();
        let RevisionObject::Revision { revision, .. } = object else { panic!("foreign") };
        assert_eq!((revision.name.as_str(), revision.number), ("r", 4));
        let template = revision.template.unwrap();
        assert!(
            template.canonical.contains("a\u{fffd}\u{fffd}\u{fffd}z"),
            "one for each byte, as Go reads: {template:?}"
        );
    }

    /// C4: data that Go reads and this program does not, such as very deep nesting, is reported.
    #[test]
    fn unreadable_data_is_a_problem_of_the_revision() {
        for bad in [
            r#"{"x":"\ud800"}"#,
            r#"{"x":1e999}"#,
            &format!("{}{}", "[".repeat(200), "]".repeat(200)),
        ] {
            let json = format!(
                r#"{{"metadata":{{"name":"r","namespace":"ns"}},"data":{bad},"revision":4}}"#
            );
            let object = revision(json.as_bytes(), &mut Interner::default()).unwrap();
            let RevisionObject::Revision { revision, .. } = object else { panic!("foreign") };
            assert!(revision.template.is_err(), "{bad}");
        }
    }

    /// C3: a revision of a StatefulSet is dropped as it is decoded.
    #[test]
    fn a_revision_of_a_stateful_set_is_foreign() {
        let value = owned_by("apps/v1", "StatefulSet");
        assert_eq!(
            of(&value),
            RevisionObject::Foreign { namespace: "ns".into(), uid: Uid::new("u") }
        );
    }
}
