//! Deletes old events, as the leases of etcd do in a real cluster.

use std::collections::VecDeque;
use std::sync::Arc;

use everynode_core::api::Timestamp;

use crate::kinds::EVENT;
use crate::object::Object;
use crate::registry::Registry;
use crate::store::{DeleteOptions, WriteOptions};

/// The age of events, derived from their resourceVersions alone, so that no event has to be
/// decoded.
#[derive(Debug, Default)]
pub(super) struct EventExpiry {
    /// The newest resourceVersion at each earlier call.
    samples: VecDeque<(Timestamp, u64)>,
}

impl EventExpiry {
    /// Deletes the events whose last write is at least `age_ms` old.
    pub(super) fn expire(&mut self, registry: &mut Registry, now: Timestamp, age_ms: i64) {
        self.samples.push_back((now, registry.store().resource_version()));
        let mut limit = 0;
        while let Some((at, newest)) = self.samples.front()
            && at.0 + age_ms <= now.0
        {
            limit = *newest;
            self.samples.pop_front();
        }
        let is_old = |event: &&Arc<Object>| event.resource_version() <= limit;
        let old: Vec<Arc<Object>> =
            registry.store().iter(&EVENT, None).filter(is_old).cloned().collect();
        for event in old {
            let (namespace, name) = (event.namespace(), event.name());
            let options = DeleteOptions::default().with_uid(event.uid());
            let deleted =
                registry.delete(&EVENT, namespace, name, &options, &WriteOptions::at(now));
            if let Err(status) = deleted {
                tracing::debug!(name, %status, "cannot delete an expired event");
            }
        }
    }
}
