//! Groups of arguments that several commands have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Which cluster, and where in it: as kubectl's options of the same names.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ConnectionArguments {
    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// User to impersonate, to see what they may
    #[arg(long = "as", value_name = "USER")]
    pub impersonate: Option<String>,
}

/// What comes out, and how.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArguments {
    /// Form of the output [default: text for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<OutputFormat>,
    #[command(flatten)]
    pub color: ColorArguments,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct ColorArguments {
    /// When to use colours; NO_COLOR and TERM=dumb are heeded, too
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWhen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// More columns
    Wide,
    Json,
    Yaml,
    /// Nothing but names, for scripts
    Name,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Args)]
pub struct LogArguments {
    /// Least important messages that are logged [default: info for run, warn for sandbox]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Form of log lines
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}
