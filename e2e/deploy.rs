//! The manifests under deploy/: they are what their kinds say, and grant no right beyond those that the controller uses.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use serde_json::Value;

const MANIFEST: &str = include_str!("../deploy/everynode.yaml");

fn documents() -> Result<Vec<Value>> {
    MANIFEST
        .split("\n---\n")
        .map(|text| serde_saphyr::from_str(text).context("deploy/everynode.yaml is no YAML"))
        .collect()
}

fn document<K: serde::de::DeserializeOwned>(kind: &str) -> Result<K> {
    let found = documents()?.into_iter().find(|document| document["kind"] == kind);
    Ok(serde_json::from_value(found.with_context(|| format!("no {kind}"))?)?)
}

#[test]
fn the_deployment_starts_the_program_with_options_that_it_knows() -> Result<()> {
    let deployment: Deployment = document("Deployment")?;
    let template = deployment.spec.and_then(|spec| spec.template.spec).context("no pod spec")?;
    ensure!(template.service_account_name.as_deref() == Some("everynode"));
    let arguments = template.containers[0].args.clone().unwrap_or_default();
    let help = std::process::Command::new(crate::world::process::EVERYNODE)
        .args(&arguments)
        .arg("--help")
        .output()?;
    ensure!(help.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&help.stderr));
    Ok(())
}

#[test]
fn the_roles_grant_no_wildcard_and_no_secret() -> Result<()> {
    let cluster_role: ClusterRole = document("ClusterRole")?;
    let role: Role = document("Role")?;
    let rules = cluster_role.rules.into_iter().flatten().chain(role.rules.into_iter().flatten());
    for PolicyRule { resources, verbs, .. } in rules {
        for word in resources.into_iter().flatten().chain(verbs) {
            ensure!(word != "*" && word != "secrets", "a role grants {word}");
        }
    }
    Ok(())
}
