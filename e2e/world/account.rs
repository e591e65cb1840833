//! ServiceAccounts for tests, so that the sandbox's log identifies the author of a request.

use std::path::PathBuf;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::World;

/// The arguments of a sandbox whose log has every request.
pub(crate) const LOG_REQUESTS: [&str; 2] = ["--log-level=debug", "--log-format=json"];

/// One request in the log of a sandbox with [`LOG_REQUESTS`].
#[derive(Clone, Debug)]
pub(crate) struct LoggedRequest {
    pub verb: String,
    /// `pods`, `daemonsets/status.apps`
    pub resource: String,
    pub allowed: bool,
    /// The position in the sequence of all requests.
    pub number: usize,
    /// When the sandbox received it, before any fault rule applies.
    pub at: Timestamp,
}

impl World {
    /// A kubeconfig with a token of an existing account.
    pub(crate) async fn kubeconfig_of(&self, namespace: &str, account: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let request = serde_json::from_value(json!({"spec": {"audiences": []}}))?;
        let parameters = PostParams::default();
        let answer = accounts.create_token_request(account, &parameters, &request).await?;
        let token = answer.status.and_then(|status| status.token).context("no token")?;
        let text = std::fs::read_to_string(&self.kubeconfig)?;
        let mut document: Value = serde_saphyr::from_str(&text)?;
        document["users"][0]["user"] = json!({ "token": token });
        let path = self.directory.path().join(format!("{account}.kubeconfig"));
        std::fs::write(&path, document.to_string())?;
        Ok(path)
    }

    /// Creates an account with all permissions in the test's namespace, and its kubeconfig.
    pub(crate) async fn administrator(&self, account: &str) -> Result<PathBuf> {
        let namespace = &self.namespace;
        self.kubectl(&["create", "serviceaccount", account]).await?;
        let subject = format!("--serviceaccount={namespace}:{account}");
        let role = "--clusterrole=cluster-admin";
        self.kubectl(&["create", "clusterrolebinding", account, role, &subject]).await?;
        self.kubeconfig_of(namespace, account).await
    }

    /// The resource requests of an account, in order.
    pub(crate) fn requests_of(&self, namespace: &str, account: &str) -> Result<Vec<LoggedRequest>> {
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let log = self.sandbox.as_ref().context("this world has a sandbox")?.output();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let requests = lines.filter(|line| line.get("resource").is_some()).enumerate();
        let requests = requests.filter(|(_, line)| line["user"] == user);
        requests.map(|(number, line)| LoggedRequest::of(number, &line)).collect()
    }
}

impl LoggedRequest {
    fn of(number: usize, line: &Value) -> Result<LoggedRequest> {
        let text = |field: &str| line[field].as_str().unwrap_or_default();
        let part = |sign: &str, field: &str| match text(field) {
            "" => String::new(),
            text => format!("{sign}{text}"),
        };
        let (subresource, group) = (part("/", "subresource"), part(".", "group"));
        Ok(LoggedRequest {
            verb: text("verb").to_owned(),
            resource: format!("{}{subresource}{group}", text("resource")),
            allowed: line["allowed"] == true,
            number,
            at: text("timestamp").parse().context("no time")?,
        })
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}
