//! A controller with its own account, so that fault rules of the sandbox apply to its requests
//! only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use serde_json::{Value, json};

use super::process::Process;
use super::{Setup, World, within};

const RULES: &str = "/debug/faults";
const ACCOUNT: &str = "controller";
const FIRES_WITHIN: Duration = Duration::from_secs(20);

/// A cluster without a controller, and the account for the controller that a test starts.
pub(crate) struct FaultSetup {
    pub world: World,
    pub kubeconfig: PathBuf,
}

impl FaultSetup {
    /// A cluster of this number of nodes, and the account.
    pub(crate) async fn of(nodes: usize) -> Result<FaultSetup> {
        let setup = Setup { nodes, controller: false, arguments: &[] };
        let world = World::sandbox(setup).await?;
        let kubeconfig = world.administrator(ACCOUNT).await?;
        Ok(FaultSetup { world, kubeconfig })
    }

    /// Starts a controller, without leader election unless the arguments enable it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Process> {
        self.run_with(&self.kubeconfig, arguments)
    }

    /// Starts a controller with another kubeconfig.
    pub(crate) fn run_with(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<Process> {
        let mut all = vec!["run"];
        if arguments.is_empty() {
            all.push("--leader-elect=false");
        }
        all.extend(arguments);
        Process::everynode_with(self.world.directory.path(), "run", &all, Some(kubeconfig))
    }

    /// Sets fault rules that apply to the controller's requests only.
    pub(crate) async fn set(&self, mut rules: Value) -> Result<()> {
        let user = format!("system:serviceaccount:{}:{ACCOUNT}", self.world.namespace);
        for rule in rules.as_array_mut().context("the test's rules are a list")? {
            rule["match"]["users"] = json!([user]);
        }
        self.put(&json!({"faults": rules})).await
    }

    /// Sets fault rules that apply to all requests.
    pub(crate) async fn set_for_all(&self, rules: Value) -> Result<()> {
        self.put(&json!({"faults": rules})).await
    }

    async fn put(&self, rules: &Value) -> Result<()> {
        let request = Request::put(RULES).body(rules.to_string().into_bytes())?;
        self.world.client.request_text(request).await?;
        Ok(())
    }

    /// The number of times that a rule has fired.
    pub(crate) async fn fired(&self, rule: usize) -> Result<u64> {
        let text = self.world.client.request_text(Request::get(RULES).body(Vec::new())?).await?;
        let rules: Value = serde_json::from_str(&text)?;
        rules["faults"][rule]["status"]["fired"].as_u64().context("no such rule")
    }

    /// Waits until a rule has fired this number of times.
    pub(crate) async fn has_fired(&self, rule: usize, times: u64) -> Result<()> {
        within(FIRES_WITHIN, &format!("rule {rule} fires"), async || {
            let fired = self.fired(rule).await?;
            ensure!(fired >= times, "{fired} times");
            Ok(())
        })
        .await
    }
}
