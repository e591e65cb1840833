//! The controller inside the sandbox's process. It uses HTTPS as any other client.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::SandboxArguments;

/// The maximum time to wait until the controller has stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running controller.
pub(crate) struct Controller {
    stop: CancellationToken,
    task: Mutex<JoinHandle<anyhow::Result<()>>>,
}

impl Controller {
    /// Starts the controller, without leader election.
    pub(crate) fn start(kubeconfig: &Path, arguments: &SandboxArguments) -> Controller {
        let stop = CancellationToken::new();
        let options = everynode_controller::Options {
            kubeconfig: Some(kubeconfig.to_owned()),
            leader_election: None,
            check_hosts: arguments.check_hosts.clone(),
            check_credentials: arguments.check_credentials.clone(),
            ..Default::default()
        };
        let task = tokio::spawn(run(options, stop.clone()));
        Controller { stop, task: Mutex::new(task) }
    }

    /// Waits until the controller has ended, which happens only after an error.
    pub(crate) async fn ended(&self) -> anyhow::Error {
        match (&mut *self.task.lock().await).await {
            Ok(Ok(())) => anyhow!("the controller stopped"),
            Ok(Err(error)) => error.context("the controller stopped"),
            Err(error) => anyhow!(error).context("the controller stopped"),
        }
    }

    /// Stops the controller.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let task = self.task.into_inner();
        // A finished task was awaited by `ended`, and can't be awaited twice.
        if !task.is_finished() {
            let _ = tokio::time::timeout(STOP_TIMEOUT, task).await;
        }
    }
}

async fn run(
    options: everynode_controller::Options,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    everynode_controller::run(options, stop).await.context("run the controller")
}
