//! The controller that runs inside the sandbox's process. It meets the sandbox over HTTPS like any other.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A controller that has not stopped by then is left behind.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Controller {
    stop: CancellationToken,
    task: Mutex<JoinHandle<anyhow::Result<()>>>,
}

impl Controller {
    pub fn start(kubeconfig: &Path) -> Controller {
        let stop = CancellationToken::new();
        let options = everynode_controller::Options {
            kubeconfig: Some(kubeconfig.to_owned()),
            leader_election: None,
            ..Default::default()
        };
        let task = tokio::spawn(run(options, stop.clone()));
        Controller { stop, task: Mutex::new(task) }
    }

    /// Returns when the controller has ended, which it never does by itself unless something is wrong.
    pub async fn ended(&self) -> anyhow::Error {
        match (&mut *self.task.lock().await).await {
            Ok(Ok(())) => anyhow!("the controller stopped"),
            Ok(Err(error)) => error.context("the controller stopped"),
            Err(error) => anyhow!(error).context("the controller stopped"),
        }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        let task = self.task.into_inner();
        // What became of one that has ended is told by `ended`; it can't be waited for twice.
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
