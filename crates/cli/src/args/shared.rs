//! Groups of arguments that several commands share.

use std::path::PathBuf;

use clap::builder::PossibleValue;
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

/// The format of the output of a command that can write a report.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ReportArguments {
    /// Output format [default: text]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<ReportFormat>,
    #[command(flatten)]
    pub color: ColorArguments,
}

/// The option for colours in the output.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ColorArguments {
    /// When to use colours; auto honors NO_COLOR and TERM=dumb
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWhen,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Text with more columns
    Wide,
    /// A document for scripts
    Document(DocumentFormat),
    /// Only names, for scripts
    Name,
}

impl ValueEnum for OutputFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Wide,
            Self::Document(DocumentFormat::Json),
            Self::Document(DocumentFormat::Yaml),
            Self::Name,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Wide => Some(PossibleValue::new("wide").help("Text with more columns")),
            Self::Document(format) => format.to_possible_value(),
            Self::Name => Some(PossibleValue::new("name").help("Only names, for scripts")),
        }
    }
}

/// The format of the output of a command that can write a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// A page of HTML that needs no other file
    Html,
    /// As other commands.
    Plain(OutputFormat),
}

impl ValueEnum for ReportFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Plain(OutputFormat::Wide),
            Self::Plain(OutputFormat::Document(DocumentFormat::Json)),
            Self::Plain(OutputFormat::Document(DocumentFormat::Yaml)),
            Self::Plain(OutputFormat::Name),
            Self::Html,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Html => Some(
                PossibleValue::new("html").help("A page that needs no other file, for a ticket"),
            ),
            Self::Plain(format) => format.to_possible_value(),
        }
    }
}

/// The format of a document for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    Json,
    Yaml,
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
