//! Pod templates: what the kinds that have one share.

use super::{defaults, spec, warnings};
use crate::json::Value;
use crate::kind::columns::{Cell, Column};
use crate::kind::defaults::{Defaults, Fields, struct_at};
use crate::kind::rules::{Causes, Field, Rules, each, metadata, selector};

/// The defaults of a kind with a template in its spec, whose schema knows the others.
pub(in crate::kinds) const DEFAULTS: Defaults =
    Defaults { each: &[("spec.template", complete)], ..Defaults::KEPT };
/// The rules of a kind that is warned about the template in its spec.
pub(in crate::kinds) const RULES: Rules =
    Rules { warnings: |new, old| warnings("spec.template", new, old), ..Rules::NONE };

/// The names of the containers in the template.
pub(in crate::kinds) const CONTAINERS: Column =
    Column::new("Containers", Cell::Joined("/spec/template/spec/containers", "/name", ""))
        .about("Names of each container in the template.")
        .wide();
/// The images of the containers in the template.
pub(in crate::kinds) const IMAGES: Column =
    Column::new("Images", Cell::Joined("/spec/template/spec/containers", "/image", ""))
        .about("Images referenced by each container in the template.")
        .wide();
/// The label selector.
pub(in crate::kinds) const SELECTOR: Column =
    Column::new("Selector", Cell::Selector).about("The labels of the pods that are managed").wide();

/// Sets the defaults of a pod template.
pub(in crate::kinds) fn complete(template: &mut Fields) {
    struct_at(template, "metadata");
    defaults::spec(struct_at(template, "spec"));
}

/// Validates a pod template.
pub(in crate::kinds) fn check(template: &Field, causes: &mut Causes) {
    // Upstream reports the template's labels and annotations without `metadata` in the path.
    let metadata = template.with_value(template.child("metadata").value());
    metadata::labels(&metadata.child("labels"), causes);
    metadata::annotations(&metadata.child("annotations"), causes);
    let spec = template.child("spec");
    spec::pod_spec(&spec, false, causes);
    let ephemeral = spec.child("ephemeralContainers");
    if !ephemeral.is_empty() {
        causes.forbidden(&ephemeral, "ephemeral containers not allowed in pod template");
    }
}

/// The selector of a spec must match the labels of its template.
pub(in crate::kinds) fn labels_match(spec: &Field, causes: &mut Causes) {
    let template = spec.child("template");
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    if selector::mismatches(&spec.child("selector"), &labels) {
        causes.invalid(&labels, "`selector` does not match template `labels`");
    }
}

/// The pods of most controllers are restarted for ever.
pub(in crate::kinds) fn always_restarts(template: &Field, causes: &mut Causes) {
    let spec = template.child("spec");
    causes.choice(&spec.child("restartPolicy"), &["Always"]);
}

/// The rules of a kept kind whose pods run for ever.
pub(in crate::kinds) fn runs_for_ever(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let label_selector = spec.child("selector");
    if !label_selector.is_set() {
        causes.required(&label_selector, "");
    }
    selector::label_selector(&label_selector, causes);
    labels_match(&spec, causes);
    always_restarts(&spec.child("template"), causes);
}

/// The warnings about the pod template at a path. As upstream, it causes them with each new
/// generation of the object.
pub(in crate::kinds) fn warnings(path: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let pointer = format!("/{}", path.replace('.', "/"));
    let is_same = |path: &str| old.is_some_and(|old| old.pointer(path) == new.pointer(path));
    let mut found = Vec::new();
    if !is_same("/metadata/generation") || !is_same(&pointer) {
        each(&Field::root(new), path, &mut |template| found.extend(warnings::all(template)));
    }
    found
}
