//! Renders objects and lists in the form that the client negotiated (S4).

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use everynode_core::api::Timestamp;
use http::{Response, StatusCode};

use super::negotiate::{Form, MetaVersion};
use super::protobuf;
use super::query::IncludeObject;
use super::respond::{self, Body};
use super::shared::now;
use crate::json::{Map, Value, json};
use crate::kind::Kind;
use crate::object::Object;
use crate::printer;
use crate::store::List;

pub(crate) fn object(
    kind: &Kind,
    object: &Object,
    form: Form,
    include: IncludeObject,
    code: StatusCode,
) -> Response<Body> {
    let bytes = event_object(kind, object, form, include, ColumnHeaders::Included);
    let is_protobuf = form == Form::Protobuf;
    respond::full(code, if is_protobuf { protobuf::MEDIA_TYPE } else { respond::JSON }, bytes)
}

pub(crate) fn list(kind: &Kind, list: &List, form: Form, include: IncludeObject) -> Response<Body> {
    let metadata = list_metadata(list);
    match form {
        Form::Object => {
            let bytes = whole_list(kind, list, &metadata);
            respond::full(StatusCode::OK, respond::JSON, bytes)
        }
        Form::Protobuf => {
            let items = list.items.iter().map(|item| &**item);
            let bytes = protobuf::encode_list(kind, &metadata, items);
            respond::full(StatusCode::OK, protobuf::MEDIA_TYPE, bytes)
        }
        Form::Table(version) => {
            let now = now();
            let rows = list.items.iter().map(|item| row(kind, item, version, include, now));
            let table = table(kind, version, metadata, rows.collect(), ColumnHeaders::Included);
            respond::json(StatusCode::OK, &table)
        }
        Form::PartialObjectMetadata(version) => {
            let partial = |item: &Arc<Object>| partial(&item.served_metadata(), version);
            let items: Vec<Value> = list.items.iter().map(partial).collect();
            let document = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": version.api_version(),
                "metadata": metadata,
                "items": items,
            });
            respond::json(StatusCode::OK, &document)
        }
    }
}

/// The column definitions of a table: a watch sends them with the first event only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnHeaders {
    Included,
    Omitted,
}

/// An object in a watch event.
pub(crate) fn event_object(
    kind: &Kind,
    object: &Object,
    form: Form,
    include: IncludeObject,
    headers: ColumnHeaders,
) -> Bytes {
    match form {
        Form::Object => object.json(),
        // Empty for a kind without a message, which is never offered in protobuf.
        Form::Protobuf => protobuf::encode_object(object).unwrap_or_default().into(),
        Form::Table(version) => {
            let metadata = json!({"resourceVersion": object.resource_version().to_string()});
            let rows = vec![row(kind, object, version, include, now())];
            table(kind, version, metadata, rows, headers).to_string().into()
        }
        Form::PartialObjectMetadata(version) => {
            partial(&object.served_metadata(), version).to_string().into()
        }
    }
}

/// The object of a bookmark, which has a resourceVersion only.
pub(crate) fn bookmark(
    kind: &Kind,
    form: Form,
    resource_version: u64,
    ends_initial: bool,
) -> Value {
    let mut metadata = json!({"resourceVersion": resource_version.to_string()});
    if ends_initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    match form {
        Form::Object | Form::Protobuf => {
            json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata})
        }
        Form::Table(version) => {
            // The annotation is on the row's object, because the metadata of a table has no
            // annotations.
            let object = json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": version.api_version(),
                "metadata": metadata,
            });
            let rows = vec![json!({"cells": [], "object": object})];
            let metadata = json!({"resourceVersion": resource_version.to_string()});
            table(kind, version, metadata, rows, ColumnHeaders::Omitted)
        }
        Form::PartialObjectMetadata(version) => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": version.api_version(),
            "metadata": metadata,
        }),
    }
}

/// A response with an object or a `Status`; in JSON unless protobuf was negotiated.
pub(crate) fn document(code: StatusCode, document: &Value, form: Form) -> Response<Body> {
    match form {
        Form::Protobuf => respond::full(code, protobuf::MEDIA_TYPE, event_document(document, form)),
        Form::Object | Form::Table(_) | Form::PartialObjectMetadata(_) => {
            respond::json(code, document)
        }
    }
}

/// An object or a `Status` as an event of a watch has it.
pub(crate) fn event_document(document: &Value, form: Form) -> Bytes {
    match form {
        Form::Protobuf => protobuf::encode(document).unwrap_or_default().into(),
        Form::Object | Form::Table(_) | Form::PartialObjectMetadata(_) => {
            document.to_string().into()
        }
    }
}

fn list_metadata(list: &List) -> Value {
    let mut metadata = json!({"resourceVersion": list.resource_version.to_string()});
    if let Some(token) = &list.continue_token {
        metadata["continue"] = token.as_str().into();
    }
    if let Some(count) = list.remaining_item_count {
        metadata["remainingItemCount"] = count.into();
    }
    metadata
}

/// Concatenates the serialised objects, which are shared by all lists.
fn whole_list(kind: &Kind, list: &List, metadata: &Value) -> Bytes {
    let items: Vec<Bytes> = list.items.iter().map(|item| item.json()).collect();
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut bytes = BytesMut::with_capacity(size + 256);
    let (list_kind, api_version) = (kind.list_kind(), kind.api_version());
    let head = format!(
        r#"{{"kind":"{list_kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#
    );
    bytes.put(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            bytes.put_u8(b',');
        }
        bytes.put(&item[..]);
    }
    bytes.put(&b"]}\n"[..]);
    bytes.freeze()
}

fn table(
    kind: &Kind,
    version: MetaVersion,
    metadata: Value,
    rows: Vec<Value>,
    headers: ColumnHeaders,
) -> Value {
    let columns: Value = match headers {
        ColumnHeaders::Included => printer::headers(kind).into(),
        ColumnHeaders::Omitted => Value::Null,
    };
    json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn row(
    kind: &Kind,
    object: &Object,
    version: MetaVersion,
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let mut row = Map::new();
    let value = object.read();
    row.insert("cells", printer::cells(kind, &value, now).into());
    let conditions = printer::row_conditions(kind, &value);
    if !conditions.is_empty() {
        row.insert("conditions", conditions.into());
    }
    let included = match include {
        IncludeObject::None => Value::Null,
        // A table of many objects is fast without managedFields, which its readers do not show.
        IncludeObject::Metadata => partial(&value["metadata"], version),
        IncludeObject::Object => object.served().into_owned(),
    };
    row.insert("object", included);
    Value::Object(row)
}

fn partial(metadata: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": metadata,
    })
}
