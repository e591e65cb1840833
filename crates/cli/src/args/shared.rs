//! Groups of arguments that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The cluster and the namespace. The options have the same meaning as kubectl's.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ConnectionArguments {
    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// User to impersonate
    #[arg(long = "as", value_name = "USER")]
    pub impersonate: Option<String>,
}

/// The format of the output.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArguments {
    /// Output format [default: text]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
    #[command(flatten)]
    pub color: ColorArguments,
}

/// Whether the output has colours.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ColorArguments {
    /// When to use colours; auto honors NO_COLOR and TERM=dumb
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWhen,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text with more columns
    Wide,
    Json,
    Yaml,
    /// Only names, for scripts
    Name,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal
    #[default]
    Auto,
    Always,
    Never,
}

/// Logging of long-running commands.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// Lowest severity of logged messages [default: info for run, warn for sandbox]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Format of log lines
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

/// The lowest severity that is logged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}
