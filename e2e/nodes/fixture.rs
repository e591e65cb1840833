//! The control plane and its nodes, which one story at a time uses, and the two controllers.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use crate::world::World;
use crate::world::process::Process;

/// Names the program that starts and stops nodes. It takes the commands `start COUNT`, `stop` and
/// `env` (prints what a shell needs), for node K `off`, `on`, `reboot`, `cut`, `mend` (of its
/// network) and `kill-` and `start-` of its `kubelet` and `containerd`, `inside K COMMAND…`,
/// `logs K LINES`, `import IMAGE PROGRAM`, `kill-apiserver` and `start-apiserver`.
const PROGRAM: &str = "EVERYNODE_NODES";

/// Lets stories be played with one controller only, by its name.
const CONTROLLER: &str = "EVERYNODE_NODES_CONTROLLER";

/// The number of nodes: node-1, node-2 …
pub(crate) const NODES: usize = 3;

/// A command of the program that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Everynode,
    BuiltIn,
}

impl Controller {
    pub(crate) const ALL: [Controller; 2] = [Controller::Everynode, Controller::BuiltIn];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Controller::Everynode => "everynode",
            Controller::BuiltIn => "built-in",
        }
    }

    /// True if stories are played with it.
    pub(crate) fn is_wanted(self) -> bool {
        std::env::var(CONTROLLER).map_or(true, |name| name == self.name())
    }
}

pub(crate) struct Nodes {
    program: PathBuf,
    pub kubeconfig: PathBuf,
    /// The PATH on which kube-controller-manager is.
    path: String,
    /// Stops the nodes when its standard input ends, which is when this process ends.
    _guardian: Child,
}

/// The nodes of this process: started by its first story.
static RUNNING: Mutex<Option<Nodes>> = Mutex::const_new(None);

impl Nodes {
    /// Waits until no other story uses the nodes. `None` without a program that starts them.
    pub(crate) async fn acquire() -> Result<Option<MappedMutexGuard<'static, Nodes>>> {
        let Some(program) = std::env::var_os(PROGRAM) else { return Ok(None) };
        let mut running = RUNNING.lock().await;
        if running.is_none() {
            *running = Some(Nodes::launch(Path::new(&program)).await?);
        }
        Ok(MutexGuard::try_map(running, Option::as_mut).ok())
    }

    async fn launch(program: &Path) -> Result<Nodes> {
        let script = r#"eval "$("$0" env)"; printf '%s\n%s' "$KUBECONFIG" "$PATH""#;
        let output = Command::new("sh").args(["-c", script]).arg(program).output().await?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let (kubeconfig, path) = output.split_once('\n').context("the program prints no PATH")?;
        let name = kubeconfig.replace('/', "-");
        let lock = std::env::temp_dir().join(format!("everynode-nodes{name}.log"));
        let lock = File::options().create(true).append(true).open(lock)?;
        // The guardian of an earlier process holds it until the nodes of that one are stopped.
        lock.lock()?;
        let guardian = std::process::Command::new("sh")
            .args(["-c", r#"read -r _; exec "$0" stop"#])
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(lock.try_clone()?)
            .stderr(lock)
            // Ctrl-C is for this process only.
            .process_group(0)
            .spawn()?;
        let nodes = Nodes {
            program: program.to_owned(),
            kubeconfig: kubeconfig.into(),
            path: path.to_owned(),
            _guardian: guardian,
        };
        nodes.start().await?;
        Ok(nodes)
    }

    /// Starts all anew.
    pub(crate) async fn start(&self) -> Result<()> {
        let count = NODES.to_string();
        self.call(&["start", &count, "--service-account-admission"]).await.map(drop)
    }

    /// Runs the program. Returns what it prints.
    pub(crate) async fn call(&self, arguments: &[&str]) -> Result<String> {
        // In files: what it starts in the background may keep its output open.
        let directory = tempfile::tempdir()?;
        let (stdout, stderr) = (directory.path().join("out"), directory.path().join("err"));
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let status = tokio::time::timeout(DEADLINE, command.status()).await;
        let status = status.with_context(|| format!("{arguments:?} hangs"))??;
        let said = std::fs::read_to_string(stderr)?;
        ensure!(status.success(), "{arguments:?} ended with {status}: {said}");
        Ok(std::fs::read_to_string(stdout)?)
    }

    /// Starts a controller; everynode with these further arguments.
    pub(crate) fn controller(
        &self,
        world: &World,
        controller: Controller,
        arguments: &[&str],
    ) -> Result<Process> {
        let directory = world.directory.path();
        match controller {
            Controller::Everynode => {
                let arguments = [&["run", "--leader-elect=false"], arguments].concat();
                Process::everynode_with(directory, "run", &arguments, Some(&self.kubeconfig))
            }
            Controller::BuiltIn => {
                let mut command = std::process::Command::new("kube-controller-manager");
                command.arg("--kubeconfig").arg(&self.kubeconfig).env("PATH", &self.path);
                command.args(["--controllers=daemonset-controller", "--leader-elect=false"]);
                command.args(["--kube-api-qps=200", "--kube-api-burst=200", "--secure-port=0"]);
                Process::start(directory, "built-in", command)
            }
        }
    }
}

/// The name of a node by its number.
pub(crate) fn node(number: usize) -> String {
    format!("node-{number}")
}
