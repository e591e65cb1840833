//! APIServices.

use crate::format;
use crate::json::Value;
use crate::kind::columns::{AGE, Cell, Column, NAME, of};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Int;
use crate::kind::rules::{Causes, Field, Rules, go_quote};
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
    rules: Rules { names: format::path_segment, more: name_and_priorities, ..Rules::NONE },
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

fn name_and_priorities(object: &Field, causes: &mut Causes) {
    let (metadata, spec) = (object.child("metadata"), object.child("spec"));
    let name = metadata.child("name");
    let expected = format!("{}.{}", spec.child("version").text(), spec.child("group").text());
    if name.text() != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", go_quote(&expected));
        causes.invalid(&name, &detail);
    }
    for (field, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let field = spec.child(field);
        if !(1..=max).contains(&field.int()) {
            let detail = format!("must be positive and less than {max}");
            causes.invalid_rendered(&field, field.int().to_string(), &detail);
        }
    }
}
