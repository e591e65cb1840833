//! Lists, and objects as they are sent in lists and watches.

use bytes::Bytes;
use everynode_sandbox::kind::Kind;
use everynode_sandbox::object::Object;
use everynode_sandbox::selector::{LabelSelector, Selector};
use everynode_sandbox::status::Status;
use everynode_sandbox::store::{ListOptions, WatchCache};
use rand::RngExt;

use super::World;
use crate::fault::happens;
use crate::network::{Reply, Request};
use crate::response;
use crate::serve::{Query, Target};
use crate::wire;

/// Number of objects on a page, whatever the replica asks for.
const PAGE_SIZE: usize = 2;

impl World {
    /// Answers a list, or a page of it.
    pub(super) fn list(
        &mut self,
        number: u64,
        request: &Request,
        target: &Target,
        query: &Query,
        reply: Reply,
    ) {
        if let Some(failure) = self.faults.draw_list_failure(&mut self.rng) {
            self.log(|| format!("GET {}: {failure:?}", request.path));
            self.checks.record_fault("list or watch refused");
            return self.fail(number, reply, &failure);
        }
        let answer = match self.page(number, target, query) {
            Ok(body) if happens(self.half_list_rate(query), &mut self.rng) => {
                self.checks.record_fault("list cut off");
                let length = self.rng.random_range(0..=body.len());
                response::of_half_list(&body, length)
            }
            Ok(body) => response::of_list(body),
            Err(status) => response::of_result(Err(status)),
        };
        self.answer(number, reply, answer);
    }

    /// The rate at which a page is cut off. That of a page after the first one is low, since a list
    /// of many pages would otherwise hardly ever complete.
    const fn half_list_rate(&self, query: &Query) -> u32 {
        match query.continue_token {
            None => self.faults.half_list,
            Some(_) => self.faults.half_list / 8,
        }
    }

    fn page(&mut self, number: u64, target: &Target, query: &Query) -> Result<Vec<u8>, Status> {
        let labels = query.label_selector.as_deref().map(LabelSelector::parse).transpose();
        let labels = labels.map_err(|error| Status::bad_request(error.to_string()))?;
        let namespace = (!target.namespace.is_empty()).then(|| target.namespace.clone());
        let options = ListOptions {
            selector: Selector {
                namespace,
                labels: labels.unwrap_or_default(),
                ..Selector::default()
            },
            limit: query.limit.map_or(0, |_| PAGE_SIZE),
            continue_token: query.continue_token.clone(),
            resource_version: query.resource_version,
            ..ListOptions::default()
        };
        let cache = self.cache_of(number);
        let list = cache.list(self.cluster.store(), target.kind, &options)?;
        let invalid_objects = self.read_report.invalid_objects;
        let items: Vec<Bytes> =
            list.items.iter().map(|item| self.object_json(number, target.kind, item)).collect();
        if query.label_selector.is_some() {
            // Only watches report such objects, and they see these as well.
            self.read_report.invalid_objects = invalid_objects;
        }
        let version = list.resource_version.to_string();
        Ok(wire::page(&items, &version, list.continue_token.as_deref()))
    }

    /// Returns what the cache of a replica's API server has seen.
    pub(super) fn cache_of(&mut self, replica: u64) -> WatchCache {
        let server = self.api_servers.server_of(replica, &mut self.rng);
        self.api_servers.cache(server, self.cluster.store())
    }

    /// Returns an object's JSON as the server sends it to a replica in lists and watches.
    pub(super) fn object_json(
        &mut self,
        replica: u64,
        kind: &'static Kind,
        object: &Object,
    ) -> Bytes {
        let json = match self.mutation {
            Some(mutation) => mutation.json(self.role(replica), kind, object),
            None => object.json(),
        };
        let mut named = self.invalid_objects.iter();
        let named = named.find(|o| o.namespace == object.namespace() && o.name == object.name());
        let fault =
            named.cloned().or_else(|| self.faults.draw_invalid_bytes(self.setting.seed, object));
        let invalid = fault.and_then(|fault| wire::invalid(&json, &fault));
        self.read_report.invalid_objects += usize::from(invalid.is_some());
        invalid.unwrap_or(json)
    }
}
