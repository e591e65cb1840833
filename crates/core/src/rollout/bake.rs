//! How long the current wave bakes (G5): until its bake time has passed since the last of its nodes
//! became available.

use std::time::Duration;

use crate::api::{RolloutPhase, RolloutRecord, Timestamp};
use crate::memo::Memo;

use super::input::RolloutInput;
use super::stage::PhaseKey;
use super::wave::{News, Waves};

/// The bake time of the current wave.
#[derive(Debug, Default)]
pub(crate) struct Bake {
    /// `None` unless a wave bakes.
    time: Memo<PhaseKey, Option<BakeTime>>,
}

#[derive(Clone, Copy, Debug)]
struct BakeTime {
    /// When the phase began, by the steady clock. A time that was ahead when the phase was first
    /// seen was written by a clock that was wrong: then it is that moment. A wall clock that is set
    /// later only moves it forward: no bake time ends early because a clock was wrong.
    began: Timestamp,
    /// How far the wall clock was ahead when that was determined.
    wall_ahead_ms: i64,
    /// The bake time of the policy, which may change under way at the end of a rollout.
    bake: Duration,
    end: BakeEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BakeEnd {
    /// At this time, by the steady clock, unless a node is not available then.
    At(Timestamp),
    /// It ended then. It starts again if a node that is neither down nor leaving becomes
    /// unavailable, or did so and is available again.
    Over(Timestamp),
}

impl Bake {
    /// When it ends, by the steady clock, if that lies ahead.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        self.time.last().and_then(|time| match time.end {
            BakeEnd::At(at) => Some(at),
            BakeEnd::Over(_) => None,
        })
    }

    /// When it was over, by the steady clock, if it is.
    pub(crate) fn ended_at(&self) -> Option<Timestamp> {
        self.time.last().and_then(|time| match time.end {
            BakeEnd::At(_) => None,
            BakeEnd::Over(at) => Some(at),
        })
    }

    /// Determines whether the bake time is over: its end is that time after the last node became
    /// available, without those that have joined. Otherwise a cluster that grows would never end
    /// it. `record` is that of a rollout that moves forward.
    pub(super) fn refresh(
        &mut self,
        record: Option<&RolloutRecord>,
        waves: Option<&mut Waves>,
        input: &RolloutInput<'_>,
    ) {
        let record = record.filter(|record| record.phase == RolloutPhase::Baking);
        let Some((record, waves)) = record.zip(waves) else {
            self.time = Memo::default();
            return;
        };
        let bake = waves.policy().wait(&record.position).bake;
        let now = input.now;
        let key = PhaseKey::new(record);
        let began = now.to_steady(record.since).min(now.steady);
        let known = self.time.get(&key).copied().flatten();
        let mut time = known.unwrap_or(BakeTime {
            began,
            wall_ahead_ms: now.wall_ahead_ms,
            bake,
            end: BakeEnd::At(began + bake),
        });
        if time.bake != bake {
            (time.bake, time.end) = (bake, BakeEnd::At(time.began + bake));
        }
        if time.wall_ahead_ms != now.wall_ahead_ms {
            time.wall_ahead_ms = now.wall_ahead_ms;
            time.began = time.began.max(began);
        }
        let is_complete = waves.is_complete(&record.position);
        let has_become_available = waves.take(News::AVAILABILITY);
        let is_due = match time.end {
            BakeEnd::At(at) => at <= now.steady,
            BakeEnd::Over(_) => has_become_available,
        };
        time.end = match time.end {
            // It ends anew once they are, also while an approval, a check or a write is awaited.
            BakeEnd::Over(at) if !is_complete && !waves.lacks_only_absent(&record.position) => {
                BakeEnd::At(at)
            }
            _ if is_due && is_complete => {
                let since = waves.bakes_since(&record.position);
                let at = since.map_or(time.began, |since| since.max(time.began)) + bake;
                if at <= now.steady { BakeEnd::Over(at) } else { BakeEnd::At(at) }
            }
            end => end,
        };
        self.time.set(key, Some(time));
    }
}
