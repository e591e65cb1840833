//! PodDisruptionBudgets: their status, and the evictions that they allow.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::Sim;
use crate::cluster::STEP_MAX;
use crate::json::{Value, json};
use crate::kinds::{POD, POD_DISRUPTION_BUDGET};
use crate::object::reads;
use crate::registry::DueBudget;
use crate::store::DeleteOptions;
use crate::value::integer;

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
    let registry = sim.cluster.registry_mut();
    let due = DueBudget::Budget("default".into(), "budget".into());
    assert_eq!(registry.next_budget(&mut 1_000), due);
    registry.refresh_budget(&budget.unwrap(), options.now);
    let found = sim.cluster.store().find(&POD_DISRUPTION_BUDGET, "default", "budget").unwrap();
    let condition = &found.value()["status"]["conditions"][0];
    assert_eq!(condition["reason"], "SyncFailed");
    assert_eq!(condition["message"], "daemonsets.apps does not implement the scale subresource");
}

impl Sim {
    /// Makes a pod ready or not, as a kubelet would.
    fn set_ready(&mut self, name: &str, is_ready: bool) {
        let mut pod = self.pod(name).unwrap();
        let status = if is_ready { "True" } else { "False" };
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": status}]);
        let options = self.at();
        let registry = self.cluster.registry_mut();
        registry.update_status(&POD, "default", name, pod, &options).unwrap();
    }
}

/// S12, S13: a pod that changes costs as many reads beside 500 others of its budget as beside 5.
#[test]
fn a_change_of_a_pod_reads_no_other_pods() {
    let mut costs = Vec::new();
    for count in [5, 500] {
        let mut sim = Sim::new(0);
        sim.create_budget(json!({"minAvailable": 1, "selector": {}}));
        for index in 0..count {
            sim.create_pod(pod(&format!("p{index}"), json!([])));
        }
        costs.push(reads::of(|| {
            sim.set_ready("p3", true);
            sim.cluster.settle(sim.now);
        }));
        assert!(sim.budget().starts_with(&format!("1 of {count}, ")), "{}", sim.budget());
    }
    // One more, because a table of more than one object visits another one with each write.
    assert!(costs[1] <= costs[0] + 1, "{costs:?} reads");
}

/// S12, S13: the pods that are older than a budget are counted in several steps, in which the
/// budget allows nothing yet.
#[test]
fn a_budget_with_a_long_selector_is_counted_in_several_steps() {
    let mut sim = Sim::new(0);
    for index in 0..30 {
        sim.create_pod(pod(&format!("p{index}"), json!([])));
        sim.set_ready(&format!("p{index}"), true);
    }
    sim.cluster.settle(sim.now);
    let long: Vec<Value> = (0..2_000)
        .map(|key| json!({"key": format!("k{key}"), "operator": "DoesNotExist"}))
        .collect();
    let budget = json!({
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": 1, "selector": {"matchExpressions": long}},
    });
    let options = sim.at();
    let registry = sim.cluster.registry_mut();
    registry.create(&POD_DISRUPTION_BUDGET, "default", budget, &options).unwrap();
    sim.cluster.step(sim.now, STEP_MAX);
    sim.cluster.step(sim.now, STEP_MAX);
    assert!(sim.budget().starts_with("0 of 0, "), "{}", sim.budget());
    // A pod that is counted already, and one that is not.
    sim.set_ready("p0", false);
    sim.set_ready("p9", false);
    sim.cluster.settle(sim.now);
    assert!(sim.budget().starts_with("28 of 30, "), "{}", sim.budget());
}

/// S13: after any changes, also after some that the components missed, budgets count the pods that
/// they select.
#[test]
fn budgets_count_the_pods_that_they_select() {
    let mut rng = Pcg64::seed_from_u64(1);
    let mut sim = Sim::new(0);
    let options = sim.at();
    for _ in 0..800 {
        let name = format!("p{}", rng.random_range(0..12));
        let app = ["a", "b"][rng.random_range(0..2)];
        let budget = format!("b{}", rng.random_range(0..3));
        let exists = sim.pod(&name).is_some();
        let registry = sim.cluster.registry_mut();
        match rng.random_range(0..12) {
            0..4 if !exists => {
                registry
                    .create(&POD, "default", pod(&name, json!([])), &options)
                    .map(drop)
                    .unwrap();
            }
            0..3 => sim.set_ready(&name, rng.random()),
            3 if exists => {
                let delete = DeleteOptions::now();
                registry.delete(&POD, "default", &name, &delete, &options).map(drop).unwrap();
            }
            4 | 5 if exists => {
                let mut pod = sim.pod(&name).unwrap();
                pod["metadata"]["labels"]["app"] = app.into();
                let registry = sim.cluster.registry_mut();
                registry.update(&POD, "default", &name, pod, &options).map(drop).unwrap();
            }
            6 => {
                let delete = DeleteOptions::default();
                let deleted =
                    registry.delete(&POD_DISRUPTION_BUDGET, "default", &budget, &delete, &options);
                assert!(deleted.map_or_else(|status| status.code() == 404, |_| true));
            }
            7 => {
                let selector = json!({"matchLabels": {"app": app}});
                let budget = json!({
                    "metadata": {"name": budget},
                    "spec": {"minAvailable": 1, "selector": selector},
                });
                let created = registry.create(&POD_DISRUPTION_BUDGET, "default", budget, &options);
                assert!(created.map_or_else(|status| status.code() == 409, |_| true));
            }
            8 => {
                let newest = registry.store().resource_version();
                registry.store_mut().compact(newest);
            }
            _ => {
                sim.cluster.step(sim.now, STEP_MAX);
            }
        }
        if rng.random_range(0..4) == 0 {
            sim.cluster.settle(sim.now);
            check_counts(&sim);
        }
    }
}

fn check_counts(sim: &Sim) {
    for budget in sim.cluster.store().iter(&POD_DISRUPTION_BUDGET, None) {
        let budget = budget.value();
        let app = budget["spec"]["selector"]["matchLabels"]["app"].as_str();
        let pods: Vec<_> =
            sim.cluster.store().iter(&POD, None).filter(|pod| pod.label("app") == app).collect();
        let ready =
            pods.iter().filter(|pod| pod.value()["status"]["conditions"][0]["status"] == "True");
        let counts = ("/status/expectedPods", "/status/currentHealthy");
        let counts = (integer(budget, counts.0), integer(budget, counts.1));
        let expected = (pods.len(), ready.count());
        assert_eq!(counts, (expected.0 as i64, expected.1 as i64), "{budget}");
    }
}
