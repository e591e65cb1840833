//! The `data` of a ControllerRevision: the patch that `kubectl rollout undo` applies (C40, C41).

use serde_json::{Map, Value, json};

use crate::canonical::canonical;
use crate::go_json;

/// The data for a template, in the bytes that kube-controller-manager would write.
pub fn data_of_template(template: &Value) -> String {
    let mut template = template.clone();
    if let Value::Object(members) = &mut template {
        members.insert("$patch".into(), "replace".into());
    }
    go_json::encode(&json!({ "spec": { "template": template } }))
}

/// The canonical form of the template in a revision's data, or why there is none.
///
/// # Errors
/// If the data has not the form of C40.
pub fn template_of_data(data: &Value) -> Result<String, &'static str> {
    let template = data
        .as_object()
        .ok_or("data is no JSON object")?
        .get("spec")
        .and_then(|spec| spec.get("template"))
        .ok_or("data has no spec.template")?;
    let Value::Object(members) = template else {
        return Err("data's spec.template is no JSON object");
    };
    let mut members: Map<_, _> = members.clone();
    members.remove("$patch");
    Ok(canonical(&Value::Object(members)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C40, C41: the data is the strategic merge patch that replaces the template.
    #[test]
    fn the_data_replaces_the_template() {
        let template = serde_json::from_str(
            r#"{"spec":{"containers":[{"name":"c","command":["sh","-c","a && b > c"],"resources":{}}]},"metadata":{"labels":{"b":"2","a":"1"},"creationTimestamp":null}}"#,
        )
        .unwrap();
        assert_eq!(
            data_of_template(&template),
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"a":"1","b":"2"}},"spec":{"containers":[{"command":["sh","-c","a \u0026\u0026 b \u003e c"],"name":"c","resources":{}}]}}}}"#
        );
    }

    /// C41: a template is found again in its own data, whoever wrote that.
    #[test]
    fn data_and_template_have_one_canonical_form() {
        let template =
            json!({ "spec": { "containers": [{ "name": "c", "resources": {} }], "x": null } });
        let data = serde_json::from_str(&data_of_template(&template)).unwrap();
        assert_eq!(template_of_data(&data), Ok(canonical(&template)));
    }

    /// C4: data that is no template is an error, not a panic and not an empty template.
    #[test]
    fn data_of_another_form_has_no_template() {
        for data in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "spec": {} }),
            json!({ "spec": { "template": 3 } }),
        ] {
            assert!(template_of_data(&data).is_err(), "{data}");
        }
    }
}
