//! OpenAPI v2 as protobuf, with the message types of gnostic's `OpenAPIv2.proto`, which is the only
//! form that kubectl up to 1.26 reads. It defines only the fields that our document uses.

use prost::{Message, Oneof};

use crate::json::{Map, Value};

/// Encodes an OpenAPI v2 document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    Document {
        swagger: text(document, "swagger"),
        info: Some(Info {
            title: text(&document["info"], "title"),
            version: text(&document["info"], "version"),
        }),
        paths: Some(Paths {
            path: named(&document["paths"], |name, path| NamedPathItem {
                name,
                value: Some(path_item(path)),
            }),
        }),
        definitions: Some(Definitions { additional_properties: schemas(&document["definitions"]) }),
    }
    .encode_to_vec()
}

#[derive(Clone, PartialEq, Message)]
struct Document {
    #[prost(string, tag = "1")]
    swagger: String,
    #[prost(message, optional, tag = "2")]
    info: Option<Info>,
    #[prost(message, optional, tag = "8")]
    paths: Option<Paths>,
    #[prost(message, optional, tag = "9")]
    definitions: Option<Definitions>,
}

#[derive(Clone, PartialEq, Message)]
struct Info {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Paths {
    #[prost(message, repeated, tag = "2")]
    path: Vec<NamedPathItem>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedPathItem {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<PathItem>,
}

#[derive(Clone, PartialEq, Message)]
struct PathItem {
    #[prost(message, optional, tag = "2")]
    get: Option<Operation>,
    #[prost(message, optional, tag = "3")]
    put: Option<Operation>,
    #[prost(message, optional, tag = "4")]
    post: Option<Operation>,
    #[prost(message, optional, tag = "5")]
    delete: Option<Operation>,
    #[prost(message, optional, tag = "8")]
    patch: Option<Operation>,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, tag = "5")]
    operation_id: String,
    #[prost(string, repeated, tag = "7")]
    consumes: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    parameters: Vec<ParametersItem>,
    #[prost(message, optional, tag = "9")]
    responses: Option<Responses>,
    #[prost(message, repeated, tag = "13")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, Message)]
struct ParametersItem {
    #[prost(message, optional, tag = "1")]
    parameter: Option<Parameter>,
}

#[derive(Clone, PartialEq, Message)]
struct Parameter {
    #[prost(message, optional, tag = "2")]
    non_body_parameter: Option<NonBodyParameter>,
}

#[derive(Clone, PartialEq, Message)]
struct NonBodyParameter {
    #[prost(message, optional, tag = "3")]
    query_parameter_sub_schema: Option<QueryParameter>,
}

#[derive(Clone, PartialEq, Message)]
struct QueryParameter {
    #[prost(string, tag = "2")]
    location: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "6")]
    type_name: String,
    #[prost(bool, tag = "20")]
    unique_items: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Responses {
    #[prost(message, repeated, tag = "1")]
    response_code: Vec<NamedResponseValue>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedResponseValue {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<ResponseValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ResponseValue {
    #[prost(message, optional, tag = "1")]
    response: Option<Response>,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(string, tag = "1")]
    description: String,
}

#[derive(Clone, PartialEq, Message)]
struct NamedAny {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "2")]
    yaml: String,
}

#[derive(Clone, PartialEq, Message)]
struct Definitions {
    #[prost(message, repeated, tag = "1")]
    additional_properties: Vec<NamedSchema>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedSchema {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Schema>,
}

#[derive(Clone, PartialEq, Message)]
struct Schema {
    #[prost(string, tag = "1")]
    reference: String,
    #[prost(string, tag = "2")]
    format: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(string, repeated, tag = "19")]
    required: Vec<String>,
    #[prost(message, optional, boxed, tag = "21")]
    additional_properties: Option<Box<AdditionalPropertiesItem>>,
    #[prost(message, optional, tag = "22")]
    type_item: Option<TypeItem>,
    #[prost(message, optional, tag = "23")]
    items: Option<ItemsItem>,
    #[prost(message, optional, tag = "25")]
    properties: Option<Definitions>,
    #[prost(message, repeated, tag = "31")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, Message)]
struct AdditionalPropertiesItem {
    #[prost(oneof = "AdditionalProperties", tags = "1, 2")]
    oneof: Option<AdditionalProperties>,
}

#[derive(Clone, PartialEq, Oneof)]
enum AdditionalProperties {
    #[prost(message, boxed, tag = "1")]
    Schema(Box<Schema>),
    #[prost(bool, tag = "2")]
    Boolean(bool),
}

#[derive(Clone, PartialEq, Message)]
struct TypeItem {
    #[prost(string, repeated, tag = "1")]
    value: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ItemsItem {
    #[prost(message, repeated, tag = "1")]
    schema: Vec<Schema>,
}

fn path_item(path: &Value) -> PathItem {
    let method = |name: &str| path.get(name).map(operation);
    PathItem {
        get: method("get"),
        put: method("put"),
        post: method("post"),
        delete: method("delete"),
        patch: method("patch"),
    }
}

fn operation(value: &Value) -> Operation {
    Operation {
        description: text(value, "description"),
        operation_id: text(value, "operationId"),
        consumes: texts(&value["consumes"]),
        parameters: value["parameters"].as_array().into_iter().flatten().map(parameter).collect(),
        responses: Some(Responses {
            response_code: named(&value["responses"], |name, response| NamedResponseValue {
                name,
                value: Some(ResponseValue {
                    response: Some(Response { description: text(response, "description") }),
                }),
            }),
        }),
        vendor_extension: extensions(value),
    }
}

fn parameter(value: &Value) -> ParametersItem {
    let query = QueryParameter {
        location: text(value, "in"),
        name: text(value, "name"),
        type_name: text(value, "type"),
        unique_items: value["uniqueItems"] == true,
    };
    let non_body = NonBodyParameter { query_parameter_sub_schema: Some(query) };
    ParametersItem { parameter: Some(Parameter { non_body_parameter: Some(non_body) }) }
}

fn schemas(values: &Value) -> Vec<NamedSchema> {
    named(values, |name, value| NamedSchema { name, value: Some(schema(value)) })
}

fn schema(value: &Value) -> Schema {
    let additional = value.get("additionalProperties").map(|value| {
        let item = match value {
            Value::Bool(allowed) => AdditionalProperties::Boolean(*allowed),
            other => AdditionalProperties::Schema(Box::new(schema(other))),
        };
        Box::new(AdditionalPropertiesItem { oneof: Some(item) })
    });
    let type_name = text(value, "type");
    Schema {
        reference: text(value, "$ref"),
        format: text(value, "format"),
        description: text(value, "description"),
        required: texts(&value["required"]),
        additional_properties: additional,
        type_item: (!type_name.is_empty()).then(|| TypeItem { value: vec![type_name] }),
        items: value.get("items").map(|items| ItemsItem { schema: vec![schema(items)] }),
        properties: value
            .get("properties")
            .map(|values| Definitions { additional_properties: schemas(values) }),
        vendor_extension: extensions(value),
    }
}

/// The `x-…` fields. Their values are YAML, and JSON is valid YAML.
fn extensions(value: &Value) -> Vec<NamedAny> {
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| name.starts_with("x-"))
        .map(|(name, value)| NamedAny {
            name: name.to_string(),
            value: Some(Any { yaml: value.to_string() }),
        })
        .collect()
}

fn named<T>(values: &Value, item: impl Fn(String, &Value) -> T) -> Vec<T> {
    let empty = Map::new();
    let fields = values.as_object().unwrap_or(&empty);
    fields.iter().map(|(name, value)| item(name.to_string(), value)).collect()
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
