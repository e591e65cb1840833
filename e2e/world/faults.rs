//! A controller with its own account, so that fault rules of the sandbox apply to its requests
//! only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::account::{LOG_REQUESTS, LoggedRequest};
use super::process::Process;
use super::tcp_proxy::{Condition, TcpProxy};
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
        let setup = Setup { nodes, controller: false, arguments: &LOG_REQUESTS };
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

    /// Starts a controller behind a TCP proxy.
    pub(crate) async fn run_behind_proxy(&self, arguments: &[&str]) -> Result<(Process, TcpProxy)> {
        let proxy = TcpProxy::to(&self.kubeconfig).await?;
        let controller = self.run_with(&proxy.kubeconfig(&self.kubeconfig)?, arguments)?;
        Ok((controller, proxy))
    }

    /// Makes the controller behind the proxy reconnect, stalls its watch of pods for this long, and
    /// sets more fault rules. Returns the time until which it certainly observes no pods.
    pub(crate) async fn stall_pods(
        &self,
        proxy: &TcpProxy,
        lasts: Duration,
        faults: &[Value],
    ) -> Result<Timestamp> {
        let mut rules = vec![json!({
            "match": {"verbs": ["watch"], "resources": ["pods"]},
            "when": {"times": 1},
            "fault": {"stall": {"lasts": format!("{}ms", lasts.as_millis())}},
        })];
        rules.extend(faults.iter().cloned());
        self.set(rules.into()).await?;
        let until = Timestamp::now() + lasts;
        proxy.break_existing(Condition::Reset);
        self.has_fired(0, 1).await?;
        Ok(until)
    }

    /// The controller's requests for this resource with this verb, in order.
    pub(crate) fn requests(&self, verb: &str, resource: &str) -> Result<Vec<LoggedRequest>> {
        let mut requests = self.world.requests_of(&self.world.namespace, ACCOUNT)?;
        requests.retain(|request| request.verb == verb && request.resource == resource);
        Ok(requests)
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
