//! PodDisruptionBudgets: their status, and the evictions that they allow.

use serde_json::{Value, json};

use super::Sim;
use crate::kind::{POD, POD_DISRUPTION_BUDGET};

impl Sim {
    fn create_budget(&mut self, spec: Value) {
        let options = self.at();
        let budget = json!({"metadata": {"name": "budget"}, "spec": spec});
        let registry = self.cluster.registry_mut();
        registry.create(&POD_DISRUPTION_BUDGET, "default", budget, &options).unwrap();
        self.cluster.settle(self.now);
    }

    /// The numbers in the status of the budget, and the reason of its condition.
    fn budget(&self) -> String {
        let found = self.cluster.store().find(&POD_DISRUPTION_BUDGET, "default", "budget").unwrap();
        let status = &found.value()["status"];
        format!(
            "{} of {}, {} needed, {} allowed: {}",
            status["currentHealthy"],
            status["expectedPods"],
            status["desiredHealthy"],
            status["disruptionsAllowed"],
            status["conditions"][0]["reason"].as_str().unwrap_or_default(),
        )
    }

    /// Evicts a pod; returns the code of the refusal, or 201.
    fn evict(&mut self, name: &str) -> u16 {
        let options = self.at();
        let evicted = self.cluster.registry_mut().evict("default", name, &json!({}), &options);
        self.cluster.settle(self.now);
        evicted.map_or_else(|status| status.code(), |()| 201)
    }
}

fn pod(name: &str, owners: Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "a"}, "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

/// S13: a budget counts its ready pods, allows an eviction as long as enough stay, and refuses the
/// next.
#[test]
fn a_budget_allows_as_many_evictions_as_it_can_spare() {
    let mut sim = Sim::new(2);
    sim.create_budget(json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}));
    assert_eq!(sim.budget(), "0 of 0, 1 needed, 0 allowed: InsufficientPods");
    sim.create_pod(pod("p1", json!([])));
    sim.create_pod(pod("p2", json!([])));
    sim.run_for(30_000);
    assert_eq!(sim.budget(), "2 of 2, 1 needed, 1 allowed: SufficientPods");
    assert_eq!(sim.evict("p1"), 201);
    assert_eq!(sim.evict("p2"), 429);
    sim.run_for(60_000);
    assert!(sim.cluster.store().find(&POD, "default", "p1").is_none());
    assert_eq!(sim.budget(), "1 of 1, 1 needed, 0 allowed: InsufficientPods");
}

/// S13: the pods of a DaemonSet have no scale, so a budget that needs one allows nothing.
#[test]
fn a_budget_that_needs_a_scale_allows_nothing_for_a_daemon_set() {
    let mut sim = Sim::new(2);
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "u", "controller": true,
    }]);
    sim.create_budget(json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}}));
    let options = sim.at();
    sim.cluster.registry_mut().create(&POD, "default", pod("p1", owner), &options).unwrap();
    let budget = sim.cluster.store().find_with_tree(&POD_DISRUPTION_BUDGET, "default", "budget");
    sim.cluster.registry_mut().refresh_budget(&budget.unwrap(), options.now);
    let found = sim.cluster.store().find(&POD_DISRUPTION_BUDGET, "default", "budget").unwrap();
    let condition = &found.value()["status"]["conditions"][0];
    assert_eq!(condition["reason"], "SyncFailed");
    assert_eq!(condition["message"], "daemonsets.apps does not implement the scale subresource");
}
