//! Faults that an exhaustive test injects at one write.

use everynode_core::api::Timestamp;

use super::{ScheduledEvent, World};
use crate::fault::{RequestOutcome, loss, server_error};
use crate::injected_fault::{CombinedFault, InjectedFault, WatchFailure, WriteFailure};
use crate::network::Request;
use crate::response::{Failure, Refusal};

/// Another replica leads before the process continues.
const CUT_OFF_MS: i64 = 25_000;
const STALL_MS: i64 = 20_000;
const GAP_MS: i64 = 2_000;
/// All watches are back after this time.
const REPEAT_FOR_MS: i64 = 10_000;
const LATE_ARRIVAL_MS: i64 = 5_000;

impl World {
    /// Injects the fault of the next write, if it is one that starts before the write. Returns what
    /// is left of it.
    pub(super) fn inject_before_write(&mut self, request: &Request) -> Option<CombinedFault> {
        let next = self.writes + 1;
        let fault = self.injected_fault.take_if(|(write, fault)| {
            let is_before = matches!(fault, InjectedFault::TakeName | InjectedFault::Combined(_));
            *write == next && is_before
        });
        match fault?.1 {
            InjectedFault::Combined(combined) => {
                self.log(|| format!("injected fault: {combined:?}"));
                Some(combined)
            }
            InjectedFault::TakeName
            | InjectedFault::CrashLeader
            | InjectedFault::FenceLeader
            | InjectedFault::HandOver
            | InjectedFault::StallWatches
            | InjectedFault::CompactLog
            | InjectedFault::LoseAnswer
            | InjectedFault::Committed5xx => {
                self.put_foreign_object(request);
                None
            }
        }
    }

    /// Returns the outcome of a write with this failure.
    pub(super) fn failed_outcome(&mut self, failure: WriteFailure) -> RequestOutcome {
        let rng = &mut self.rng;
        match failure {
            WriteFailure::Conflict => {
                let refusal = Refusal::new(409, "Conflict", "simulated Conflict");
                RequestOutcome::Refused(refusal)
            }
            WriteFailure::InternalError => {
                let refusal = Refusal::new(500, "InternalError", "simulated InternalError");
                RequestOutcome::Refused(refusal)
            }
            WriteFailure::Lost => RequestOutcome::Lost(loss(rng)),
            WriteFailure::Committed5xx => RequestOutcome::Committed5xx(server_error(rng)),
            WriteFailure::AnswerLost => RequestOutcome::AnswerLost(loss(rng)),
            WriteFailure::LandsLate => RequestOutcome::Delayed(LATE_ARRIVAL_MS),
        }
    }

    /// Lets reads after a write fail.
    pub(super) fn inject_read_failures(&mut self, fault: CombinedFault) {
        self.fails_next_get |= fault.fails_next_get;
        match fault.watches {
            None => {}
            Some(WatchFailure::Stalled) => self.stall_watches(STALL_MS),
            Some(WatchFailure::Gap) => self.compact_log(),
            Some(WatchFailure::Repeated) => {
                self.break_watches(|_| true);
                self.repeat_until = Timestamp(self.now.0 + REPEAT_FOR_MS);
            }
            Some(WatchFailure::OlderServer) => {
                if let Some(leader) = self.leader() {
                    self.connect_to_older(leader);
                }
            }
        }
    }

    /// Injects a fault after a write took effect. Returns the failure of the answer.
    pub(super) fn inject_after_write(&mut self, fault: InjectedFault) -> Option<Failure> {
        self.log(|| format!("injected fault: {fault:?}"));
        match fault {
            InjectedFault::CrashLeader => self.crash_leader(),
            InjectedFault::FenceLeader => self.cut_off_leader(CUT_OFF_MS),
            InjectedFault::HandOver => self.hand_over(),
            InjectedFault::StallWatches => self.stall_watches(STALL_MS),
            InjectedFault::CompactLog => self.compact_log(),
            InjectedFault::LoseAnswer => return Some(Failure::ConnectionLost),
            InjectedFault::Committed5xx => {
                return Some(Failure::Refused(server_error(&mut self.rng)));
            }
            InjectedFault::TakeName | InjectedFault::Combined(_) => {}
        }
        None
    }

    fn hand_over(&mut self) {
        let leader = self.terminate_leader();
        for number in self.replica_numbers() {
            if Some(number) != leader {
                self.connect_to_older(number);
            }
        }
    }

    fn connect_to_older(&mut self, replica: u64) {
        self.break_watches(|watch| watch.replica == replica);
        let (now, store) = (self.now, self.cluster.store());
        let wait = self.api_servers.connect_to_older(replica, now, store);
        self.schedule(wait, ScheduledEvent::AdvanceCaches);
    }

    fn stall_watches(&mut self, lasts_ms: i64) {
        self.watches_stalled = true;
        self.schedule(lasts_ms, ScheduledEvent::ResumeWatches);
    }

    fn compact_log(&mut self) {
        self.stall_watches(GAP_MS);
        self.settle();
        let version = self.cluster.store().resource_version();
        self.cluster.registry_mut().store_mut().compact(version);
    }
}
