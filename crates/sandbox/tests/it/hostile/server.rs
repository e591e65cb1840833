//! The sandbox in a process of its own, and its memory.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use everynode_sandbox::{NodeSource, Options, start};

use super::bounds;
use super::client::Target;
use super::crowd;

/// Set in the process that serves.
const CHILD: &str = "EVERYNODE_HOSTILE_SERVER";

const SETUP: &str = include_str!("setup.yaml");

/// Serves until standard input ends, if this is the process that should.
pub(crate) fn serve_if_asked() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // As `everynode sandbox` does.
    everynode_allocator::return_freed_pages().expect("jemalloc has background threads");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let options = Options {
            nodes: NodeSource::Generated { nodes: 20, zones: 3 },
            // Old changes are memory that is in use on purpose, and by default for ten minutes.
            compaction_interval: Duration::from_secs(2),
            ..Options::default()
        };
        let sandbox = start(options).await.expect("a sandbox");
        for applied in sandbox.apply_manifest(SETUP) {
            assert!(applied.result.is_ok(), "{applied}");
        }
        println!("\nkubeconfig {}", sandbox.kubeconfig_path().display());
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        ended.await.expect("a thread that reads").expect("a standard input");
        sandbox.shutdown().await;
    });
    std::process::exit(0);
}

/// The process that serves.
pub(crate) struct Process {
    child: Child,
    target: Target,
    stderr: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl Process {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let stderr = directory.path().join("stderr");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["hostile::serve", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&stderr).expect("a file"))
            .spawn()
            .expect("a process");
        let stdout = child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines().map(|line| line.expect("text"));
        let path = lines
            .find_map(|line| line.strip_prefix("kubeconfig ").map(str::to_owned))
            .expect("the server starts");
        // The test harness of that process still writes, and would end at a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let text = std::fs::read_to_string(path).expect("a kubeconfig");
        Self { child, target: Target::of_kubeconfig(&text), stderr, _directory: directory }
    }

    pub(crate) fn target(&self) -> Target {
        self.target.clone()
    }

    /// Removes what the hostile clients left.
    pub(crate) fn clean(&self) {
        // The classes of the system cannot be deleted.
        let classes = format!("{}?labelSelector={}", crowd::CLASSES, crowd::LABEL);
        let core = ["configmaps", "pods", "events", "secrets", "services"]
            .map(|resource| format!("/api/v1/namespaces/default/{resource}?gracePeriodSeconds=0"));
        let others = [
            "/apis/apps/v1/namespaces/default/daemonsets",
            "/apis/apps/v1/namespaces/default/controllerrevisions",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            crowd::BUDGETS,
            &classes,
        ];
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            for path in core.iter().map(String::as_str).chain(others) {
                let (code, answer) = self.target.ask("DELETE", path, b"").await;
                let answer = String::from_utf8_lossy(&answer);
                assert_eq!(code, 200, "DELETE {path}: {answer}");
            }
            // With them go the objects of their kinds.
            for path in bounds::definition_paths() {
                let (code, answer) = self.target.ask("DELETE", &path, b"").await;
                let answer = String::from_utf8_lossy(&answer);
                assert!(matches!(code, 200 | 404), "DELETE {path}: {code} {answer}");
            }
        });
    }

    fn field(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        let number = line.trim().trim_end_matches(" kB");
        number.parse().expect("a number of kilobytes")
    }

    /// Its memory in KiB.
    pub(crate) fn memory(&self) -> u64 {
        self.field("VmRSS:")
    }

    pub(crate) fn peak_memory(&self) -> u64 {
        self.field("VmHWM:")
    }

    /// Its memory in KiB after a pause, or as soon as it is at most `wanted`.
    pub(crate) fn settled_memory(&self, pause: Duration, wanted: Option<u64>) -> u64 {
        let started = Instant::now();
        while started.elapsed() < pause && wanted.is_none_or(|wanted| self.memory() > wanted) {
            std::thread::park_timeout(Duration::from_millis(200));
        }
        self.memory()
    }

    /// Checks that it runs, and that no task panicked.
    pub(crate) fn check(&mut self) {
        assert!(self.child.try_wait().expect("a process").is_none(), "the server ended");
        let stderr = std::fs::read_to_string(&self.stderr).expect("a file");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        if std::thread::panicking() {
            let stderr = std::fs::read_to_string(&self.stderr).unwrap_or_default();
            println!("standard error of the server:\n{stderr}");
        }
    }
}
