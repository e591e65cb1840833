//! The generated selector of a Job (S13): the labels that only its own pods have.

use serde_json::Value;

use crate::kind::Kind;
use crate::value::{boolean, string};

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// Sets the selector and the labels of the template, unless the Job has its own (`manualSelector`).
pub(super) fn set_selector(kind: &Kind, object: &mut Value) {
    if (kind.group, kind.kind) != ("batch", "Job") || boolean(object, "/spec/manualSelector") {
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
    object["spec"]["selector"]["matchLabels"][CONTROLLER_UID] = uid.into();
}
