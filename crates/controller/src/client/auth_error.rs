//! Describes errors of credentials without the arguments or the standard output of an exec plugin,
//! which may contain secrets.

use kube::client::AuthError;
use kube::config::AuthInfo;

use super::one_line;

/// Describes an error of credentials.
pub(super) fn describe(credentials: &AuthInfo, error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(error) => describe_auth(credentials, error),
        other => one_line(other),
    }
}

pub(super) fn describe_auth(credentials: &AuthInfo, error: &AuthError) -> String {
    let command = credentials.exec.as_ref().and_then(|exec| exec.command.as_deref());
    let plugin = format!("exec plugin {}", command.unwrap_or("without a command"));
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let output = String::from_utf8_lossy(&out.stderr);
            let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
            let output = if output.is_empty() { output } else { format!(": {output}") };
            format!("{plugin} ended with {}{output}", out.status)
        }
        AuthError::AuthExecStart(error) => format!("{plugin} can't be started: {error}"),
        AuthError::AuthExecParse(_) => format!("{plugin} printed no ExecCredential"),
        AuthError::ExecPluginFailed => {
            format!("{plugin} printed an ExecCredential without a status")
        }
        AuthError::ReadTokenFile(error, path) => format!("token file {}: {error}", path.display()),
        other => one_line(other),
    }
}
