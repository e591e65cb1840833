//! The writes of a plan, executed as an API server would that never rejects one.

use std::sync::Arc;

use everynode_core::api::{
    ChangeState, HASH_LABEL, Labels, OVERRIDE_LABEL, Overrides, Pod, PodChange, PodName, PodPhase,
    Readiness, RecordState, Replacement, ResourceVersion, Revision, RevisionHash,
    TEMPLATE_GENERATION_LABEL, Timestamp, Uid,
};
use everynode_core::plan::{
    NewChange, NewPod, NewRevision, Outcome, PodReference, RevisionReference, Write,
};

use super::{SimulatedPod, Simulation, Transition};

impl Simulation {
    /// Executes one write; returns its outcome.
    pub(super) fn write(&mut self, write: &Write) -> Outcome {
        self.version += 1;
        match write {
            Write::AdoptPod(pod) => {
                let owner = self.daemon_set.uid.clone();
                self.change_pod(pod, |pod| pod.controller = Some(owner))
            }
            Write::ReleasePod(pod) => self.change_pod(pod, |pod| pod.controller = None),
            Write::RelabelPod { pod, hash } => {
                let hash = hash.as_str();
                self.change_pod(pod, |pod| pod.labels = with_label(&pod.labels, HASH_LABEL, hash))
            }
            Write::AskForReplacement { pod, hash, since, .. } => self.ask(pod, hash, *since),
            Write::MarkReplaced { pod, hash } => self.change_pod(pod, |pod| {
                let replaced = Some(hash.clone());
                pod.replacement = Some(Replacement { replaced, ..Replacement::default() }.into());
            }),
            Write::AdoptRevision(revision) => {
                let owner = self.daemon_set.uid.clone();
                self.change_revision(revision, |revision| {
                    revision.controller = Some(owner);
                    revision.template_generation = None;
                })
            }
            Write::ReleaseRevision(revision) => {
                self.change_revision(revision, |revision| revision.controller = None)
            }
            Write::LabelRevision { revision, hash } => self.change_revision(revision, |revision| {
                revision.labels = with_label(&revision.labels, HASH_LABEL, hash.as_str());
            }),
            Write::RaiseRevision { revision, number, template_generation } => {
                self.change_revision(revision, |revision| {
                    revision.number = *number;
                    revision.template_generation = *template_generation;
                })
            }
            Write::WriteRecord { revision, record } => self.change_revision(revision, |revision| {
                revision.record = RecordState::Stored(record.clone());
            }),
            Write::CreateRevision(new) => self.create_revision(new),
            Write::DeleteRevision(reference) => match self.revisions.remove(&reference.name) {
                Some(revision) => {
                    self.controller.state.delete_revision(&revision);
                    self.written(revision.uid)
                }
                None => Outcome::Gone,
            },
            // A forecast assumes that pulls take no time.
            Write::PullImages(_) => Outcome::ImagesPresent,
            // Without knowledge of ConfigMaps there are none.
            Write::CopyConfigMap(_) | Write::DeleteCopy(_) => Outcome::Skipped,
            Write::DeletePuller(_) => Outcome::Gone,
            Write::ChangePod(change) => self.begin_change(change),
            Write::FinishChange { pod, hash, template_generation, tag, .. } => {
                self.finish_change(pod, hash, *template_generation, tag.as_ref())
            }
            Write::CreatePod(new) => self.create_pod(new),
            Write::DeletePod(pod) => self.delete_pod(pod),
            Write::UpdateStatus { status, .. } => {
                self.daemon_set.status = status.clone();
                self.apply_daemon_set()
            }
            Write::UpdateConditions { rollout } => {
                self.daemon_set.status.rollout.clone_from(rollout);
                self.apply_daemon_set()
            }
            // A forecast assumes that no rollout fails.
            Write::RollBack { .. } => Outcome::Skipped,
            Write::RaiseCollisionCount { collision_count, .. } => {
                self.daemon_set.status.collision_count = Some(*collision_count);
                self.apply_daemon_set()
            }
        }
    }

    fn written(&self, uid: Uid) -> Outcome {
        Outcome::Written { uid, resource_version: ResourceVersion(self.version) }
    }

    pub(super) fn apply_daemon_set(&mut self) -> Outcome {
        self.daemon_set.resource_version = ResourceVersion(self.version);
        self.controller.state.apply_daemon_set(self.daemon_set.clone(), &self.controller.nodes);
        self.written(self.daemon_set.uid.clone())
    }

    fn change_pod(&mut self, reference: &PodReference, change: impl FnOnce(&mut Pod)) -> Outcome {
        let Some(simulated) = self.pods.get_mut(&reference.name) else { return Outcome::Gone };
        change(&mut simulated.pod);
        let pod = simulated.pod.clone();
        self.controller.state.apply_pod(&pod, &mut self.controller.nodes);
        self.written(pod.uid)
    }

    /// A forecast assumes that somebody agrees at once.
    fn ask(&mut self, pod: &PodReference, hash: &RevisionHash, since: Timestamp) -> Outcome {
        self.change_pod(pod, |pod| {
            let asked = pod.replacement.get_or_insert_default();
            (asked.replacing, asked.since) = (Some(hash.clone()), Some(since));
            (asked.is_agreed, asked.replaced) = (true, None);
        })
    }

    /// A forecast assumes that every pod can be changed.
    fn begin_change(&mut self, new: &NewChange) -> Outcome {
        let (to, since) = (new.goal(), new.since);
        if let Some(node) = &new.pod.node {
            self.note_write(node);
            self.changed_in_place.insert(node.clone());
        }
        self.change_pod(&new.pod, |pod| {
            let (state, version) = (ChangeState::Done, ResourceVersion(0));
            pod.change = Some(PodChange { to, since, state, version }.into());
        })
    }

    /// Then its containers start.
    fn finish_change(
        &mut self,
        reference: &PodReference,
        hash: &RevisionHash,
        template_generation: Option<i64>,
        tag: Option<&Arc<str>>,
    ) -> Outcome {
        let at = self.now + self.timing.start_up;
        if let Some(simulated) = self.pods.get_mut(&reference.name) {
            simulated.transition = Transition::BecomesReady;
            self.timers.insert((at, reference.name.clone()));
        }
        self.change_pod(reference, |pod| {
            pod.labels = with_label(&pod.labels, HASH_LABEL, hash.as_str());
            if let Some(generation) = template_generation {
                pod.labels =
                    with_label(&pod.labels, TEMPLATE_GENERATION_LABEL, &generation.to_string());
            }
            pod.labels = match tag {
                Some(tag) => with_label(&pod.labels, OVERRIDE_LABEL, tag),
                None => pod.labels.without(OVERRIDE_LABEL),
            };
            (pod.change, pod.readiness) = (None, Readiness::NotReady);
        })
    }

    fn change_revision(
        &mut self,
        reference: &RevisionReference,
        change: impl FnOnce(&mut Revision),
    ) -> Outcome {
        let Some(revision) = self.revisions.get_mut(&reference.name) else { return Outcome::Gone };
        change(revision);
        revision.resource_version = ResourceVersion(self.version);
        let revision = revision.clone();
        self.controller.state.apply_revision(revision.clone());
        self.written(revision.uid)
    }

    fn create_revision(&mut self, new: &NewRevision) -> Outcome {
        if let Some(existing) = self.revisions.get(&new.name) {
            let collision_count = self.daemon_set.status.collision_count;
            let revision = Box::new(existing.clone());
            return Outcome::RevisionExists { revision: Some(revision), collision_count };
        }
        // Nobody copies ConfigMaps here, so that another revision has these.
        let mut all =
            self.revisions.values().filter_map(|it| it.overrides.as_ref()?.copies.clone());
        let copies = all.find(|copies| new.copies.as_ref() == Some(&copies.text));
        let revision = Revision {
            name: new.name.clone(),
            uid: Uid::new(&format!("forecast-{}", new.name)),
            resource_version: ResourceVersion(self.version),
            labels: with_label(&self.template_labels, HASH_LABEL, new.hash.as_str()),
            controller: Some(self.daemon_set.uid.clone()),
            terminating: false,
            number: new.number,
            template_generation: self.daemon_set.template_generation,
            template: Ok(self.daemon_set.template.clone()),
            overrides: Overrides::with_copies(
                self.daemon_set.policy.valid().and_then(|policy| policy.overrides()),
                copies.as_ref(),
            ),
            record: RecordState::None,
        };
        self.revisions.insert(new.name.clone(), revision.clone());
        let uid = revision.uid.clone();
        self.controller.state.apply_revision(revision);
        self.written(uid)
    }

    fn create_pod(&mut self, new: &NewPod) -> Outcome {
        self.created += 1;
        let name = PodName::from(format!("{}-forecast-{}", self.daemon_set.key.name, self.created));
        let mut labels = with_label(&self.template_labels, HASH_LABEL, new.hash.as_str());
        if let Some(generation) = new.template_generation {
            labels = with_label(&labels, TEMPLATE_GENERATION_LABEL, &generation.to_string());
        }
        if let Some(of_node) = &new.r#override {
            for (key, value) in of_node.labels() {
                labels = with_label(&labels, key, value);
            }
        }
        let pod = Pod {
            namespace: self.daemon_set.key.namespace.clone(),
            name: name.clone(),
            uid: Uid::new(name.as_str()),
            labels,
            controller: Some(self.daemon_set.uid.clone()),
            controller_name: Some(self.daemon_set.key.name.clone()),
            creation_timestamp: self.now,
            changed_after: None,
            terminating: false,
            deleted_at: None,
            node_name: None,
            affinity_node_name: Some(new.node.clone()),
            phase: PodPhase::Pending,
            readiness: Readiness::NotReady,
            restarts: 0,
            trouble: None,
            unschedulable: false,
            replacement: None,
            change: None,
        };
        self.note_write(&new.node);
        let outcome = self.written(pod.uid.clone());
        self.controller.state.apply_pod(&pod, &mut self.controller.nodes);
        let (transition, usage) = (Transition::None(None), self.usage.clone());
        self.pods.insert(name.clone(), SimulatedPod { pod, transition, usage });
        self.bind(&name);
        outcome
    }

    /// A pod without a node disappears at once; a pod on a node that is down never does.
    fn delete_pod(&mut self, reference: &PodReference) -> Outcome {
        let Some(simulated) = self.pods.get_mut(&reference.name) else { return Outcome::Gone };
        simulated.pod.terminating = true;
        let pod = simulated.pod.clone();
        let is_alive = |node| self.nodes.get(node).is_some_and(|node| node.is_alive);
        let removed_at = match &pod.node_name {
            None => Some(self.now),
            Some(node) if is_alive(node) => Some(self.now + self.timing.stop),
            Some(_) => None,
        };
        if let Some(at) = removed_at {
            simulated.transition = Transition::Disappears;
            self.timers.insert((at, reference.name.clone()));
        }
        reference.node.iter().for_each(|node| self.note_write(node));
        self.controller.state.apply_pod(&pod, &mut self.controller.nodes);
        self.written(pod.uid)
    }
}

fn with_label(labels: &Labels, key: &str, value: &str) -> Labels {
    let others = labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    others.chain([(key.into(), value.into())]).collect()
}
