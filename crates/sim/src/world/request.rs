//! Requests of replicas: whether they arrive, what the server answers, and whether the answer
//! arrives.

use everynode_controller::api::Error;
use rand::RngExt;

use super::{Due, Strike, World};
use crate::checker::Before;
use crate::fault::{DELAY_MAX_MS, Fate, server_error};
use crate::network::{Answer, Reply, Request};
use crate::serve::{self, Target};

impl World {
    pub(super) fn arrive(&mut self, term: u64, request: Request, reply: Reply) {
        if let Some(error) = self.is_refused(term) {
            let delay = self.faults.delay_ms(&mut self.rng);
            self.say(|| format!("{} {}: {error}", request.method, request.path));
            return self.schedule(delay, Due::Answer { term, reply, answer: Err(error) });
        }
        let fate = match request.is_write() {
            true => self.faults.fate(&mut self.rng),
            false => self.faults.failure_of_read(&mut self.rng).map_or(Fate::Served, Fate::Refused),
        };
        let next = (self.writes + 1, Strike::Impostor);
        if request.is_write() && self.strike.take_if(|strike| *strike == next).is_some() {
            self.put_impostor(&request);
        }
        let lost = || Err(Error::Transport("no answer".to_owned()));
        let mut answer = match fate {
            Fate::Served | Fate::AnswerLost | Fate::Committed5xx(_) => self.serve(&request, false),
            Fate::Refused(ref error) => Err(error.clone()),
            Fate::Lost | Fate::LandsLate(_) => lost(),
        };
        let told = answer.as_ref().map_or_else(|error| error.to_string(), |_| "done".to_owned());
        self.say(|| format!("{} {}: {told} ({fate:?})", request.method, request.path));
        let mut delay = self.faults.delay_ms(&mut self.rng);
        let landed = request.is_write() && answer.is_ok();
        match fate {
            Fate::AnswerLost => {
                answer = lost();
                delay += self.rng.random_range(0..DELAY_MAX_MS / 2);
            }
            Fate::Committed5xx(error) => answer = answer.and(Err(error)),
            Fate::LandsLate(late) => self.schedule(late, Due::Land { request }),
            Fate::Served | Fate::Refused(_) | Fate::Lost => {}
        }
        if landed {
            self.writes += 1;
            self.last_write_at = self.now;
            if let Some((_, strike)) = self.strike.take_if(|(write, _)| *write == self.writes) {
                match strike {
                    Strike::LoseAnswer => answer = lost(),
                    Strike::Committed5xx => answer = Err(server_error(&mut self.rng)),
                    Strike::Crash
                    | Strike::Depose
                    | Strike::Freeze
                    | Strike::Hide
                    | Strike::Impostor => {}
                }
                self.hit(strike);
            }
        }
        self.schedule(delay, Due::Answer { term, reply, answer });
    }

    pub(super) fn land(&mut self, request: &Request) {
        let answer = self.serve(request, true);
        let told = answer.as_ref().map_or_else(|error| error.to_string(), |_| "done".to_owned());
        self.say(|| format!("{} {} lands late: {told}", request.method, request.path));
        if answer.is_ok() {
            self.writes += 1;
            self.last_write_at = self.now;
        }
    }

    fn serve(&mut self, request: &Request, is_late: bool) -> Answer {
        let (target, now) = (Target::of(&request.path), self.now);
        let body = serde_json::from_slice(&request.body).unwrap_or_default();
        if request.is_write()
            && let Some(target) = &target
        {
            let store = self.cluster.store();
            let before = Before { store, request, target, body: &body, now, is_late };
            let violation = self.checks.before_write(&before);
            self.fail(violation);
        }
        serve::serve(self.cluster.store_mut(), request, target.as_ref(), body, now)
    }

    fn hit(&mut self, strike: Strike) {
        self.say(|| format!("strike: {strike:?}"));
        match strike {
            Strike::Crash => self.crash(),
            Strike::Depose => self.depose(),
            Strike::LoseAnswer | Strike::Committed5xx | Strike::Impostor => {}
            Strike::Freeze => {
                self.frozen = true;
                self.schedule(20_000, Due::Thaw);
            }
            Strike::Hide => {
                self.frozen = true;
                self.schedule(2_000, Due::Thaw);
                self.settle();
                let version = self.cluster.store().resource_version();
                self.cluster.store_mut().compact(version);
            }
        }
    }
}
