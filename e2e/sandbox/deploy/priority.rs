//! The priority of the controller's requests at an overloaded API server (API priority and
//! fairness).

use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PolicyRulesWithSubjects, Subject};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use serde_json::{Value, json};

use super::{DEPLOY, base, file, in_own_namespace, one};

/// The rules of a FlowSchema, which select requests by user and resource.
fn covers(rules: &PolicyRulesWithSubjects, who: &Subject, request: &RequestAttributes) -> bool {
    let has = |list: &[String], word: &str| list.iter().any(|entry| entry == "*" || entry == word);
    rules.subjects.contains(who)
        && match request {
            RequestAttributes::Resource { verb, group, resource, is_namespaced } => {
                rules.resource_rules.iter().flatten().any(|rule| {
                    let scope = match is_namespaced {
                        true => rule.namespaces.iter().flatten().any(|namespace| namespace == "*"),
                        false => rule.cluster_scope == Some(true),
                    };
                    scope
                        && has(&rule.verbs, verb)
                        && has(&rule.api_groups, group)
                        && has(&rule.resources, resource)
                })
            }
            RequestAttributes::Path(path) => rules
                .non_resource_rules
                .iter()
                .flatten()
                .any(|rule| has(&rule.verbs, "get") && has(&rule.non_resource_urls, path)),
        }
}

/// The attributes of a request that API priority and fairness reads.
enum RequestAttributes {
    Resource { verb: String, group: String, resource: String, is_namespaced: bool },
    Path(&'static str),
}

/// Every request that a role permits, and the request at the start.
fn requests(roles: &[Value]) -> Result<Vec<RequestAttributes>> {
    let cluster_role: ClusterRole = one(roles, "ClusterRole")?;
    let role: Role = one(roles, "Role")?;
    let rules = cluster_role.rules.into_iter().flatten().chain(role.rules.into_iter().flatten());
    let mut requests = vec![RequestAttributes::Path("/version")];
    for PolicyRule { api_groups, resources, verbs, .. } in rules {
        let (group, resources) = (api_groups.context("no group")?, resources.context("none")?);
        for (resource, verb) in
            resources.iter().flat_map(|resource| verbs.iter().map(move |verb| (resource, verb)))
        {
            let is_namespaced = resource != "nodes" && resource != "namespaces";
            let (verb, group, resource) = (verb.clone(), group[0].clone(), resource.clone());
            requests.push(RequestAttributes::Resource { verb, group, resource, is_namespaced });
        }
    }
    Ok(requests)
}

/// FlowSchemas give the lease the priority of the built-in controllers' leases, and all other
/// requests that of their requests, since neither user nor ServiceAccount has a good default
/// priority. Their matchingPrecedence is lower than that of the defaults for ServiceAccounts (9000)
/// and for all users (9900), and higher than that of the exempt ones (1, 2).
#[tokio::test]
async fn requests_have_the_priority_of_the_built_in_controllers() -> Result<()> {
    let (namespace, moved) = in_own_namespace().await?;
    let pod = std::fs::read_to_string(Path::new(DEPLOY).join("static-pod.yaml"))?;
    let name = pod.split("--client-name ").nth(1).and_then(|rest| rest.split(' ').next());
    let user = json!({"kind": "User", "user": {"name": name.context("no user is made")?}});
    let account: ServiceAccount = one(&moved, "ServiceAccount")?;
    ensure!(account.metadata.namespace.as_deref() == Some(namespace));
    let account = json!({
        "kind": "ServiceAccount",
        "serviceAccount": {"name": account.metadata.name, "namespace": namespace},
    });
    let requests = requests(&base().await?)?;
    for (documents, who) in [(file("static-pod-flow-schemas.yaml")?, user), (moved, account)] {
        let who: Subject = serde_json::from_value(who)?;
        let schemas = documents.iter().filter(|document| document["kind"] == "FlowSchema");
        let schemas = schemas.map(|schema| Ok(serde_json::from_value(schema.clone())?));
        let mut schemas = schemas.collect::<Result<Vec<FlowSchema>>>()?;
        ensure!(schemas.iter().all(|schema| schema.metadata.namespace.is_none()));
        schemas
            .sort_by_key(|schema| schema.spec.as_ref().and_then(|spec| spec.matching_precedence));
        for request in &requests {
            let mut specs = schemas.iter().filter_map(|schema| schema.spec.as_ref());
            let spec = specs
                .find(|spec| spec.rules.iter().flatten().any(|rules| covers(rules, &who, request)));
            let spec = spec.context("a request has the default priority")?;
            let is_lease = match request {
                RequestAttributes::Resource { resource, .. } => resource == "leases",
                RequestAttributes::Path(_) => false,
            };
            let expected = if is_lease { "leader-election" } else { "workload-high" };
            ensure!(spec.priority_level_configuration.name == expected, "{spec:?}");
            ensure!(spec.matching_precedence.is_some_and(|at| (3..9000).contains(&at)), "{spec:?}");
            let method = spec.distinguisher_method.as_ref().map(|method| method.type_.as_str());
            ensure!(matches!(method, Some("ByUser" | "ByNamespace")), "{spec:?}");
        }
    }
    Ok(())
}
