//! One pod on each eligible node, and none elsewhere (C22–C27). Upstream: `podsShouldBeOnNode`, `manage`.

use crate::api::{NodeName, PodPhase, RevisionHash, Timestamp, UpdateStrategy};
use crate::placement::Eligibility;
use crate::plan::{NewPod, Notice};

use super::DaemonSetState;
use super::assess::Judge;
use super::draft::Draft;
use super::slot::{PodView, Slot};

/// C23: whether a pod is to be created. A pod that ended goes first, an orphan is adopted first, and
/// one that is terminating is waited for unless the strategy surges (C22).
pub(super) fn needs_pod(slot: &Slot, strategy: UpdateStrategy) -> bool {
    let occupies =
        |pod: &PodView| pod.orphan || (pod.counts() && !(pod.terminating && strategy.surges()));
    slot.eligibility.should_run() && !slot.pods.as_slice().iter().any(occupies)
}

/// The pods that have failed or succeeded where one may run (C24).
pub(super) fn ended(slot: &Slot) -> impl Iterator<Item = &PodView> {
    let may_run = slot.eligibility.should_continue_running();
    let pods = slot.pods.as_slice().iter().filter(move |_| may_run);
    pods.filter(|pod| is_ours_to_delete(pod) && pod.phase.is_terminal())
}

pub(super) fn has_succeeded(slot: &Slot) -> bool {
    ended(slot).any(|pod| pod.phase == PodPhase::Succeeded)
}

/// The pods that are to go whatever becomes of the others.
pub(super) fn surplus<'a>(slot: &'a Slot, judge: &Judge<'_>) -> Vec<&'a PodView> {
    let ours = slot.pods.as_slice().iter().filter(|pod| is_ours_to_delete(pod));
    match slot.eligibility {
        // C27
        Eligibility::NoNode => ours.filter(|pod| !pod.scheduled).collect(),
        // C23
        Eligibility::Neither => ours.collect(),
        Eligibility::ContinueRunning | Eligibility::Run => {
            let running = ours.filter(|pod| !pod.phase.is_terminal());
            if judge.strategy.surges() {
                surplus_of_pair(running, judge)
            } else {
                running.skip(1).collect()
            }
        }
    }
}

/// C26: of each kind the oldest stays; the old one goes when it is not ready, or the new one available.
fn surplus_of_pair<'a>(
    running: impl Iterator<Item = &'a PodView>,
    judge: &Judge<'_>,
) -> Vec<&'a PodView> {
    let (mut new, mut old, mut surplus) = (None, None, Vec::new());
    for pod in running {
        let oldest = if judge.is_updated(pod) { &mut new } else { &mut old };
        match oldest {
            None => *oldest = Some(pod),
            Some(_) => surplus.push(pod),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!old.readiness.is_ready() || judge.is_available(new))
    {
        surplus.push(old);
    }
    surplus
}

fn is_ours_to_delete(pod: &PodView) -> bool {
    !pod.orphan && !pod.terminating
}

impl DaemonSetState {
    pub(super) fn manage(&mut self, hash: &RevisionHash, now: Timestamp, draft: &mut Draft) {
        self.delete_ended(now, draft);
        let judge = Judge::new(&self.daemon_set, &self.carried, now);
        for (name, id) in self.turns.of(&self.candidates.has_surplus) {
            for pod in surplus(&self.slots[id.index()], &judge) {
                draft.delete(name, id, pod);
            }
            if !draft.may_delete() {
                break;
            }
        }
        for (name, _) in self.turns.of(&self.candidates.needs_pod).take(draft.creations_left()) {
            draft.create(self.new_pod(name.clone(), hash));
        }
    }

    pub(super) fn new_pod(&self, node: NodeName, hash: &RevisionHash) -> NewPod {
        NewPod {
            name: self.pending_names.of(&node).cloned(),
            node,
            hash: hash.clone(),
            template_generation: self.daemon_set.template_generation,
            schedule_by: self.config.schedule_by,
        }
    }

    /// C24: deletes what has failed, unless that was done too recently, and what has succeeded.
    fn delete_ended(&mut self, now: Timestamp, draft: &mut Draft) {
        for (name, id) in self.turns.of(&self.candidates.has_ended) {
            let backed_off = self.backoff.until(id, now).is_some();
            for pod in ended(&self.slots[id.index()]) {
                let has_failed = pod.phase == PodPhase::Failed;
                if (has_failed && backed_off) || !draft.delete(name, id, pod) {
                    continue;
                }
                if has_failed {
                    self.backoff.next(id, now);
                }
                draft.plan.notices.push(notice_of_end(pod, name));
            }
            if !draft.may_delete() {
                break;
            }
        }
        // Those that the back-off now holds leave the candidates.
        for id in &draft.touched {
            self.slots[id.index()].mark(*id, &mut self.marked);
        }
    }
}

fn notice_of_end(pod: &PodView, node: &NodeName) -> Notice {
    let (pod_name, node) = (pod.name.clone(), node.clone());
    match pod.phase {
        PodPhase::Failed => Notice::FailedDaemonPod { pod: pod_name, node },
        PodPhase::Succeeded | PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
            Notice::SucceededDaemonPod { pod: pod_name, node }
        }
    }
}
