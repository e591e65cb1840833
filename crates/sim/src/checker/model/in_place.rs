//! Which templates differ so little that a running pod is changed from one to the other (G56).

use everynode_sandbox::json::{Map, Value};

use super::template::reduced;

/// The resources of which the amounts can be changed.
const AMOUNTS: [&str; 2] = ["cpu", "memory"];
/// Annotations in these domains mean a restart, or are read when a pod starts.
const DOMAINS: [&str; 6] =
    ["kubernetes.io", "k8s.io", "cncf.io", "istio.io", "linkerd.io", "vault.hashicorp.com"];
/// Annotations with one of these in their key mean a restart.
const RESTARTS: [&str; 7] =
    ["checksum", "hash", "redeploy", "reload", "restart", "rollme", "timestamp"];
/// The classes of quality of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quality {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// True if two templates that are [reduced] to their meaning differ in nothing but images of
/// containers, the amounts of their CPU and memory within one class of quality of service, labels,
/// and annotations; those that a container reads count as another difference, as do annotations
/// that mean a restart (G56).
pub(in crate::checker) fn can_change(from: &Value, to: &Value) -> bool {
    rest_of(from) == rest_of(to)
        && quality(from) == quality(to)
        && changed_keys(from, to, "labels").all(|key| !is_read(to, key))
        && changed_keys(from, to, "annotations").all(|key| !is_read(to, key) && !restarts(key))
}

/// The containers of a template, by name.
pub(in crate::checker) fn containers(template: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let all = template["spec"]["containers"].as_array().into_iter().flatten();
    all.map(|container| (container["name"].as_str().unwrap_or_default(), container))
}

/// True if the stated resources of a container have the amounts of a template. Requests that the
/// template leaves out are its limits.
pub(in crate::checker) fn has_amounts(stated: &Value, wanted: &Value) -> bool {
    let is_it = |list: &str, amount: &str| {
        let (own, limit) = (&wanted[list][amount], &wanted["limits"][amount]);
        stated[list][amount] == *(if own.is_null() { limit } else { own })
    };
    AMOUNTS.iter().all(|amount| {
        is_it("requests", amount) && stated["limits"][amount] == wanted["limits"][amount]
    })
}

/// The template without what can be changed.
fn rest_of(template: &Value) -> Value {
    let mut rest = template.clone();
    if let Some(metadata) = rest["metadata"].as_object_mut() {
        metadata.remove("labels");
        metadata.remove("annotations");
    }
    for container in rest["spec"]["containers"].as_array_mut().into_iter().flatten() {
        container["image"] = Value::Null;
        for list in ["requests", "limits"] {
            let amounts = container["resources"][list].as_object_mut();
            amounts.into_iter().for_each(|all| all.retain(|key, _| !AMOUNTS.contains(&&**key)));
        }
    }
    reduced(&rest)
}

fn quality(template: &Value) -> Quality {
    let all = || containers(template).map(|(_, container)| &container["resources"]);
    let is_empty = |list: &Value| AMOUNTS.iter().all(|amount| list[*amount].is_null());
    let is_guaranteed = |resources: &Value| {
        AMOUNTS.iter().all(|amount| {
            let (limit, request) = (&resources["limits"][*amount], &resources["requests"][*amount]);
            !limit.is_null() && (request.is_null() || request == limit)
        })
    };
    match () {
        () if all().all(|it| is_empty(&it["requests"]) && is_empty(&it["limits"])) => {
            Quality::BestEffort
        }
        () if all().all(is_guaranteed) => Quality::Guaranteed,
        () => Quality::Burstable,
    }
}

/// The keys that one of the templates lacks, or that have another value there.
fn changed_keys<'a>(
    from: &'a Value,
    to: &'a Value,
    of: &'static str,
) -> impl Iterator<Item = &'a str> {
    let keys =
        |template: &'a Value| template["metadata"][of].as_object().into_iter().flat_map(Map::keys);
    let value = move |template: &'a Value, key: &str| &template["metadata"][of][key];
    let both = keys(from).chain(keys(to)).map(|key| &**key);
    both.filter(move |key| value(from, key) != value(to, key))
}

/// True if a container reads the label or the annotation from its pod.
fn is_read(template: &Value, key: &str) -> bool {
    let env = containers(template).flat_map(|(_, it)| it["env"].as_array().into_iter().flatten());
    let paths = env.filter_map(|it| it["valueFrom"]["fieldRef"]["fieldPath"].as_str());
    paths.into_iter().any(|path| path.contains(&format!("'{key}'")))
}

/// True if another value of the annotation means a restart.
fn restarts(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |of: &str| domain == of || domain.ends_with(&format!(".{of}"));
    RESTARTS.iter().any(|part| key.to_lowercase().contains(part))
        || DOMAINS.iter().any(|of| is_in(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_sandbox::json::json;

    fn template(image: &str, cpu: &str, metadata: Value) -> Value {
        let env = json!([{"name": "E", "valueFrom": {"fieldRef": {
            "fieldPath": "metadata.labels['read']",
        }}}]);
        reduced(&json!({
            "metadata": metadata,
            "spec": {"containers": [{
                "name": "c",
                "image": image,
                "env": env,
                "resources": {"requests": {"cpu": cpu}},
            }]},
        }))
    }

    /// G56: images, amounts, labels and annotations can be changed, others not.
    #[test]
    fn small_differences_can_be_changed() {
        let from = template("a", "1", json!({}));
        let can = |image: &str, cpu: &str, metadata: Value| {
            can_change(&from, &template(image, cpu, metadata))
        };
        assert!(can("b", "2", json!({"labels": {"l": "1"}, "annotations": {"n": "1"}})));
        assert!(!can("a", "1", json!({"labels": {"read": "1"}})));
        assert!(!can("a", "1", json!({"annotations": {"checksum/x": "1"}})));
        assert!(!can("a", "1", json!({"annotations": {"kubectl.kubernetes.io/restartedAt": "1"}})));
        let mut other = from.clone();
        other["spec"]["nodeSelector"] = json!({"a": "b"});
        assert!(!can_change(&from, &other));
        let best_effort =
            json!([{"name": "c", "image": "a", "env": from["spec"]["containers"][0]["env"]}]);
        let mut without = from.clone();
        without["spec"]["containers"] = best_effort;
        assert!(!can_change(&from, &without));
    }
}
