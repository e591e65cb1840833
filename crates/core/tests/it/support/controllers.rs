//! Controllers that start: after a crash, and the one beside which this one runs; and changes of
//! the DaemonSet by controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{DaemonSet, NodeName, Pod, ResourceVersion, Status};
use everynode_core::daemon_set::{Config, DaemonSetState, Mode};
use everynode_core::plan::{Notice, Outcome, Plan, RevisionReference};

use super::{DS_UID, Event, World};

/// True if a plan asks checks, or reports one.
pub(super) fn concerns_checks(plan: &Plan) -> bool {
    let is_check = |notice: &Notice| matches!(notice, Notice::Check { .. });
    !plan.questions.is_empty() || plan.notices.iter().any(is_check)
}

impl World {
    /// Answers the checks that have an answer.
    pub(super) fn answer_checks(&mut self, plan: &Plan) {
        self.questions.extend(plan.questions.iter().cloned());
        for question in std::mem::take(&mut self.questions) {
            match self.answers.get(&*question.check.name) {
                Some(answer) => {
                    self.state.apply_check_answer(&question, answer.clone());
                }
                None => self.questions.push(question),
            }
        }
    }

    /// Restarts the controller: a new state gets all objects from lists (C62).
    pub(crate) fn restart(&mut self, daemon_set: DaemonSet) {
        let state = DaemonSetState::new(self.config, daemon_set, &self.nodes);
        std::mem::replace(&mut self.state, state).detach(&mut self.nodes);
        self.events.clear();
        self.questions.clear();
        self.list();
    }

    /// Lets the built-in controller act once, if this one runs beside it. Returns whether it has
    /// written anything.
    pub(crate) fn built_in(&mut self) -> bool {
        if !self.config.mode.is_beside() {
            return false;
        }
        let config = Config { mode: Mode::Unguarded, ..self.config };
        let built_in = DaemonSetState::new(config, self.server.daemon_set.clone(), &self.nodes);
        let beside = std::mem::replace(&mut self.state, built_in);
        self.list();
        let mut has_acted = false;
        while !self.sync().writes.is_empty() {
            has_acted = true;
        }
        std::mem::replace(&mut self.state, beside).detach(&mut self.nodes);
        self.state.apply_daemon_set(self.server.daemon_set.clone(), &self.nodes);
        self.list();
        has_acted
    }

    pub(super) fn edit_status(
        &mut self,
        version: ResourceVersion,
        edit: impl FnOnce(&mut Status),
    ) -> Outcome {
        if self.server.daemon_set.resource_version != version {
            return Outcome::Failed { message: "conflict".to_owned() };
        }
        edit(&mut self.server.daemon_set.status);
        self.put_daemon_set();
        self.written(&DS_UID.into())
    }

    pub(super) fn roll_back(
        &mut self,
        version: ResourceVersion,
        base: &RevisionReference,
        attempt: &Arc<str>,
    ) -> Outcome {
        let template = self.server.revisions.get(&base.name).map(|base| base.template.clone());
        let Some(Ok(template)) = template else { return Outcome::Gone };
        if self.server.daemon_set.resource_version != version {
            return Outcome::Failed { message: "conflict".to_owned() };
        }
        self.change(|ds| {
            ds.template = template;
            ds.rolled_back = Some(attempt.clone());
        });
        self.written(&DS_UID.into())
    }

    /// The owned pods of each node that are not terminating.
    pub(crate) fn pods_by_node(&self) -> BTreeMap<NodeName, Vec<&Pod>> {
        let mut by_node: BTreeMap<NodeName, Vec<&Pod>> = BTreeMap::new();
        for pod in
            self.server.pods.values().filter(|pod| pod.controller.is_some() && !pod.terminating)
        {
            if let Some(node) = pod.target_node_name() {
                by_node.entry(node.clone()).or_default().push(pod);
            }
        }
        by_node
    }

    pub(super) fn put_daemon_set(&mut self) {
        self.server.daemon_set.resource_version = ResourceVersion(self.server.next_version());
        self.events.push_back(Event::DaemonSet(Box::new(self.server.daemon_set.clone())));
        self.deliver();
    }

    fn list(&mut self) {
        self.state.reset_pods(self.server.pods.values(), &mut self.nodes);
        self.state.reset_revisions(self.server.revisions.values().cloned());
        let pullers = self.server.pullers.pods.values();
        let concerned: Vec<_> = pullers.filter(|it| self.state.concerns_puller(it)).collect();
        self.state.reset_pullers(concerned, &self.nodes);
    }
}
