//! APIServices.

use crate::format;
use crate::json::Value;
use crate::kind::columns::{AGE, Cell, Column, NAME, of};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Int;
use crate::kind::rules::Rules;
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, STATUS, kept};
use crate::value::{is_set, string};

/// APIServices.
pub(super) static API_SERVICE: Kind = Kind {
    categories: &["api-extensions"],
    namespaced: false,
    subresources: STATUS,
    columns: &[
        NAME,
        of("Service", service),
        Column::new("Available", Cell::Constant("Unknown")),
        AGE,
    ],
    defaults: Defaults { values: &[("spec.service?.port", Int(443))], ..Defaults::KEPT },
    rules: Rules { names: format::path_segment, ..Rules::NONE },
    strategy: Strategy { needs_resource_version: true, ..Strategy::PLAIN },
    ..kept("apiregistration.k8s.io", "APIService", "apiservices", "apiservice")
};

fn service(object: &Value) -> Value {
    if !is_set(object, "/spec/service") {
        return "Local".into();
    }
    let part = |path| string(object, path);
    format!("{}/{}", part("/spec/service/namespace"), part("/spec/service/name")).into()
}
