//! Gauges of which each DaemonSet has its own.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use everynode_core::api::DaemonSetKey;

use super::labels::DaemonSetLabels;
use super::register;

/// A gauge: its name after the prefix, its help text, and its value for a DaemonSet in this state,
/// which may have none.
pub(super) type Row<S> = (&'static str, &'static str, fn(&S) -> Option<i64>);

/// The gauges of a table.
#[derive(Debug)]
pub(super) struct Gauges<S: 'static> {
    table: &'static [Row<S>],
    families: Vec<Family<DaemonSetLabels, Gauge>>,
}

impl<S> Gauges<S> {
    /// Registers all of them; `r` has their prefix.
    pub(super) fn new(r: &mut Registry, table: &'static [Row<S>]) -> Self {
        let families =
            table.iter().map(|(name, help, _)| register(r, name, help, Family::default()));
        Self { table, families: families.collect() }
    }

    /// Sets those of a DaemonSet; `None` removes them.
    pub(super) fn set(&self, key: &DaemonSetKey, state: Option<&S>) {
        let labels = DaemonSetLabels::new(key);
        for ((_, _, value), family) in self.table.iter().zip(&self.families) {
            match state.and_then(value) {
                Some(value) => {
                    family.get_or_create(&labels).set(value);
                }
                None => {
                    family.remove(&labels);
                }
            }
        }
    }
}

/// The value of a gauge that counts.
pub(super) fn count(count: usize) -> Option<i64> {
    Some(i64::try_from(count).unwrap_or(i64::MAX))
}
