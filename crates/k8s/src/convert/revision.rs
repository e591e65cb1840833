//! ControllerRevisions: whose they are, and which template they hold.

use everynode_core::api::{Namespace, Revision, Uid};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{Metadata, text};
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

    /// C41: the revision of a DaemonSet that is as old as the group `extensions` is still its own.
    #[test]
    fn a_revision_of_a_daemon_set_of_the_old_group_is_kept() {
        let value = json!({ "metadata": { "name": "r", "namespace": "ns", "uid": "u", "ownerReferences": [
            { "apiVersion": "extensions/v1beta1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true },
        ] } });
        let RevisionObject::Revision { revision, .. } = of(&value) else { panic!("foreign") };
        assert_eq!(revision.controller, Some(Uid::new("d")));
    }

    /// C1, C4: bytes that are no UTF-8 in the data of one revision, which are served as they are stored, cost
    /// neither it nor any other.
    #[test]
    fn bytes_that_are_no_utf_8_do_not_lose_a_revision() {
        let json = b"{\"metadata\":{\"name\":\"r\",\"namespace\":\"ns\",\"annotations\":{\"a\":\"\xc3\"}},\
            \"data\":{\"spec\":{\"template\":{\"x\":\"a\xff\xe2\x80z\"}}},\"revision\":4}";
        let object = revision(json, &mut Interner::default()).unwrap();
        let RevisionObject::Revision { revision, .. } = object else { panic!("foreign") };
        assert_eq!((revision.name.as_str(), revision.number), ("r", 4));
        let template = revision.template.unwrap();
        assert!(
            template.contains("a\u{fffd}\u{fffd}\u{fffd}z"),
            "one for each byte, as Go reads: {template}"
        );
    }

    /// C4: data that Go reads and we can't, as it is nested deeper than JSON of a template ever is, is reported.
    #[test]
    fn data_that_can_t_be_read_is_a_problem_of_the_revision() {
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
