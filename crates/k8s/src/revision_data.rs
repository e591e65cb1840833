//! The `data` of a ControllerRevision: the patch that `kubectl rollout undo` applies (C40, C41).

use serde_json::{Map, Value, json};

use crate::canonical::canonical;
use crate::go_json;

/// The data that stores a template, byte for byte as kube-controller-manager writes it.
pub fn data_of_template(template: &Value) -> String {
    let mut template = template.clone();
    if let Value::Object(members) = &mut template {
        members.insert("$patch".into(), "replace".into());
    }
    go_json::encode(&json!({ "spec": { "template": template } }))
}

/// The template in the data of a revision, in [canonical form](crate::canonical).
///
/// # Errors
/// Why the data contains no template.
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
            r#"{"spec":{"containers":[
                {"name":"c","command":["sh","-c","a && b > c"],"resources":{}}]},
            "metadata":{"labels":{"b":"2","a":"1"},"creationTimestamp":null}}"#,
        )
        .unwrap();
        assert_eq!(
            data_of_template(&template),
            concat!(
                r#"{"spec":{"template":{"$patch":"replace","#,
                r#""metadata":{"creationTimestamp":null,"labels":{"a":"1","b":"2"}},"#,
                r#""spec":{"containers":[{"command":["sh","-c","a \u0026\u0026 b \u003e c"],"#,
                r#""name":"c","resources":{}}]}}}}"#,
            )
        );
    }

    /// C41: a template equals the one in its own data.
    #[test]
    fn a_template_equals_the_one_in_its_data() {
        let template =
            json!({ "spec": { "containers": [{ "name": "c", "resources": {} }], "x": null } });
        let data = serde_json::from_str(&data_of_template(&template)).unwrap();
        assert_eq!(template_of_data(&data), Ok(canonical(&template)));
    }

    /// C4: data without a template is an error, not a panic and not an empty template.
    #[test]
    fn malformed_data_has_no_template() {
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
