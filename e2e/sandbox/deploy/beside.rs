//! The manifests of deploy/beside and of its component.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::{Value, json};

use super::{DEPLOY, arguments, base, container, one, pod, round_trip, starts_with_known_options};
use crate::world::beside::{ACCOUNT, RollBack, manifests};
use crate::world::{Setup, World};

async fn world() -> Result<World> {
    World::sandbox(Setup { nodes: 1, controller: false, ..Setup::default() }).await
}

/// G20: every field is known, the API server accepts each object, and all are in one namespace
#[tokio::test]
async fn the_manifests_are_valid_in_any_namespace() -> Result<()> {
    let world = world().await?;
    for roll_back in [RollBack::No, RollBack::Allowed] {
        let documents = manifests(&world, roll_back).await?;
        for document in &documents {
            match document["kind"].as_str().unwrap_or_default() {
                "Deployment" => round_trip::<Deployment>(document)?,
                "ServiceAccount" => round_trip::<ServiceAccount>(document)?,
                "PodDisruptionBudget" => round_trip::<PodDisruptionBudget>(document)?,
                "ClusterRole" => round_trip::<ClusterRole>(document)?,
                "ClusterRoleBinding" => round_trip::<ClusterRoleBinding>(document)?,
                "Role" => round_trip::<Role>(document)?,
                "RoleBinding" => round_trip::<RoleBinding>(document)?,
                // The same as in the base.
                "CustomResourceDefinition" => {}
                other => anyhow::bail!("no type for {other}"),
            }
            let text = document.to_string();
            ensure!(!text.contains(r#""namespace":"everynode""#), "not moved: {text}");
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": documents}).to_string();
        let arguments = ["--namespace=", "apply", "--dry-run=server", "-f", "-"];
        let output = world.kubectl_with_input(&arguments, &list).await?.ok()?;
        ensure!(output.lines().count() == documents.len(), "{output}");
    }
    Ok(())
}

/// G20: the role allows exactly these writes, and the component one more; neither has a wildcard
#[tokio::test]
async fn the_roles_allow_exactly_these_writes() -> Result<()> {
    let world = world().await?;
    let writes = |documents: &[Value]| -> Result<Vec<String>> {
        let mut writes = Vec::new();
        for document in documents.iter().filter(|document| document["kind"] == "ClusterRole") {
            for rule in document["rules"].as_array().context("no rules")? {
                let verbs = rule["verbs"].as_array().into_iter().flatten();
                let verbs = verbs.filter_map(Value::as_str);
                for verb in verbs.filter(|verb| !["get", "list", "watch"].contains(verb)) {
                    let resources = rule["resources"].as_array().into_iter().flatten();
                    let resources = resources.filter_map(Value::as_str);
                    writes.extend(resources.map(|resource| format!("{verb} {resource}")));
                }
            }
        }
        writes.sort();
        Ok(writes)
    };
    let mut expected = vec![
        "create events",
        "delete pods",
        "patch clusterrolloutpolicies/status",
        "patch controllerrevisions",
        "patch daemonsets/status",
        "patch events",
        "patch rolloutpolicies/status",
    ];
    ensure!(writes(&manifests(&world, RollBack::No).await?)? == expected);
    expected.insert(2, "edit daemonsets");
    expected.insert(5, "patch daemonsets");
    ensure!(writes(&manifests(&world, RollBack::Allowed).await?)? == expected);
    Ok(())
}

/// G18: the options are valid, the component adds one, and the container is confined as in the base
#[tokio::test]
async fn the_deployment_runs_beside_the_built_in_controller() -> Result<()> {
    let world = world().await?;
    let documents = manifests(&world, RollBack::No).await?;
    let beside = container(&documents)?;
    starts_with_known_options(&beside)?;
    ensure!(arguments(&beside).starts_with(&["run".to_owned(), "--beside".to_owned()]));
    let with_component = container(&manifests(&world, RollBack::Allowed).await?)?;
    starts_with_known_options(&with_component)?;
    let mut expected = arguments(&beside);
    expected.push("--roll-back".to_owned());
    ensure!(arguments(&with_component) == expected);
    let base = base().await?;
    ensure!(pod(&documents)?.security_context == pod(&base)?.security_context);
    ensure!(beside.security_context == container(&base)?.security_context);
    ensure!(beside.image == container(&base)?.image);
    let account: ServiceAccount = one(&documents, "ServiceAccount")?;
    ensure!(account.metadata.name.as_deref() == Some(ACCOUNT));
    Ok(())
}

/// G20: the component for the Jobs of checks grants its own account the same as that of the base
#[test]
fn the_jobs_of_checks_need_the_same_rights() -> Result<()> {
    let read = |component: &str| {
        std::fs::read_to_string(Path::new(DEPLOY).join("components").join(component))
    };
    let account = "name: everynode-beside\n  namespace: everynode\n";
    let beside = read("check-jobs-beside/rbac.yaml")?;
    ensure!(beside.contains(account), "{beside}");
    let beside = beside.replace(account, "name: everynode\n  namespace: kube-system\n");
    ensure!(
        beside.replace("everynode-beside-", "everynode-") == read("check-jobs/rbac.yaml")?,
        "{beside}"
    );
    Ok(())
}
