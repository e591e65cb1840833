//! Requests of replicas: whether they arrive, what the server answers, and whether the answer
//! arrives.

use everynode_controller::api::Error;
use rand::RngExt;

use super::{InjectedFault, ScheduledEvent, World};
use crate::checker::PendingWrite;
use crate::fault::{DELAY_MAX_MS, RequestOutcome, server_error};
use crate::network::{Answer, Reply, Request};
use crate::serve::{self, Target};

impl World {
    pub(super) fn receive_request(&mut self, run: u64, request: Request, reply: Reply) {
        if let Some(error) = self.server_refusal(run) {
            let delay = self.faults.delay_ms(&mut self.rng);
            self.log(|| format!("{} {}: {error}", request.method, request.path));
            return self
                .schedule(delay, ScheduledEvent::AnswerArrives { run, reply, answer: Err(error) });
        }
        let outcome = match request.is_write() {
            true => self.faults.draw_outcome(&mut self.rng),
            false => self
                .faults
                .draw_read_failure(&mut self.rng)
                .map_or(RequestOutcome::Served, RequestOutcome::Refused),
        };
        let next = (self.writes + 1, InjectedFault::TakeName);
        if request.is_write() && self.injected_fault.take_if(|fault| *fault == next).is_some() {
            self.put_foreign_object(&request);
        }
        if let Some(fault) = fault_name(&request, &outcome) {
            self.checks.record_fault(fault);
        }
        let lost = || Err(Error::Transport("no answer".to_owned()));
        let mut answer = match outcome {
            RequestOutcome::Served
            | RequestOutcome::AnswerLost
            | RequestOutcome::Committed5xx(_) => self.serve(&request, false),
            RequestOutcome::Refused(ref error) => Err(error.clone()),
            RequestOutcome::Lost | RequestOutcome::Delayed(_) => lost(),
        };
        let result = answer.as_ref().map_or_else(|error| error.to_string(), |_| "done".to_owned());
        self.log(|| format!("{} {}: {result} ({outcome:?})", request.method, request.path));
        let mut delay = self.faults.delay_ms(&mut self.rng);
        let has_written = request.is_write() && answer.is_ok();
        match outcome {
            RequestOutcome::AnswerLost => {
                answer = lost();
                delay += self.rng.random_range(0..DELAY_MAX_MS / 2);
            }
            RequestOutcome::Committed5xx(error) => answer = answer.and(Err(error)),
            RequestOutcome::Delayed(late) => {
                self.schedule(late, ScheduledEvent::LateRequestArrives { request })
            }
            RequestOutcome::Served | RequestOutcome::Refused(_) | RequestOutcome::Lost => {}
        }
        if has_written {
            self.writes += 1;
            self.last_write_at = self.now;
            if let Some((_, injected_fault)) =
                self.injected_fault.take_if(|(write, _)| *write == self.writes)
            {
                match injected_fault {
                    InjectedFault::LoseAnswer => answer = lost(),
                    InjectedFault::Committed5xx => answer = Err(server_error(&mut self.rng)),
                    InjectedFault::CrashLeader
                    | InjectedFault::FenceLeader
                    | InjectedFault::StallWatches
                    | InjectedFault::CompactLog
                    | InjectedFault::TakeName => {}
                }
                self.inject(injected_fault);
            }
        }
        self.schedule(delay, ScheduledEvent::AnswerArrives { run, reply, answer });
    }

    pub(super) fn serve_late(&mut self, request: &Request) {
        let answer = self.serve(request, true);
        let result = answer.as_ref().map_or_else(|error| error.to_string(), |_| "done".to_owned());
        self.log(|| format!("{} {} takes effect late: {result}", request.method, request.path));
        if answer.is_ok() {
            self.writes += 1;
            self.last_write_at = self.now;
        }
    }

    fn serve(&mut self, request: &Request, arrives_late: bool) -> Answer {
        let (target, now) = (Target::parse(&request.path), self.now);
        let body = serde_json::from_slice(&request.body).unwrap_or_default();
        if request.is_write()
            && let Some(target) = &target
        {
            let store = self.cluster.store();
            let body = &body;
            let write = PendingWrite { store, request, target, body, now, arrives_late };
            let violation = self.checks.check_write(&write);
            self.report_violation(violation);
        }
        serve::serve(self.cluster.registry_mut(), request, target.as_ref(), body, now)
    }

    fn inject(&mut self, injected_fault: InjectedFault) {
        self.log(|| format!("injected fault: {injected_fault:?}"));
        match injected_fault {
            InjectedFault::CrashLeader => self.crash_leader(),
            InjectedFault::FenceLeader => self.fence_leader(),
            InjectedFault::LoseAnswer | InjectedFault::Committed5xx | InjectedFault::TakeName => {}
            InjectedFault::StallWatches => {
                self.watches_stalled = true;
                self.schedule(20_000, ScheduledEvent::ResumeWatches);
            }
            InjectedFault::CompactLog => {
                self.watches_stalled = true;
                self.schedule(2_000, ScheduledEvent::ResumeWatches);
                self.settle();
                let version = self.cluster.store().resource_version();
                self.cluster.registry_mut().store_mut().compact(version);
            }
        }
    }
}

/// What coverage calls the fault of a request; `None` if there is none.
fn fault_name(request: &Request, outcome: &RequestOutcome) -> Option<&'static str> {
    match outcome {
        RequestOutcome::Served => None,
        _ if !request.is_write() => Some("read failed"),
        RequestOutcome::Refused(_) => Some("write refused"),
        RequestOutcome::Lost => Some("write lost"),
        RequestOutcome::AnswerLost => Some("answer lost"),
        RequestOutcome::Committed5xx(_) => Some("5xx after the write"),
        RequestOutcome::Delayed(_) => Some("write took effect late"),
    }
}
