//! User errors: one clear line that names the cause, an exit code, and no process left running.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::program::{Output, PROGRAM, everynode};

const BROKEN_KUBECONFIG: &str = "clusters: [}\n";
const DEAD_KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: dead
contexts: [{name: dead, context: {cluster: dead, user: nobody}}]
clusters: [{name: dead, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: nobody, user: {token: none}}]
";
const NO_YAML: &str = "kind: DaemonSet\n\tmetadata: [\n";
const UNKNOWN_KIND: &str = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\n";
const INVALID: &str = "\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: broken}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: b}}
    spec: {containers: [{name: a, image: a}]}
";
const BAD_FAULTS: &str = "\
faults:
- fault: {error: {code: 500}}
- fault: {error: {code: 20}}
";
const NO_NODES: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

/// C83: a signal ends the controller while it waits for the exec plugin.
#[tokio::test]
async fn a_signal_ends_the_controller_while_a_plugin_runs() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (config, started) = (directory.path().join("config"), directory.path().join("started"));
    let script = format!("touch {}; exec sleep 30", started.display());
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh",
        "args": ["-c", script], "interactiveMode": "Never"});
    let kubeconfig = DEAD_KUBECONFIG.replace("{token: none}", &json!({"exec": exec}).to_string());
    std::fs::write(&config, kubeconfig)?;
    let mut controller = Command::new(PROGRAM);
    controller.args(["run", "--kubeconfig"]).arg(&config).kill_on_drop(true);
    let mut controller = controller.spawn()?;
    while !started.exists() {
        tokio::task::yield_now().await;
    }
    let process = controller.id().context("it runs")?.to_string();
    ensure!(Command::new("kill").arg(process).status().await?.success());
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), controller.wait());
    ensure!(ended.await.context("the signal is ignored")??.success());
    Ok(())
}

/// S1, S17, S20: each error is reported in one line, and no process keeps running
#[tokio::test]
async fn each_user_error_is_reported_in_one_line() -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let taken = listener.local_addr()?.to_string();
    let directory = tempfile::tempdir()?;
    for (name, text) in [
        ("broken.conf", BROKEN_KUBECONFIG),
        ("dead.conf", DEAD_KUBECONFIG),
        ("no.yaml", NO_YAML),
        ("unknown.yaml", UNKNOWN_KIND),
        ("invalid.yaml", INVALID),
        ("nodes.yaml", NO_NODES),
        ("faults.yaml", BAD_FAULTS),
        ("other.conf", "{kind: Config, clusters: [{name: prod}]}"),
    ] {
        std::fs::write(directory.path().join(name), text)?;
    }
    std::fs::File::create(directory.path().join("huge"))?.set_len(10 << 30)?;
    let silent = DEAD_KUBECONFIG.replace("https://127.0.0.1:1", &format!("http://{taken}"));
    std::fs::write(directory.path().join("silent.conf"), silent)?;
    for (arguments, named) in [
        (vec!["run", "--kubeconfig", "{dir}/dead.conf", "--leader-elect=false"], "127.0.0.1:1"),
        (vec!["run", "--kubeconfig", "{dir}/dead.conf"], "127.0.0.1:1"),
        (vec!["status", "ds/a", "--kubeconfig={dir}/silent.conf", "--timeout=50ms"], "within 50ms"),
        (vec!["run", "--kubeconfig", "{dir}/broken.conf"], "broken.conf"),
        (vec!["run", "--kubeconfig", "{dir}/missing.conf"], "missing.conf"),
        (vec!["run", "--kubeconfig", "{dir}/dead.conf", "--context", "other"], "other"),
        (vec!["run", "--http", "nowhere"], "nowhere"),
        (vec!["run", "--burst-replicas", "0"], "--burst-replicas"),
        (vec!["sandbox", "--nodes", "0"], "--nodes"),
        (vec!["sandbox", "--apply", "{dir}/no.yaml"], "no.yaml"),
        (vec!["sandbox", "--apply", "{dir}/unknown.yaml"], "Gadget"),
        (vec!["sandbox", "--apply", "{dir}/invalid.yaml"], "spec.template.metadata.labels"),
        (vec!["sandbox", "--apply", "{dir}/missing.yaml"], "missing.yaml"),
        (vec!["sandbox", "--nodes-from", "{dir}/missing.yaml"], "missing.yaml"),
        (vec!["sandbox", "--nodes-from", "{dir}/nodes.yaml"], "nodes.yaml"),
        (vec!["sandbox", "--nodes-from", "-"], "standard input: the list of nodes holds no node"),
        (vec!["sandbox", "--nodes-from", "-", "--apply", "-"], "standard input (-)"),
        (vec!["sandbox", "--listen", &taken], &taken),
        (vec!["sandbox", "--kubeconfig-out", "{dir}/no/such/dir/config"], "no/such/dir/config"),
        (
            vec!["sandbox", "--kubeconfig-out", "{dir}/other.conf"],
            "other.conf: it is the kubeconfig of prod, which would be lost",
        ),
        (vec!["sandbox", "--kubeconfig-out", "/dev/stdout"], "/dev/stdout: it is not a regular"),
        (vec!["sandbox", "--lifecycles", "{dir}/no.yaml"], "no.yaml"),
        (vec!["sandbox", "--faults", "{dir}/no.yaml"], "no.yaml: faults: "),
        (vec!["sandbox", "--faults", "{dir}/missing.yaml"], "missing.yaml"),
        (
            vec!["sandbox", "--faults", "{dir}/faults.yaml"],
            "faults.yaml: faults[1].fault.error.code",
        ),
        (vec!["run", "--kubeconfig", "/dev/zero"], "kubeconfig /dev/zero: it is a device"),
        (vec!["top", "--kubeconfig", "{dir}/huge"], "huge: it is larger than 16 MiB"),
        (vec!["sandbox", "--apply", "{dir}/huge"], "huge: it is larger than 512 MiB"),
        (vec!["sandbox", "--lifecycles", "{dir}/huge"], "huge: it is larger than 16 MiB"),
        (vec!["sandbox", "--kubeconfig-out", "{dir}/huge"], "huge: it is not the kubeconfig"),
        (
            vec!["explain", "-f", "{dir}/huge", "--nodes-from", "{dir}/nodes.yaml"],
            "huge: it is larger than 512 MiB",
        ),
        (vec!["sandbox", "--timeout", "soon"], "--timeout"),
        (vec!["sandbox", "--nodez", "3"], "--nodez"),
        (vec!["sandcastle"], "sandcastle"),
    ] {
        let output = everynode(directory.path(), &arguments, "").await?;
        check(&output, named).with_context(|| format!("everynode {arguments:?}"))?;
    }
    drop(listener);
    Ok(())
}

/// Checks for one line and an exit code; `everynode` has seen the process end.
fn check(output: &Output, named: &str) -> Result<()> {
    let lines: Vec<&str> = output.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    ensure!(output.code != 0, "exit code 0, and printed {lines:?}");
    ensure!(output.code != 101, "a panic: {lines:?}");
    ensure!(lines.len() == 1, "not one line: {lines:#?}");
    ensure!(lines[0].starts_with("error: "), "{:?}", lines[0]);
    ensure!(lines[0].contains(named), "{:?} does not name {named:?}", lines[0]);
    Ok(())
}

/// S20: the error about a cluster that does not settle names what is missing
#[tokio::test]
async fn a_sandbox_that_does_not_settle_reports_the_reason() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let lifecycle = json!({"sandbox.everynode.dev/lifecycle": "never-ready"});
    let manifest = daemon_set("stuck", json!({ "annotations": lifecycle }), json!({}));
    let arguments =
        ["sandbox", "--nodes", "3", "--apply", "-", "--exit-when-settled", "--timeout", "2s"];
    let output = everynode(directory.path(), &arguments, &manifest.to_string()).await?;
    ensure!(output.code == 1, "exit code {}", output.code);
    let last = output.stderr.lines().last().unwrap_or_default();
    for part in ["error: ", "2s", "default/stuck", "0 of 3 pods available"] {
        ensure!(last.contains(part), "{last:?} lacks {part:?}");
    }
    Ok(())
}

/// C23, S20, S25: the demo settles, exits with 0, and leaves no file behind
#[tokio::test]
async fn the_demo_settles_and_exits() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fluentd-elasticsearch.yaml");
    let arguments =
        ["sandbox", "--nodes", "20", "--zones", "3", "--apply", example, "--exit-when-settled"];
    let output = everynode(directory.path(), &arguments, "").await?;
    ensure!(output.code == 0, "exit code {}: {}", output.code, output.stderr);
    let running = output.stdout.matches("kube-system/fluentd-elasticsearch-").count();
    ensure!(running == 20, "{running} pods in\n{}", output.stdout);
    let left: Vec<_> = std::fs::read_dir(directory.path())?.collect::<Result<_, _>>()?;
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

/// S20: a DaemonSet that no node should run is settled, and is no silent success.
#[tokio::test]
async fn a_selector_that_matches_no_node_is_told() -> Result<()> {
    let selector = json!({"nodeSelector": {"disktype": "sdd"}});
    let manifest = daemon_set("agent", json!({}), selector);
    let why = "daemonset default/agent: no node should run it: nodeSelector wants disktype=sdd, \
               the node has no such label (2 nodes)";
    let directory = tempfile::tempdir()?;
    for (additional, code) in [(None, 0), (Some("--require-pods"), 1)] {
        let arguments = ["sandbox", "--nodes", "2", "--apply", "-", "--exit-when-settled"];
        let arguments: Vec<&str> = arguments.into_iter().chain(additional).collect();
        let output = everynode(directory.path(), &arguments, &manifest.to_string()).await?;
        ensure!(output.code == code && output.stderr.contains(why), "{output:?}");
    }
    Ok(())
}

/// A DaemonSet with these additional fields of its pods' metadata and spec.
fn daemon_set(name: &str, mut metadata: Value, mut spec: Value) -> Value {
    metadata["labels"] = json!({ "app": name });
    spec["containers"] = json!([{"name": "main", "image": "image:1"}]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": spec},
        },
    })
}
