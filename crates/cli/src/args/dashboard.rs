//! The arguments of `everynode dashboard`.

use clap::Args;

use super::ConnectionArguments;

/// The arguments of `everynode dashboard`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("namespace", |namespace| namespace.help("Namespace [default: all namespaces]")))]
pub(crate) struct DashboardArguments {
    /// Port on 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    #[command(flatten)]
    pub connection: ConnectionArguments,
}

const EXAMPLES: &str = "\
Examples:
  everynode dashboard                    all DaemonSets; prints the URL to open
  everynode dashboard -n logging         the DaemonSets of one namespace
  everynode dashboard --port 8080        on a fixed port, as for ssh -L 8080:127.0.0.1:8080

The URL contains a token. Whoever has it acts with your rights as long as the command runs: Ctrl-C
ends it. Only this machine can connect. The pages read what top, watch, explain and history read,
and change nothing before you have confirmed what will be done.

Exit codes:
  0  ended by Ctrl-C or a signal
  1  an error: no right to list DaemonSets, or the port is in use
  2  invalid arguments";
