//! CustomResourceDefinitions, whose kinds are served (S15): their names, versions and structural
//! schemas.
//!
//! Upstream's `ValidateCustomResourceDefinition` and `ValidateStructural`.

mod default;
mod rule;
mod schema;

use crate::condition;
use crate::custom::Schema;
use crate::format;
use crate::json::Value;
use crate::kind::columns::{self, NAME};
use crate::kind::defaults::Literal::{Int, List, Text};
use crate::kind::defaults::{self, Defaults, Fields, struct_at, structs_in};
use crate::kind::rules::{Causes, Field, Reason, Rules, go_json, metadata};
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, STATUS, named};
use crate::value::is_set;

/// CustomResourceDefinitions.
pub static DEFINITION: Kind = Kind {
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    subresources: STATUS,
    counts_generations: true,
    columns: &[NAME, columns::text("Created At", "/metadata/creationTimestamp")],
    defaults: Defaults {
        values: &[
            ("spec.conversion.strategy", Text("None")),
            ("spec.conversion.webhook?.clientConfig.service?.port", Int(443)),
            ("status.conditions", List(&[])),
        ],
        more: names_and_versions,
        ..Defaults::KEPT
    },
    rules: Rules { on_create, on_update, warnings, ..Rules::NONE },
    strategy: Strategy {
        prepare_update: |object, _| add_stored_version(object),
        needs_resource_version: true,
        is_stored_as_json: true,
        ..Strategy::PLAIN
    },
    ..named(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
    )
};

fn names_and_versions(fields: &mut Fields, _: &Value) {
    let spec = struct_at(fields, "spec");
    let stored: Vec<Value> = structs_in(spec, "versions")
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    let names = struct_at(spec, "names");
    let kind = defaults::text(names, "kind").to_owned();
    if !kind.is_empty() {
        defaults::default(names, "singular", kind.to_lowercase());
        defaults::default(names, "listKind", format!("{kind}List"));
    }
    defaults::default(struct_at(fields, "status"), "storedVersions", stored);
}

/// Adds the storage version of a definition to those of which objects may be stored.
fn add_stored_version(object: &mut Value) {
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    let stored = versions.filter(|version| version["storage"] == true);
    let names: Vec<Value> = stored.map(|version| version["name"].clone()).collect();
    if let Some(known) = object["status"]["storedVersions"].as_array_mut() {
        known.extend(names.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>());
    }
}

fn on_create(kind: &Kind, object: &Field, causes: &mut Causes) {
    metadata::on_create(kind, object, causes);
    let (metadata, spec) = (object.child("metadata"), object.child("spec"));
    let names = spec.child("names");
    let expected = format!("{}.{}", names.child("plural").text(), spec.child("group").text());
    if metadata.child("name").text() != expected {
        causes.invalid(&metadata.child("name"), r#"must be spec.names.plural+"."+spec.group"#);
    }
    check(object, causes);
    let status = object.child("status");
    if status.child("storedVersions").is_empty() {
        causes.invalid(&status.child("storedVersions"), "must have at least one stored version");
    }
}

fn on_update(_: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    check(object, causes);
    let is_established = condition::is_true(&old.value()["status"], "Established");
    let (spec, old) = (object.child("spec"), old.child("spec"));
    let (names, old_names) = (spec.child("names"), old.child("names"));
    if is_established {
        metadata::immutable(&spec.child("scope"), &old.child("scope"), causes);
        metadata::immutable(&names.child("kind"), &old_names.child("kind"), causes);
    }
    metadata::immutable(&spec.child("group"), &old.child("group"), causes);
    metadata::immutable(&names.child("plural"), &old_names.child("plural"), causes);
    let versions = spec.child("versions");
    let status = object.child("status");
    for stored in status.child("storedVersions").items() {
        if !versions.items().any(|version| version.child("name").text() == stored.text()) {
            let version = stored.text();
            causes.invalid(
                &stored,
                &format!(
                    "missing from spec.versions; {version} was previously a storage version, and \
                     must remain in spec.versions until a storage migration ensures no data \
                     remains persisted in {version} and removes {version} from \
                     status.storedVersions"
                ),
            );
        }
    }
}

/// Maximum number of versions, and of columns, categories and short names of a kind. Upstream has
/// none; here each of them costs memory with each other one, or for ever.
const VERSIONS_MAX: usize = 100;
const COLUMNS_MAX: usize = 32;
const NAMES_MAX: usize = 32;

/// Checks that a list is not longer than it may be.
fn has_at_most(list: &Field, max: usize, causes: &mut Causes) -> bool {
    let fits = list.len() <= max;
    if !fits {
        let message = format!("{}: must have at most {max} items", list.len());
        causes.found_at(Reason::TooMany, &list.path(), message);
    }
    fits
}

fn check(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    if !has_at_most(&spec.child("versions"), VERSIONS_MAX, causes) {
        return;
    }
    let group = spec.child("group");
    let wrong = format::dns_subdomain(group.text());
    if group.text().is_empty() {
        causes.required(&group, "");
    } else if !wrong.is_empty() {
        causes.invalid(&group, &wrong.join(","));
    } else if !group.text().contains('.') {
        causes.invalid(&group, "should be a domain with at least one dot");
    }
    causes.required_choice(&spec.child("scope"), &["Cluster", "Namespaced"]);
    let versions = spec.child("versions");
    for version in versions.items() {
        let schema = version.child("schema");
        if !schema.child("openAPIV3Schema").is_set() {
            causes.required(&schema.child("openAPIV3Schema"), "");
        }
    }
    let shared = Shared::of(&spec);
    for version in versions.items() {
        check_version(&version, &shared, causes);
    }
    check_shared(&spec, &shared, causes);
    let names: Vec<&str> = versions.items().map(|version| text_of(&version, "name")).collect();
    let whole = || go_json(versions.value());
    if names.iter().enumerate().any(|(index, name)| names[..index].contains(name)) {
        causes.invalid_rendered(&versions, whole(), "must contain unique version names");
    }
    let stored = versions.items().filter(|version| version.child("storage").is_true()).count();
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.invalid_rendered(&versions, whole(), detail);
    }
    check_names(&spec.child("names"), causes);
    check_conversion(&spec, causes);
    check_approval(object, causes);
}

fn text_of<'a>(field: &Field<'a>, name: &str) -> &'a str {
    field.value().get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The properties that all versions have in common. Upstream reports them as fields of the
/// definition itself.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
}

impl Shared {
    fn of(spec: &Field) -> Self {
        let versions = spec.value()["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_shared = |name: &str| {
            let first = versions.first().and_then(|version| version.get(name));
            first.is_some_and(|first| {
                versions.iter().all(|version| version.get(name) == Some(first))
            })
        };
        Self {
            schema: is_shared("schema"),
            subresources: is_shared("subresources"),
            columns: is_shared("additionalPrinterColumns"),
        }
    }
}

fn check_shared(spec: &Field, shared: &Shared, causes: &mut Causes) {
    let Some(first) = spec.value()["versions"].get(0) else { return };
    let value = |name: &str| first.get(name).unwrap_or(&Value::Null);
    if shared.schema {
        let validation = spec.child("validation");
        let schema = validation.with_value(value("schema"));
        let has_status = first["subresources"]["status"].is_object();
        schema::check(&schema.child("openAPIV3Schema"), has_status, causes);
    }
    if shared.subresources {
        let subresources = spec.child("subresources");
        check_scale(&subresources.with_value(value("subresources")).child("scale"), causes);
    }
    if shared.columns {
        let columns = spec.child("additionalPrinterColumns");
        let columns = columns.with_value(value("additionalPrinterColumns"));
        check_columns(&columns, causes);
    }
}

fn check_version(version: &Field, shared: &Shared, causes: &mut Causes) {
    let name = version.child("name");
    check_label(&name, causes);
    let warning = version.child("deprecationWarning");
    if warning.is_set() && !version.child("deprecated").is_true() {
        causes.invalid(&warning, "can only be set for deprecated versions");
    }
    let schema = version.child("schema");
    let subresources = version.child("subresources");
    if !shared.schema {
        let has_status = subresources.child("status").is_set();
        schema::check(&schema.child("openAPIV3Schema"), has_status, causes);
    }
    if !shared.subresources {
        check_scale(&subresources.child("scale"), causes);
    }
    if !shared.columns {
        let columns = version.child("additionalPrinterColumns");
        check_columns(&columns, causes);
    }
}

fn check_columns(columns: &Field, causes: &mut Causes) {
    if has_at_most(columns, COLUMNS_MAX, causes) {
        columns.items().for_each(|column| check_column(&column, causes));
    }
}

fn check_scale(scale: &Field, causes: &mut Causes) {
    if !scale.is_set() {
        return;
    }
    for (name, above) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let path = scale.child(name);
        if path.text().is_empty() {
            causes.required(&path, "");
        } else if !path.text().starts_with('.') {
            causes.invalid(&path, "must be a simple json path starting with .");
        } else if !path.text().starts_with(above) {
            let detail = format!("should be a json path under {}", above.trim_end_matches('.'));
            causes.invalid(&path, &detail);
        }
    }
    let selector = scale.child("labelSelectorPath");
    let text = selector.text();
    if !text.is_empty() && !text.starts_with(".spec.") && !text.starts_with(".status.") {
        causes.invalid(&selector, "should be a json path under either .spec or .status");
    }
}

fn check_column(column: &Field, causes: &mut Causes) {
    const TYPES: &str = "must be one of boolean,date,integer,number,string";
    const FORMATS: &str = "must be one of byte,date,date-time,double,float,int32,int64,password";
    let is_one_of = |list: &str, text: &str| {
        list.trim_start_matches("must be one of ").split(',').any(|known| known == text)
    };
    causes.required_text(&column.child("name"));
    let of_type = column.child("type");
    if of_type.text().is_empty() {
        causes.required(&of_type, TYPES);
    } else if !is_one_of(TYPES, of_type.text()) {
        causes.invalid(&of_type, TYPES);
    }
    let format = column.child("format");
    if !format.text().is_empty() && !is_one_of(FORMATS, format.text()) {
        causes.invalid(&format, FORMATS);
    }
    let (path, upper) = (column.child("jsonPath"), column.child("JSONPath"));
    let upper = upper.with_value(path.value());
    if path.text().is_empty() {
        causes.required(&upper, "");
    } else if !path.text().starts_with('.') {
        causes.invalid(&upper, "must be a simple json path starting with .");
    }
}

fn check_names(names: &Field, causes: &mut Causes) {
    for name in ["plural", "singular", "kind", "listKind"] {
        causes.required_text(&names.child(name));
    }
    for name in ["plural", "singular"] {
        let name = names.child(name);
        if !name.text().is_empty() {
            check_label(&name, causes);
        }
    }
    for name in ["kind", "listKind"] {
        let name = names.child(name);
        let wrong = format::dns_1035(&name.text().to_lowercase(), false);
        if !wrong.is_empty() && !name.text().is_empty() {
            let wrong = wrong.join(",");
            let detail = format!("may have mixed case, but should otherwise match: {wrong}");
            causes.invalid(&name, &detail);
        }
    }
    for list in ["shortNames", "categories"] {
        let list = names.child(list);
        if has_at_most(&list, NAMES_MAX, causes) {
            list.items().for_each(|name| check_label(&name, causes));
        }
    }
    let (kind, list_kind) = (names.child("kind"), names.child("listKind"));
    if !kind.text().is_empty() && kind.text() == list_kind.text() {
        causes.invalid(&list_kind, "kind and listKind may not be the same");
    }
}

fn check_conversion(spec: &Field, causes: &mut Causes) {
    let conversion = spec.child("conversion");
    let strategy = conversion.child("strategy");
    causes.optional_choice(&strategy, &["None", "Webhook"]);
    let preserves = spec.child("preserveUnknownFields");
    if preserves.is_true() {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        causes.invalid(&preserves, detail);
    }
    let webhook = conversion.child("webhook");
    if strategy.text() == "Webhook" && !is_set(webhook.value(), "/clientConfig") {
        let client = conversion.child("webhookClientConfig");
        causes.required(&client, "required when strategy is set to Webhook");
    }
}

/// True for a group of Kubernetes' own.
pub(crate) fn is_protected(group: &str) -> bool {
    let is_in = |name: &str| group == name || group.ends_with(&format!(".{name}"));
    is_in("k8s.io") || is_in("kubernetes.io")
}

/// A group of Kubernetes' own needs an annotation that names its approval.
fn check_approval(object: &Field, causes: &mut Causes) {
    const APPROVED: &str = "api-approved.kubernetes.io";
    if !is_protected(text_of(&object.child("spec"), "group")) {
        return;
    }
    let metadata = object.child("metadata");
    let annotations = metadata.child("annotations");
    let approval = annotations.key(APPROVED);
    let text = approval.text();
    if text.is_empty() {
        let detail = format!(
            "protected groups must have approval annotation {APPROVED:?}, see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        causes.required(&approval, &detail);
    } else if !text.starts_with("unapproved") && !text.starts_with("http") {
        let detail = format!(
            "protected groups must have approval annotation {APPROVED:?} with either a URL or a \
             reason starting with \"unapproved\", see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        causes.invalid(&approval, &detail);
    }
}

/// Checks an RFC 1035 label.
fn check_label(name: &Field, causes: &mut Causes) {
    let wrong = format::dns_1035(name.text(), false);
    if !wrong.is_empty() {
        causes.invalid(name, &wrong.join(","));
    }
}

/// A warning for each rule that is not checked, for formats that mean nothing, unless they were in
/// the replaced definition, and for conversions.
fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    /// Maximum number of warnings.
    const WARNINGS_MAX: usize = 20;
    if old.is_some_and(|old| old.get("spec") == definition.get("spec")) {
        return Vec::new();
    }
    let (mut found, mut formats) = (Vec::new(), Vec::new());
    for schema in schemas(definition) {
        rule::unsupported(&schema, &mut found);
        unrecognized_formats(&schema, &mut formats);
    }
    let mut known = Vec::new();
    old.into_iter().flat_map(schemas).for_each(|old| unrecognized_formats(&old, &mut known));
    formats.retain(|format| !known.contains(format));
    found.sort_unstable();
    found.dedup();
    found.truncate(WARNINGS_MAX);
    let warning = |rule| format!("the sandbox does not check the validation rule: {rule}");
    let mut warnings: Vec<String> =
        formats.iter().map(|format| format!("unrecognized format {format:?}")).collect();
    warnings.extend(found.into_iter().map(warning));
    if definition["spec"]["conversion"]["strategy"] == "Webhook" {
        let text =
            "the sandbox does not call conversion webhooks: all versions have the same fields";
        warnings.push(text.to_owned());
    }
    warnings
}

/// The schemas of all versions.
fn schemas(definition: &Value) -> impl Iterator<Item = Schema> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.map(|version| Schema::parse(&version["schema"]["openAPIV3Schema"]))
}

/// Maximum number of formats that are compared with each other. No answer has so many warnings.
const FORMATS_MAX: usize = 100;

/// Adds each format that a schema or one in it has and that is not known for its type.
fn unrecognized_formats(schema: &Schema, found: &mut Vec<String>) {
    if let Some(format) = schema.checks.format.as_deref() {
        let is_known = schema.known_format().is_some();
        if found.len() >= FORMATS_MAX {
            return;
        }
        if !is_known && !found.iter().any(|known| known == format) {
            found.push(format.to_owned());
        }
    }
    schema.all_nested().for_each(|nested| unrecognized_formats(nested, found));
}
