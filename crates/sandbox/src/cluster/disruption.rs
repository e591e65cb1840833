//! The disruption controller (S13): keeps the status of PodDisruptionBudgets up to date. It does
//! nothing while there are none.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::component_context::ComponentContext;
use super::timer::Timer;
use crate::kind::POD_DISRUPTION_BUDGET;
use crate::object::Object;
use crate::registry::budgets_of;

#[derive(Debug, Default)]
pub(super) struct Disruption {
    /// The newest change of a budget that was read.
    seen: u64,
    /// The budgets to look at, by namespace and name.
    pending: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Disruption {
    /// A pod was added or changed.
    pub(super) fn apply_pod(&mut self, context: &ComponentContext<'_>, pod: &Object) {
        let store = context.registry.store();
        if store.count(&POD_DISRUPTION_BUDGET) == 0 {
            return;
        }
        for budget in budgets_of(store, pod) {
            self.pending.insert((budget.namespace().into(), budget.name().into()));
        }
    }

    /// A budget is looked at again, because evictions may have done nothing.
    pub(super) fn fire(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        self.pending.insert((namespace.clone(), name.clone()));
    }

    /// Refreshes the budgets that changed or whose pods did. Returns whether there may be more.
    pub(super) fn step(&mut self, context: &mut ComponentContext<'_>, count_max: usize) -> bool {
        self.follow(context);
        for _ in 0..count_max {
            let Some((namespace, name)) = self.pending.pop_first() else { return false };
            let store = context.registry.store();
            let found = store.find_with_tree(&POD_DISRUPTION_BUDGET, &namespace, &name);
            let Some(budget) = found.filter(|budget| !budget.is_terminating()) else { continue };
            if let Some(at) = context.registry.refresh_budget(&budget, context.now) {
                context.timers.set(at, Timer::Budget { namespace, name });
            }
        }
        !self.pending.is_empty()
    }

    fn follow(&mut self, context: &ComponentContext<'_>) {
        let store = context.registry.store();
        if store.count(&POD_DISRUPTION_BUDGET) == 0 {
            return;
        }
        let newer = |budget: &&Arc<Object>| budget.resource_version() > self.seen;
        let changed: Vec<_> = store
            .iter(&POD_DISRUPTION_BUDGET, None)
            .filter(newer)
            .map(|budget| (budget.namespace().into(), budget.name().into()))
            .collect();
        self.pending.extend(changed);
        self.seen = store.resource_version();
    }
}
