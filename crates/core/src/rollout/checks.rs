//! The checks of a wave: which are due, and what their answers say together (G5, G15, G46). They
//! are asked from when its first node has the target on.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    CheckAnswer, CheckStatement, CheckSubject, CheckVerdict, DaemonSetKey, JobPresence, Now,
    Position, RevisionHash, RolloutCheck, RolloutPhase, RolloutRecord, StatedAnswer, Timestamp,
    WaveName,
};
use crate::plan::{CheckQuestion, Notice, Plan};

use super::input::RolloutInput;
use super::wave::Waves;

/// How long a stated answer stays although the text changes; each restatement is a write.
const STATED_FOR: Duration = Duration::from_secs(10);
/// Maximum number of Jobs for a check of a wave: one, and one more after it was deleted without a
/// result.
const JOBS_MAX: u8 = 2;

/// The checks of a wave of which a node has the target.
#[derive(Debug)]
pub(crate) struct Checks {
    wave: CheckedWave,
    /// When the first node had it, by the steady clock.
    since: Timestamp,
    /// When the wave began to bake, by its record: Jobs are started then. `None` before that.
    baking_since: Option<Timestamp>,
    checks: Vec<CheckState>,
    /// How often what is stated of them has changed.
    changes: u64,
    /// Reported by the next plan.
    notices: Vec<Notice>,
}

/// The subject of answers. Another attempt at the same wave has another time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CheckedWave {
    revision: RevisionHash,
    position: Position,
    name: WaveName,
    began: Timestamp,
}

#[derive(Debug)]
struct CheckState {
    check: RolloutCheck,
    question: Question,
    /// The last answer, with the time of its question.
    last: Option<(Timestamp, CheckAnswer)>,
    /// Number of answers in a row that failed; those that say neither are left out.
    failures: u8,
    /// The answer that the condition states.
    stated: Option<StatedAnswer>,
    /// The verdicts that are reported once, and have been.
    reported: Vec<CheckVerdict>,
    job_number: u8,
    has_job: bool,
}

/// The last question about a check. Times are by the steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    None,
    /// It was asked at this time, and has no answer yet.
    Open(Timestamp),
    /// It was asked at this time, and has an answer.
    Answered(Timestamp),
}

/// The verdict of all checks of a wave, taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChecksVerdict {
    /// All have passed, or there are none.
    Passed,
    /// One has not been answered, or with neither yes nor no.
    Pending,
    /// One has failed as often as the policy says, for this reason.
    Failed(Arc<str>),
}

impl Checks {
    /// The checks that the wave of a record must pass; `None` if it has none, or no node of it has
    /// the target. What is known of a check remains while neither the wave nor the check is another
    /// one.
    pub(super) fn refreshed(
        known: Option<Box<Self>>,
        record: Option<&RolloutRecord>,
        waves: Option<&Waves>,
        input: &RolloutInput<'_>,
    ) -> Option<Box<Self>> {
        let record = record.filter(|record| record.has_begun() && !record.is_promoted_in_full())?;
        let policy = waves?.policy();
        let wait = waves?.wait(&record.position).filter(|wait| !wait.checks.is_empty())?;
        let wave = CheckedWave {
            revision: input.revisions().current?.pod_hash(),
            position: record.position.clone(),
            name: policy.order_name(&record.position),
            began: record.began,
        };
        let is_baking = record.phase == RolloutPhase::Baking;
        let has_done = || waves.is_some_and(|waves| waves.has_tried(&record.position));
        let mut known = match known.filter(|known| known.wave == wave) {
            Some(known) => known,
            None if is_baking || has_done() => Box::new(Self {
                wave,
                since: input.now.steady,
                baking_since: None,
                checks: Vec::new(),
                changes: 0,
                notices: Vec::new(),
            }),
            None => return None,
        };
        known.baking_since = is_baking.then_some(record.since);
        if !known.checks.iter().map(|state| &state.check).eq(policy.checks_of(&wait)) {
            let mut before = std::mem::take(&mut known.checks);
            let state = |check: &RolloutCheck| {
                let index = before.iter().position(|state| state.check == *check);
                let new = || CheckState::new(check.clone());
                index.map_or_else(new, |index| before.swap_remove(index))
            };
            known.checks = policy.checks_of(&wait).map(state).collect();
            known.changes += 1;
        }
        Some(known)
    }

    /// The verdict of all checks. Those that are asked again and again must pass after the end
    /// of the bake time.
    pub(super) fn verdict(&self, baked_at: Option<Timestamp>) -> ChecksVerdict {
        if let Some(why) = self.checks.iter().find_map(CheckState::failure) {
            return ChecksVerdict::Failed(why);
        }
        match self.checks.iter().all(|state| state.has_passed_since(baked_at)) {
            true => ChecksVerdict::Passed,
            false => ChecksVerdict::Pending,
        }
    }

    /// When the next check is due, by the steady clock.
    pub(super) fn due_at(&self, baked_at: Option<Timestamp>) -> Option<Timestamp> {
        self.checks.iter().filter_map(|state| self.check_due_at(state, baked_at)).min()
    }

    /// When a check is due. A Job is started when the wave is updated, since it gives one answer.
    fn check_due_at(&self, state: &CheckState, baked_at: Option<Timestamp>) -> Option<Timestamp> {
        let may_ask = !state.check.is_job() || self.baking_since.is_some();
        let first = self.since + state.check.initial_delay;
        may_ask.then(|| state.due_at(first, baked_at)).flatten()
    }

    /// The last answers, as the condition states them.
    pub(super) fn statements(&self) -> Vec<CheckStatement> {
        let statement = |state: &CheckState| CheckStatement {
            name: state.check.name.clone(),
            last: state.stated.clone(),
        };
        self.checks.iter().map(statement).collect()
    }

    /// How often what is stated of them has changed.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// The position of the wave.
    pub(super) const fn position(&self) -> &Position {
        &self.wave.position
    }

    /// Adds the checks that are due to the plan. `subject` returns the values of variables, for the
    /// revision and the wave of this name.
    pub(super) fn ask(
        &mut self,
        daemon_set: &DaemonSetKey,
        subject: impl Fn(&RevisionHash, &WaveName) -> CheckSubject,
        baked_at: Option<Timestamp>,
        now: Now,
        plan: &mut Plan,
    ) {
        plan.notices.append(&mut self.notices);
        let is_due = |state: &CheckState| {
            self.check_due_at(state, baked_at).is_some_and(|due_at| due_at <= now.steady)
        };
        let due: Vec<bool> = self.checks.iter().map(is_due).collect();
        let (revision, wave) = (&self.wave.revision, &self.wave.name);
        let states = self.checks.iter_mut().zip(due).filter(|(_, is_due)| *is_due);
        for (state, _) in states {
            state.question = Question::Open(now.steady);
            let kind = &state.check.kind;
            plan.questions.push(CheckQuestion {
                daemon_set: daemon_set.clone(),
                revision: revision.clone(),
                wave: wave.clone(),
                since: self.baking_since.unwrap_or(self.wave.began),
                check: state.check.clone(),
                kind: match kind.has_variables() {
                    true => kind.about(&subject(revision, wave)),
                    false => kind.clone(),
                },
                asked: now.steady,
                asked_wall: now.to_wall(now.steady),
                job_number: state.job_number,
                has_job: state.has_job,
            });
        }
    }

    /// Applies the answer to a check of a plan. One that concerns another wave or another check
    /// than the current ones means nothing.
    pub(crate) fn apply_answer(&mut self, question: &CheckQuestion, answer: CheckAnswer) -> bool {
        if (&self.wave.revision, &self.wave.name) != (&question.revision, &question.wave) {
            return false;
        }
        // If the check was reset meanwhile, the answer is dropped, and it is asked again.
        let is_meant = |state: &&mut CheckState| {
            state.question == Question::Open(question.asked) && state.check == question.check
        };
        let Some(state) = self.checks.iter_mut().find(is_meant) else { return false };
        let failures_before = state.failures;
        let reported = state.apply(question, answer);
        self.changes += u64::from(state.restate(question.asked_wall, failures_before));
        self.notices.extend(reported.map(|answer| Notice::Check {
            check: question.check.name.clone(),
            wave: question.wave.clone(),
            verdict: answer.verdict,
            answer: answer.text,
        }));
        true
    }
}

impl CheckState {
    fn new(check: RolloutCheck) -> Self {
        Self {
            check,
            question: Question::None,
            last: None,
            failures: 0,
            stated: None,
            reported: Vec::new(),
            job_number: 1,
            has_job: false,
        }
    }

    /// Why the rollout fails by this check, if it does.
    fn failure(&self) -> Option<Arc<str>> {
        let (_, answer) = self.last.as_ref()?;
        (self.failures >= self.check.failures_needed()).then(|| {
            let times = match self.failures {
                1 => String::new(),
                times => format!(", {times} times in a row"),
            };
            self.check.failure(&format!("{}{times}", answer.text))
        })
    }

    fn has_passed_since(&self, baked_at: Option<Timestamp>) -> bool {
        let passed = self.last.as_ref().filter(|(_, a)| a.verdict == CheckVerdict::Passed);
        match (passed, baked_at) {
            (Some(_), _) if self.check.is_job() => true,
            (Some((asked, _)), Some(baked_at)) => *asked >= baked_at,
            (Some(_), None) | (None, _) => false,
        }
    }

    /// When it is due, by the steady clock, the first time at `first`; `None` while it has no
    /// answer, and if nothing can change what it says.
    fn due_at(&self, first: Timestamp, baked_at: Option<Timestamp>) -> Option<Timestamp> {
        let is_final = self.check.is_job() && self.has_passed_since(None);
        if is_final || self.failure().is_some() {
            return None;
        }
        let asked = match self.question {
            Question::None => return Some(first),
            Question::Open(_) => return None,
            Question::Answered(asked) => asked,
        };
        let next = asked + self.check.interval;
        Some(match baked_at {
            // The answer that counts is one to a question after the bake time.
            Some(baked_at) if asked < baked_at => next.min(baked_at),
            Some(_) | None => next,
        })
    }

    /// Applies an answer. Returns what it says, if that is to be reported.
    fn apply(&mut self, question: &CheckQuestion, answer: CheckAnswer) -> Option<CheckAnswer> {
        self.question = Question::Answered(question.asked);
        let answer = match answer.job {
            JobPresence::Exists => {
                self.has_job = true;
                answer
            }
            JobPresence::Gone if self.job_number < JOBS_MAX => {
                self.job_number += 1;
                self.has_job = false;
                answer
            }
            // The rollout must not wait for ever: whatever deletes the Jobs may hide a failure.
            JobPresence::Gone => {
                let text = format!("{}, and so was the one before it", answer.text);
                CheckAnswer::new(CheckVerdict::Failed, &text).with_job(answer.job)
            }
            JobPresence::Unknown => answer,
        };
        let verdict = answer.verdict;
        let failures = match verdict {
            CheckVerdict::Passed => 0,
            CheckVerdict::Failed => self.failures.saturating_add(1),
            CheckVerdict::Unknown => self.failures,
        };
        let is_first = match verdict {
            CheckVerdict::Passed => self.is_first(verdict),
            CheckVerdict::Failed => self.failures == 0,
            // That a Job takes its time is nothing to report.
            CheckVerdict::Unknown if answer.job == JobPresence::Exists => false,
            CheckVerdict::Unknown => self.is_first(verdict),
        };
        self.failures = failures;
        self.last = Some((question.asked, answer.clone()));
        is_first.then_some(answer)
    }

    /// True if it is the first answer with this verdict, which is recorded.
    fn is_first(&mut self, verdict: CheckVerdict) -> bool {
        let is_first = !self.reported.contains(&verdict);
        if is_first {
            self.reported.push(verdict);
        }
        is_first
    }

    /// Brings what the condition states up to date. Returns whether that has changed.
    fn restate(&mut self, asked_wall: Timestamp, failures_before: u8) -> bool {
        let Some((_, answer)) = &self.last else { return false };
        let is_current = self.stated.as_ref().is_some_and(|stated| {
            let is_same = stated.verdict == answer.verdict && self.failures == failures_before;
            let is_young = asked_wall.since(stated.asked) < STATED_FOR;
            is_same && (is_young || stated.text == answer.text)
        });
        if !is_current {
            let (verdict, text) = (answer.verdict, answer.text.clone());
            self.stated = Some(StatedAnswer { verdict, asked: asked_wall, text });
        }
        !is_current
    }
}
