//! `everynode run`: the controller against a cluster, until a signal ends it.

use everynode_controller::lease::Timing;
use everynode_controller::{LeaderElection, Options, ScheduleBy};

use crate::args::{self, LeaderElectionArguments, LogLevel, RunArguments};
use crate::{log, signal};

pub async fn execute(arguments: RunArguments) -> anyhow::Result<()> {
    log::start(&arguments.log, LogLevel::Info);
    let stop = signal::shutdown()?;
    Ok(everynode_controller::run(options(arguments), stop).await?)
}

fn options(arguments: RunArguments) -> Options {
    let election = arguments.leader_election;
    let defaults = Options::default();
    Options {
        kubeconfig: arguments.kubeconfig,
        context: arguments.context,
        namespace: arguments.namespace,
        leader_election: election.leader_elect.then(|| leader_election(election)),
        burst_replicas: arguments.burst_replicas,
        schedule_by: match arguments.schedule_by {
            args::ScheduleBy::Scheduler => ScheduleBy::Scheduler,
            args::ScheduleBy::Controller => ScheduleBy::Controller,
        },
        kube_api_qps: arguments.kube_api_qps,
        kube_api_burst: arguments.kube_api_burst.unwrap_or(defaults.kube_api_burst),
        http: arguments.http,
    }
}

fn leader_election(arguments: LeaderElectionArguments) -> LeaderElection {
    LeaderElection {
        namespace: arguments.leader_elect_resource_namespace,
        name: arguments.leader_elect_resource_name,
        timing: Timing {
            lease_duration: arguments.leader_elect_lease_duration,
            renew_deadline: arguments.leader_elect_renew_deadline,
            retry_period: arguments.leader_elect_retry_period,
        },
    }
}
