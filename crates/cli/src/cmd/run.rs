//! `everynode run`: runs the controller against a cluster until a signal.

use std::process::ExitCode;

use everynode_controller::client::Pings;
use everynode_controller::lease::Timing;
use everynode_controller::{LeaderElection, Mode, Options, ScheduleBy, UnreachableNodes};
use everynode_core::api::MayOverride;

use crate::args::{self, LeaderElectionArguments, LogFormat, LogLevel, RunArguments};
use crate::{log, panic, signal};

/// Executes the command. With `--log-format json`, an error is a line of the log instead of text.
pub(crate) async fn execute(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    log::start(&arguments.log, LogLevel::Info);
    panic::install_hook();
    let format = arguments.log.log_format;
    let stop = signal::shutdown()?;
    match (everynode_controller::run(options(arguments), stop).await, format) {
        (Ok(()), LogFormat::Text | LogFormat::Json) => Ok(ExitCode::SUCCESS),
        (Err(error), LogFormat::Text) => Err(error.into()),
        (Err(error), LogFormat::Json) => {
            tracing::error!("{}", crate::one_line(&crate::causes(&error.into())));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn options(arguments: RunArguments) -> Options {
    let election = arguments.leader_election;
    let mode = match (arguments.beside, arguments.ignore_policies) {
        (true, _) => Mode::Beside { rolls_back: arguments.roll_back },
        (false, true) => Mode::Unguarded,
        (false, false) => Mode::Controller,
    };
    let defaults = Options::default();
    Options {
        kubeconfig: arguments.kubeconfig,
        context: arguments.context,
        mode,
        namespace: arguments.namespace,
        leader_election: election.leader_elect.then(|| leader_election(election, mode)),
        burst_replicas: arguments.burst_replicas,
        schedule_by: match arguments.schedule_by {
            args::ScheduleBy::Scheduler => ScheduleBy::Scheduler,
            args::ScheduleBy::Controller => ScheduleBy::Controller,
        },
        unreachable_nodes: match arguments.unreachable_nodes {
            args::UnreachableNodes::Skip => UnreachableNodes::Skip,
            args::UnreachableNodes::Wait => UnreachableNodes::Wait,
        },
        may_override: match arguments.overrides_may.contains(&args::OverriddenField::Image) {
            true => MayOverride::All,
            false => MayOverride::AllButImage,
        },
        namespace_node_selectors: arguments.namespace_node_selectors,
        check_hosts: arguments.check_hosts,
        check_credentials: arguments.check_credentials,
        kube_api_qps: arguments.kube_api_qps,
        kube_api_burst: arguments.kube_api_burst.unwrap_or(defaults.kube_api_burst),
        http: arguments.http,
        pings: Pings {
            interval: arguments.pings.http2_ping_interval,
            timeout: arguments.pings.http2_ping_timeout,
            ..Pings::default()
        },
    }
}

fn leader_election(arguments: LeaderElectionArguments, mode: Mode) -> LeaderElection {
    LeaderElection {
        namespace: arguments.leader_elect_resource_namespace,
        name: arguments
            .leader_elect_resource_name
            .unwrap_or_else(|| everynode_controller::lease_name(mode).to_owned()),
        timing: Timing {
            lease_duration: arguments.leader_elect_lease_duration,
            renew_deadline: arguments.leader_elect_renew_deadline,
            retry_period: arguments.leader_elect_retry_period,
        },
    }
}
