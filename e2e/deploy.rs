//! The manifests under deploy/: they are what their kinds say, and grant no right beyond those that the controller uses.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::process::Command;

use crate::world::command::finish;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

fn documents(text: &str) -> Result<Vec<Value>> {
    text.split("\n---\n").map(|text| Ok(serde_saphyr::from_str(text)?)).collect()
}

/// What `kubectl kustomize` makes of a directory.
async fn render(directory: &Path) -> Result<Vec<Value>> {
    let program = std::env::var_os("KUBECTL").unwrap_or_else(|| OsString::from("kubectl"));
    let mut command = Command::new(program);
    command.arg("kustomize").arg(directory);
    let home = tempfile::tempdir()?;
    documents(&finish(command, home.path(), "").await?.ok()?)
}

async fn base() -> Result<Vec<Value>> {
    render(&Path::new(DEPLOY).join("base")).await
}

fn one<K: DeserializeOwned>(documents: &[Value], kind: &str) -> Result<K> {
    let found = documents.iter().find(|document| document["kind"] == kind);
    Ok(serde_json::from_value(found.with_context(|| format!("no {kind}"))?.clone())?)
}

fn container(documents: &[Value]) -> Result<Container> {
    let deployment: Deployment = one(documents, "Deployment")?;
    let pod = deployment.spec.and_then(|spec| spec.template.spec).context("no pod spec")?;
    pod.containers.into_iter().next().context("no container")
}

/// The arguments as the kubelet hands them over, with `$(NAME)` replaced.
fn arguments(container: &Container) -> Vec<String> {
    let mut arguments = container.args.clone().unwrap_or_default();
    for variable in container.env.iter().flatten() {
        let placeholder = format!("$({})", variable.name);
        for argument in &mut arguments {
            *argument = argument.replace(&placeholder, variable.value.as_deref().unwrap_or(""));
        }
    }
    arguments
}

#[tokio::test]
async fn the_single_file_is_the_rendered_base() -> Result<()> {
    let file = std::fs::read_to_string(Path::new(DEPLOY).join("everynode.yaml"))?;
    ensure!(
        documents(&file)? == base().await?,
        "deploy/everynode.yaml is not what deploy/base renders to: make manifest"
    );
    Ok(())
}

#[tokio::test]
async fn the_deployment_starts_the_program_with_options_that_it_knows() -> Result<()> {
    let arguments = arguments(&container(&base().await?)?);
    let help = std::process::Command::new(crate::world::process::EVERYNODE)
        .args(&arguments)
        .arg("--help")
        .output()?;
    ensure!(help.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&help.stderr));
    Ok(())
}

#[tokio::test]
async fn the_roles_grant_no_wildcard_and_no_secret() -> Result<()> {
    let documents = base().await?;
    let cluster_role: ClusterRole = one(&documents, "ClusterRole")?;
    let role: Role = one(&documents, "Role")?;
    let rules = cluster_role.rules.into_iter().flatten().chain(role.rules.into_iter().flatten());
    for PolicyRule { resources, verbs, .. } in rules {
        for word in resources.into_iter().flatten().chain(verbs) {
            ensure!(word != "*" && word != "secrets", "a role grants {word}");
        }
    }
    Ok(())
}
