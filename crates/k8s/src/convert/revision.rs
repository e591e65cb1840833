//! ControllerRevisions: whose they are, and which template they hold.

use everynode_core::name::{Namespace, Uid};
use everynode_core::object::Revision;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{Metadata, read, text};
use super::{Controller, Error, Interner, resource_version};
use crate::go_json;
use crate::revision_data::template_of_data;

/// What a ControllerRevision on the wire is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionObject {
    /// One of a DaemonSet, or an orphan.
    Revision { namespace: Namespace, revision: Revision },
    /// One whose controller is no DaemonSet, but say a StatefulSet.
    Foreign { namespace: Namespace, uid: Uid },
}

#[derive(Deserialize)]
struct WireRevision<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    revision: Option<i64>,
}

/// # Errors
/// If it is no ControllerRevision, or one without a name.
pub fn revision(json: &[u8], interner: &mut Interner) -> Result<RevisionObject, Error> {
    let error = |cause: String| Error::new("ControllerRevision", json, cause);
    let wire: WireRevision = read(json).map_err(|e| error(e.to_string()))?;
    let name = wire.metadata.name().map_err(|e| error(e.to_owned()))?;
    let namespace = interner.text(text(wire.metadata.namespace.as_ref())).into();
    let uid = wire.metadata.uid();
    let controller = match wire.metadata.controller() {
        Controller::None => None,
        Controller::DaemonSet(uid) => Some(uid),
        Controller::Foreign => return Ok(RevisionObject::Foreign { namespace, uid }),
    };
    let revision = Revision {
        name: name.into(),
        uid,
        resource_version: resource_version(text(wire.metadata.resource_version.as_ref())),
        labels: wire.metadata.labels(interner),
        controller,
        terminating: wire.metadata.deletion_timestamp.is_some(),
        number: wire.revision.unwrap_or(0),
        template: canonical_template(wire.data)
            .map(|text| interner.text(&text))
            .map_err(|message| interner.text(&message)),
    };
    Ok(RevisionObject::Revision { namespace, revision })
}

/// Data that is no template is an error: the core makes a problem of it (C4).
fn canonical_template(data: Option<&RawValue>) -> Result<String, String> {
    let data = data.ok_or("it has no data")?;
    let data = go_json::parse(data.get().as_bytes()).map_err(|error| error.to_string())?;
    template_of_data(&data).map_err(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(value: &Value) -> RevisionObject {
        revision(value.to_string().as_bytes(), &mut Interner::default()).unwrap()
    }

    fn with_data(data: Value) -> Result<std::sync::Arc<str>, std::sync::Arc<str>> {
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

    /// C41: what another version of Go wrote of the same template is the same template.
    #[test]
    fn revisions_of_other_versions_hold_the_same_template() {
        let new = json!({ "spec": { "template": { "$patch": "replace",
            "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c" }] } } } });
        let old = json!({ "spec": { "template": { "$patch": "replace",
            "metadata": { "creationTimestamp": null, "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "c", "resources": {} }], "securityContext": {} } } } });
        assert!(with_data(new.clone()).is_ok());
        assert_eq!(with_data(new), with_data(old));
    }

    /// C4: data that is no template does not lose the revision.
    #[test]
    fn a_revision_whose_data_is_no_template_is_kept() {
        for data in [Value::Null, json!("text"), json!({ "spec": [] })] {
            assert!(with_data(data).is_err());
        }
    }

    /// C3: revisions of StatefulSets are not kept.
    #[test]
    fn a_revision_of_a_stateful_set_is_foreign() {
        let value = json!({ "metadata": { "name": "r", "namespace": "ns", "uid": "u", "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "s", "controller": true },
        ] } });
        assert_eq!(
            of(&value),
            RevisionObject::Foreign { namespace: "ns".into(), uid: Uid::new("u") }
        );
    }
}
