//! Requests of replicas: whether they arrive, what the server answers, and whether the answer
//! arrives.

use bytes::Bytes;
use everynode_core::api::PULLS_FOR_LABEL;
use everynode_core::plan::Write;
use everynode_sandbox::kinds::NODE;
use everynode_sandbox::status::Status;
use http::Method;
use rand::RngExt;

use super::{ScheduledEvent, World};
use crate::checker::PendingWrite;
use crate::fault::{DELAY_MAX_MS, RequestOutcome, loss};
use crate::machine::CLOCK_TOLERANCE_MS;
use crate::network::{Message, Reply, Request};
use crate::response::{self, Answer, Failure, Refusal};
use crate::serve::{self, Query, Target};

/// One in this number of requests is in the socket when its process is frozen: it is sent when the
/// process continues, whatever the fence says by then.
const IN_SOCKET: u32 = 4;
/// How long a replica counts as new after its first write: longer than any bake time.
const NEW_LEADER_MS: i64 = 70_000;

impl World {
    pub(super) fn receive(&mut self, message: Message) {
        match message {
            Message::Ended { replica, result } => self.replica_ended(replica, &result),
            Message::Request { replica, request, reply } => {
                self.send_request(replica, request, reply);
            }
        }
    }

    /// A replica sends a request.
    fn send_request(&mut self, number: u64, mut request: Request, reply: Reply) {
        if self.replica(number).is_none() {
            // The process has crashed: nobody waits for the answer.
            return;
        }
        let delay = self.faults.delay_ms(&mut self.rng);
        let store = self.cluster.store();
        let answer = self.mutation.and_then(|mutation| mutation.request(store, &mut request));
        let event = match answer {
            None => ScheduledEvent::RequestArrives { replica: number, request, reply },
            Some(body) => {
                let answer = response::of_result(Ok(body));
                ScheduledEvent::AnswerArrives { replica: number, reply, answer }
            }
        };
        self.schedule(delay, event);
    }

    pub(super) fn deliver_answer(&mut self, number: u64, reply: Reply, answer: Answer) {
        if let Some(wait) = self.cut_off_for(number) {
            let event = ScheduledEvent::AnswerArrives { replica: number, reply, answer };
            return self.schedule(wait, event);
        }
        // The receiver no longer exists if its process has ended or it has stopped waiting.
        let _ = reply.send(answer);
    }

    pub(super) fn receive_request(&mut self, number: u64, request: Request, reply: Reply) {
        if let Some(wait) = self.cut_off_for(number) {
            let was_in_socket = self.rng.random_ratio(1, IN_SOCKET);
            if !request.is_write() || was_in_socket {
                let in_socket_since = was_in_socket.then(|| self.leaders_of_role_of(number));
                let request = Request { in_socket_since, ..request };
                let event = ScheduledEvent::RequestArrives { replica: number, request, reply };
                self.schedule(wait, event);
            }
            return;
        }
        let server = self.api_servers.server_of(number, &mut self.rng);
        if let Some(failure) = self.server_failure(server) {
            self.api_servers.reconnect(number, &mut self.rng);
            self.log(|| format!("{} {}: {failure:?}", request.method, request.path));
            return self.fail(number, reply, &failure);
        }
        if let Some(failure) = self.missing_rights(number) {
            self.log(|| format!("{} {}: {failure:?}", request.method, request.path));
            return self.fail(number, reply, &failure);
        }
        let target = Target::parse(&request.path);
        let query = Query::parse(&request.path);
        match target {
            Some(target) if !request.is_write() && target.name.is_empty() => {
                if query.watches {
                    self.open_watch(number, target, &query, reply);
                } else {
                    self.list(number, &request, &target, &query, reply);
                }
            }
            target => self.receive_object_request(number, &request, target.as_ref(), reply),
        }
    }

    fn refusal_by_admission(
        &mut self,
        request: &Request,
        target: Option<&Target>,
    ) -> Option<Refusal> {
        let refusal =
            self.admission.as_ref()?.refusal(request, target?, self.now, self.cluster.store())?;
        self.checks.record_fault("admission");
        Some(refusal)
    }

    /// Receives a request for a single object.
    fn receive_object_request(
        &mut self,
        number: u64,
        request: &Request,
        target: Option<&Target>,
        reply: Reply,
    ) {
        let outcome = match request.is_write() {
            true => self.faults.draw_outcome(&mut self.rng),
            false => match self.draw_read_failure(target) {
                Some(failure) => {
                    self.checks.record_fault("read failed");
                    return self.fail(number, reply, &failure);
                }
                None => RequestOutcome::Served,
            },
        };
        let combined = match is_counted(request, target) {
            true => self.inject_before_write(request),
            false => None,
        };
        let outcome = combined.map_or(outcome, |fault| self.failed_outcome(fault.write));
        let refusal = self.refusal_by_admission(request, target);
        let outcome = refusal.map_or(outcome, RequestOutcome::Refused);
        if let Some(fault) = fault_name(&outcome) {
            self.checks.record_fault(fault);
        }
        let failure = match outcome {
            RequestOutcome::Served => None,
            RequestOutcome::Refused(ref refusal) | RequestOutcome::Committed5xx(ref refusal) => {
                Some(Failure::Refused(refusal.clone()))
            }
            RequestOutcome::Lost(ref failure) | RequestOutcome::AnswerLost(ref failure) => {
                Some(failure.clone())
            }
            RequestOutcome::Delayed(_) => Some(loss(&mut self.rng)),
        };
        let is_served = matches!(
            outcome,
            RequestOutcome::Served
                | RequestOutcome::AnswerLost(_)
                | RequestOutcome::Committed5xx(_)
        );
        let result = is_served.then(|| self.serve(number, request, target, false));
        self.log(|| {
            let result = match &result {
                None => "not served".to_owned(),
                Some(Ok(_)) => "done".to_owned(),
                Some(Err(status)) => status.to_string(),
            };
            format!("replica {number}: {} {}: {result} ({outcome:?})", request.method, request.path)
        });
        if let RequestOutcome::Delayed(late) = outcome {
            let event =
                ScheduledEvent::LateRequestArrives { replica: number, request: request.clone() };
            self.schedule(late, event);
        }
        let mut failure = match (failure, &result) {
            // The server refuses the request by itself.
            (Some(Failure::Refused(_)), Some(Err(_))) => None,
            (failure, _) => failure,
        };
        if let Some(Ok(_)) = &result
            && is_counted(request, target)
        {
            failure = self.count_write(request).or(failure);
        }
        if let Some(fault) = combined {
            self.inject_read_failures(fault);
        }
        match (failure, result) {
            (Some(failure), _) => self.fail(number, reply, &failure),
            (None, Some(result)) => self.answer(number, reply, response::of_result(result)),
            (None, None) => unreachable!("a request that is not served fails"),
        }
    }

    /// Counts a write that took effect. Returns the failure of its answer if a fault is injected.
    fn count_write(&mut self, request: &Request) -> Option<Failure> {
        self.writes += 1;
        if !self.is_repeated_by_each_leader(request) {
            self.last_write_at = self.now;
        }
        if let Some((role, ds)) = request.view.as_ref().map(|view| (view.role, &view.daemon_set)) {
            let nodes = self.cluster.store().count(&NODE);
            let violation = self.write_rates.count((role, ds), self.now, nodes);
            self.report_violation(violation);
        }
        let (_, injected_fault) =
            self.injected_fault.take_if(|(write, _)| *write == self.writes)?;
        self.inject_after_write(injected_fault)
    }

    /// True if this is a write that each new leader repeats, so that it has no end while leaders
    /// come and go. One tells in a status what its clock shows, which is wrong, or was when a
    /// record was written: whether a bake time is over, or a pod is available. One tells which
    /// nodes have had no available pod for a minute, once it has seen that itself (G32, G41). One
    /// lets nodes pull images, because kubelets of the sandbox do not state which ones they have
    /// (G55).
    fn is_repeated_by_each_leader(&mut self, request: &Request) -> bool {
        let Some(view) = &request.view else { return false };
        let known = self.writers.get(&view.role).copied();
        let (replica, first_at) = known.unwrap_or((view.replica, self.now));
        let first_at = if replica == view.replica { first_at } else { self.now };
        self.writers.insert(view.role, (view.replica, first_at));
        let is_wrong = self.setting.wrong_clocks
            || (view.wall_clock.0 - view.planned_at.0).abs() > CLOCK_TOLERANCE_MS;
        let is_new = self.now.0 - first_at.0 < NEW_LEADER_MS;
        let path = request.path.split('?').next().unwrap_or_default();
        let body = String::from_utf8_lossy(&request.body);
        let is_about_nodes = body.contains("nodes done") || body.contains("nodes go back");
        let is_of_puller = |write: &Write| match write {
            Write::PullImages(_) => {
                request.method == Method::POST && body.contains(PULLS_FOR_LABEL)
            }
            Write::DeletePuller(puller) => path.ends_with(&format!("/{}", puller.name)),
            _ => false,
        };
        let is_status = path.ends_with("/status");
        is_new
            && (is_status && (is_wrong || is_about_nodes) || view.writes.iter().any(is_of_puller))
    }

    /// Draws the failure of a GET, if it fails.
    fn draw_read_failure(&mut self, target: Option<&Target>) -> Option<Failure> {
        let is_lease = target.is_some_and(|target| target.kind.kind == "Lease");
        if !is_lease && std::mem::take(&mut self.fails_next_get) {
            return Some(Failure::ConnectionLost);
        }
        self.faults.draw_read_failure(&mut self.rng)
    }

    /// Schedules an answer.
    pub(super) fn answer(&mut self, number: u64, reply: Reply, answer: Answer) {
        let delay = self.faults.delay_ms(&mut self.rng);
        self.schedule(delay, ScheduledEvent::AnswerArrives { replica: number, reply, answer });
    }

    /// Schedules the failure of a request.
    pub(super) fn fail(&mut self, number: u64, reply: Reply, failure: &Failure) {
        match failure.answer() {
            Some(answer) => {
                let delay = self.faults.delay_ms(&mut self.rng);
                let delay = match failure {
                    Failure::ConnectionLost if self.faults.delay > 0 => {
                        delay + self.rng.random_range(0..DELAY_MAX_MS / 2)
                    }
                    _ => delay,
                };
                let event = ScheduledEvent::AnswerArrives { replica: number, reply, answer };
                self.schedule(delay, event);
            }
            // Until the replica gives up.
            None => drop(reply),
        }
    }

    pub(super) fn serve_late(&mut self, number: u64, request: &Request) {
        let target = Target::parse(&request.path);
        let result = self.serve(number, request, target.as_ref(), true);
        self.log(|| {
            let result = result.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
            format!("{} {} takes effect late: {result}", request.method, request.path)
        });
        if result.is_ok() && is_counted(request, target.as_ref()) {
            self.writes += 1;
            self.last_write_at = self.now;
        }
    }

    fn serve(
        &mut self,
        number: u64,
        request: &Request,
        target: Option<&Target>,
        arrives_late: bool,
    ) -> Result<Bytes, Status> {
        let now = self.now;
        let mut body = serde_json::from_slice(&request.body).unwrap_or_default();
        if is_counted(request, target)
            && let Some(target) = target
        {
            let store = self.cluster.store();
            let body = &body;
            let arrives_late = arrives_late || request.in_socket_since.is_some();
            let leaders = self.leaders_of_role_of(number);
            let is_of_former_leader = request.in_socket_since.is_some_and(|since| since != leaders);
            let write = PendingWrite {
                store,
                request,
                target,
                body,
                now,
                arrives_late,
                is_of_former_leader,
                has_image: &|node, image| self.cluster.has_image(node, image),
            };
            let violation = self.checks.check_write(&write);
            self.report_violation(violation);
        }
        if let Some((admission, target)) = self.admission.as_ref().zip(target)
            && admission.change(request, target, now, &mut body)
        {
            self.checks.record_fault("pod changed by admission");
        }
        let cache = self.cache_of(number);
        let result = serve::serve(self.cluster.registry_mut(), cache, request, target, body, now);
        self.note_leaders();
        result
    }
}

/// The name in coverage of the fault of a write; `None` if there is none.
fn fault_name(outcome: &RequestOutcome) -> Option<&'static str> {
    match outcome {
        RequestOutcome::Served => None,
        RequestOutcome::Refused(_) => Some("write refused"),
        RequestOutcome::Lost(_) => Some("write lost"),
        RequestOutcome::AnswerLost(_) => Some("answer lost"),
        RequestOutcome::Committed5xx(_) => Some("5xx after the write"),
        RequestOutcome::Delayed(_) => Some("write took effect late"),
    }
}

/// True if this is a write of a plan. Renewals of the lease are no such writes, nor are dry runs.
fn is_counted(request: &Request, target: Option<&Target>) -> bool {
    request.is_write()
        && target.is_some_and(|target| target.kind.kind != "Lease" && !target.is_dry_run)
}
