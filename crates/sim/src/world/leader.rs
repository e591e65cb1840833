//! Which replica leads: elections, crashes and fenced leaders.

use everynode_core::daemon_set::Config;
use rand::RngExt;

use super::{BOOKMARK_MS, Due, INTERREGNUM_MS, World};
use crate::term::{Setup, Term};

impl World {
    /// Makes the first replica lead.
    pub fn elect(&mut self) {
        self.land_all();
        self.term_number += 1;
        let setup = Setup {
            skew_ms: self.rng.random_range(-900..=900),
            streams: self.rng.random_ratio(1, 2),
            config: Config {
                burst_replicas: self.setting.burst_replicas as usize,
                ..Config::default()
            },
            mutation: self.mutation,
            seed: self.setting.seed,
        };
        let number = self.term_number;
        self.terms.push(Term::new(number, setup));
        self.schedule(BOOKMARK_MS, Due::Bookmark { term: number });
        self.say(|| format!("replica {number} leads, clock {:+} ms", setup.skew_ms));
        self.settle();
    }

    /// The leader is gone in an instant; what it has sent may still land.
    pub fn crash(&mut self) {
        if self.terms.iter().all(|term| term.network.is_fenced()) {
            return;
        }
        self.say(|| "the leader crashes".to_owned());
        self.terms.clear();
        self.schedule(INTERREGNUM_MS, Due::Elect);
    }

    /// The leader can't renew its lease: it stops writing, and goes on deciding until it notices.
    pub fn depose(&mut self) {
        let Some(term) = self.terms.last().filter(|term| !term.network.is_fenced()) else { return };
        term.network.fence();
        let number = term.number;
        self.say(|| format!("replica {number} is fenced"));
        let noticed = self.rng.random_range(0..3 * INTERREGNUM_MS);
        self.schedule(noticed, Due::End { term: number });
        self.schedule(INTERREGNUM_MS, Due::Elect);
    }

    /// C63: what a replica has sent lands before its successor leads.
    pub(super) fn land_all(&mut self) {
        let late = self.agenda.extract_if(.., |_, due| matches!(due, Due::Land { .. }));
        for (_, due) in late.collect::<Vec<_>>() {
            self.happen(due);
        }
    }
}
