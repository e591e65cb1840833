//! The types whose form in JSON is not that of their declaration in Go, because they have methods
//! that read and write them. Nothing else about a Kubernetes release is written by hand.

/// A type with a form of its own.
#[derive(Debug, PartialEq)]
pub(super) struct Special {
    /// The path of its package, and its name.
    pub go_name: &'static str,
    /// The type in the table.
    pub row: &'static str,
    /// The type in OpenAPI documents; `None` for any.
    pub openapi_type: Option<&'static str>,
    pub openapi_format: Option<&'static str>,
}

const fn special(go_name: &'static str, row: &'static str) -> Special {
    Special { go_name, row, openapi_type: None, openapi_format: None }
}

const fn text(go_name: &'static str, row: &'static str, format: Option<&'static str>) -> Special {
    Special { openapi_type: Some("string"), openapi_format: format, ..special(go_name, row) }
}

const fn object(go_name: &'static str, row: &'static str) -> Special {
    Special { openapi_type: Some("object"), ..special(go_name, row) }
}

static SPECIAL: &[Special] = &[
    text("k8s.io/apimachinery/pkg/apis/meta/v1.Time", "time", Some("date-time")),
    text("k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime", "microtime", Some("date-time")),
    // Numbers are read as well, and documents of OpenAPI v3 say so.
    text("k8s.io/apimachinery/pkg/api/resource.Quantity", "quantity", None),
    text("k8s.io/apimachinery/pkg/util/intstr.IntOrString", "intorstring", Some("int-or-string")),
    // Objects of any form. The latter is one field for server-side apply, whose converter of
    // OpenAPI documents knows its name.
    object("k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1", "raw"),
    object("k8s.io/apimachinery/pkg/runtime.RawExtension", "raw atomic"),
    // Any JSON.
    special("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON", "raw"),
    // A schema, or a list of schemas, a boolean, or a list of strings.
    special(
        "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray",
        "|apiextensions.v1.JSONSchemaProps",
    ),
    special(
        "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool",
        "|apiextensions.v1.JSONSchemaProps",
    ),
    special(
        "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray",
        "|apiextensions.v1.JSONSchemaProps",
    ),
];

impl Special {
    /// The type with a path and a name, if it is one of these.
    pub(super) fn of(go_name: &str) -> Option<&'static Self> {
        SPECIAL.iter().find(|special| special.go_name == go_name)
    }
}
