//! Runs exec plugins. kube would keep whatever they print, and panics on a token that no header can
//! have. No message has their arguments, their environment or their standard output, which may
//! contain secrets.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::thread;

use base64::prelude::{BASE64_STANDARD, Engine};
use jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;

use super::kubeconfig::check_token;

/// Maximum size of what a plugin prints.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of the part of its standard error that a message has.
const ERROR_BYTES_MAX: u64 = 4 << 10;

/// The document that a plugin prints.
#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Puts the credentials that a plugin prints in the place of the plugin, unless others precede it.
/// Waits for it. Returns when they expire, if it says so.
///
/// # Errors
/// A sentence that names the plugin.
pub(super) fn replace(user: &mut AuthInfo) -> Result<Option<Timestamp>, String> {
    let has_password = user.username.is_some() && user.password.is_some();
    let has_token = user.token.is_some() || user.token_file.is_some();
    if user.auth_provider.is_some() || has_password || has_token {
        return Ok(None);
    }
    let Some(exec) = user.exec.take() else { return Ok(None) };
    let command = exec.command.as_deref().unwrap_or("without a command");
    let failed = |cause: String| format!("exec plugin {command} {cause}");
    let status = run(&exec).map_err(failed)?;
    let expires = status.expiration_timestamp.map(|time| time.parse()).transpose();
    let expires =
        expires.map_err(|_| failed("printed an expirationTimestamp that is no time".to_owned()))?;
    match (status.client_certificate_data, status.client_key_data, status.token) {
        (Some(certificate), Some(key), _) => {
            user.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
            user.client_key_data = Some(BASE64_STANDARD.encode(key).into());
        }
        (_, _, Some(token)) => {
            check_token("token", &token).map_err(|cause| failed(format!("printed a {cause}")))?;
            user.token = Some(token.into());
        }
        _ => {}
    }
    Ok(expires)
}

fn run(exec: &ExecConfig) -> Result<Status, String> {
    let mut child = command(exec)?.spawn().map_err(|error| format!("can't be started: {error}"))?;
    let errors = child.stderr.take().map(|errors| thread::spawn(move || beginning(errors)));
    let mut output = Vec::new();
    let stdout = child.stdout.take().ok_or("has no standard output")?;
    let read = stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output);
    let read = read.map_err(|error| format!("can't be read: {error}"))?;
    if read as u64 > OUTPUT_BYTES_MAX {
        return Err(stop(child));
    }
    let status = child.wait().map_err(|error| format!("can't be waited for: {error}"))?;
    if !status.success() {
        let errors = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
        let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
        let errors = if errors.is_empty() { errors } else { format!(": {errors}") };
        return Err(format!("ended with {status}{errors}"));
    }
    let printed: Result<ExecCredential, _> = serde_saphyr::from_slice(&output);
    let printed = printed.map_err(|_| "printed no ExecCredential")?;
    printed.status.ok_or_else(|| "printed an ExecCredential without a status".to_owned())
}

/// Ends a plugin that prints too much. It may have ended already.
fn stop(mut child: Child) -> String {
    let _ = child.kill();
    let _ = child.wait();
    format!("printed more than {} MiB", OUTPUT_BYTES_MAX >> 20)
}

fn command(exec: &ExecConfig) -> Result<Command, String> {
    let is_interactive = exec.interactive_mode != Some(ExecInteractiveMode::Never);
    let mut command = Command::new(exec.command.as_deref().ok_or("can't be started")?);
    command.args(exec.args.iter().flatten()).stdout(Stdio::piped());
    match is_interactive {
        true => command.stdin(Stdio::inherit()).stderr(Stdio::inherit()),
        false => command.stdin(Stdio::null()).stderr(Stdio::piped()),
    };
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let cluster = exec.cluster.as_ref().filter(|_| exec.provide_cluster_info);
    if exec.provide_cluster_info && cluster.is_none() {
        return Err("needs the cluster, which is not known".to_owned());
    }
    let info = json!({
        "kind": "ExecCredential", "apiVersion": exec.api_version,
        "spec": {"interactive": is_interactive, "cluster": cluster},
    });
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    for name in exec.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    Ok(command)
}

/// The beginning of a text. All of it is read, so that its writer goes on.
fn beginning(mut text: impl Read) -> String {
    let mut beginning = Vec::new();
    // What can't be read is not stated.
    let _ = text.by_ref().take(ERROR_BYTES_MAX).read_to_end(&mut beginning);
    let _ = io::copy(&mut text, &mut io::sink());
    String::from_utf8_lossy(&beginning).into_owned()
}
