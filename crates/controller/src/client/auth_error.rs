//! Describes errors of credentials.

use kube::client::AuthError;

use super::one_line;

/// Describes an error of credentials.
pub(super) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(error) => describe_auth(error),
        other => one_line(other),
    }
}

pub(super) fn describe_auth(error: &AuthError) -> String {
    match error {
        AuthError::ReadTokenFile(error, path) => format!("token file {}: {error}", path.display()),
        AuthError::AuthExecRun { out, .. } => {
            // Its own text has the arguments and the output of the command.
            format!("the command of the auth provider ended with {}", out.status)
        }
        other => one_line(other),
    }
}
