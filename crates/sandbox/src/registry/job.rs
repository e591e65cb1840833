//! The generated selector of a Job (S13): the labels that only its own pods have.

use crate::json::{Map, Value};

use crate::kind::Kind;
use crate::value::{boolean, string};

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// Whether an object is a Job that gets the labels of its template because it has none. As
/// upstream, these two are one map, so that the Job gets the generated labels, too.
pub(super) fn shares_labels(kind: &Kind, object: &Value) -> bool {
    let is_empty = |labels: &Value| labels.as_object().is_none_or(Map::is_empty);
    is_job(kind)
        && is_empty(&object["metadata"]["labels"])
        && !is_empty(&object["spec"]["template"]["metadata"]["labels"])
}

/// Sets the selector and the labels of the template, unless the Job has its own (`manualSelector`).
pub(super) fn set_selector(kind: &Kind, object: &mut Value, shares_labels: bool) {
    if !is_job(kind) || boolean(object, "/spec/manualSelector") {
        return;
    }
    let uid = string(object, "/metadata/uid").to_owned();
    let name = string(object, "/metadata/name").to_owned();
    let labels = &mut object["spec"]["template"]["metadata"]["labels"];
    for (key, value) in
        [(CONTROLLER_UID, &uid), (JOB_NAME, &name), ("controller-uid", &uid), ("job-name", &name)]
    {
        labels[key] = value.as_str().into();
    }
    if shares_labels {
        object["metadata"]["labels"] = labels.clone();
    }
    object["spec"]["selector"]["matchLabels"][CONTROLLER_UID] = uid.into();
}

fn is_job(kind: &Kind) -> bool {
    (kind.group, kind.kind) == ("batch", "Job")
}
