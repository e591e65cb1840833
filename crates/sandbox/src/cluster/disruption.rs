//! The disruption controller (S13): keeps the status of PodDisruptionBudgets up to date. It does
//! nothing while there are none.

use super::component_context::ComponentContext;
use super::timer::Timer;
use crate::kinds::POD_DISRUPTION_BUDGET;
use crate::registry::DueBudget;

/// Maximum number of requirements of selectors that are matched in one step, a millisecond.
const WORK_MAX: usize = 20_000;

/// Refreshes the budgets that changed or whose pods did. Returns whether there may be more.
pub(super) fn step(context: &mut ComponentContext<'_>, count_max: usize) -> bool {
    let mut work = WORK_MAX;
    for _ in 0..count_max {
        let (namespace, name) = match context.registry.next_budget(&mut work) {
            DueBudget::None => return false,
            DueBudget::Later => return true,
            DueBudget::Budget(namespace, name) => (namespace, name),
        };
        let store = context.registry.store();
        let found = store.find_with_tree(&POD_DISRUPTION_BUDGET, &namespace, &name);
        let Some(budget) = found.filter(|budget| !budget.is_terminating()) else { continue };
        if let Some(at) = context.registry.refresh_budget(&budget, context.now) {
            context.timers.set(at, Timer::Budget { namespace, name });
        }
        work = work.saturating_sub(budget.bytes());
    }
    true
}
