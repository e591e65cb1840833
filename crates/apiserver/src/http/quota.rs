//! The resources of the server that each client uses at a time, and the limits on it. A client is a
//! user: two programs with the same token share one quota.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::{Limits, Share};
use super::respond::too_many_requests;
use crate::status::Status;

/// A resource of the server that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Connections,
    /// Requests other than watches, until their response is sent.
    Requests,
    Watches,
    /// Bytes of request bodies.
    BodyBytes,
    /// Bytes of responses that are not sent yet.
    ResponseBytes,
}

const RESOURCES: usize = 5;

type Amounts = [usize; RESOURCES];

/// The usage of all clients.
pub(crate) struct Quota {
    limits: Limits,
    usage: Mutex<Usage>,
}

#[derive(Default)]
struct Usage {
    total: Amounts,
    of_clients: HashMap<Arc<str>, Amounts>,
}

/// An amount that a client uses until this is dropped.
pub(crate) struct Reservation {
    quota: Arc<Quota>,
    client: Arc<str>,
    resource: Resource,
    amount: usize,
}

impl Quota {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, usage: Mutex::default() })
    }

    /// Reserves an amount for a client.
    ///
    /// # Errors
    /// 429 if the client or all clients together use too much.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        client: &Arc<str>,
        resource: Resource,
        amount: usize,
    ) -> Result<Reservation, Status> {
        let (quota, client) = (Arc::clone(self), Arc::clone(client));
        let mut reservation = Reservation { quota, client, resource, amount: 0 };
        reservation.grow(amount)?;
        Ok(reservation)
    }

    fn share(&self, resource: Resource) -> Share {
        match resource {
            // The total number of connections is limited when they are accepted.
            Resource::Connections => {
                Share { client: self.limits.client_connections, total: usize::MAX }
            }
            Resource::Requests => self.limits.requests,
            Resource::Watches => self.limits.watches,
            Resource::BodyBytes => self.limits.body_bytes,
            Resource::ResponseBytes => self.limits.response_bytes,
        }
    }
}

impl Reservation {
    /// Adds to the amount.
    ///
    /// # Errors
    /// 429 if the client or all clients together use too much.
    pub(crate) fn grow(&mut self, by: usize) -> Result<(), Status> {
        let share = self.quota.share(self.resource);
        let index = self.resource as usize;
        let usage = &mut *self.quota.usage.lock();
        let of_client = usage.of_clients.entry(Arc::clone(&self.client)).or_default();
        // A first request is served whatever its size, because a limit on a single one is another.
        let fits = |used: usize, limit: usize| used == 0 || used.saturating_add(by) <= limit;
        if !fits(of_client[index], share.client) || !fits(usage.total[index], share.total) {
            return Err(too_many_requests());
        }
        of_client[index] += by;
        usage.total[index] += by;
        self.amount += by;
        Ok(())
    }
}

impl Reservation {
    /// Replaces the amount.
    ///
    /// # Errors
    /// 429 if the client or all clients together use too much.
    pub(crate) fn set(&mut self, amount: usize) -> Result<(), Status> {
        match amount.checked_sub(self.amount) {
            Some(more) => self.grow(more),
            None => {
                self.give_back(self.amount - amount);
                Ok(())
            }
        }
    }

    fn give_back(&mut self, amount: usize) {
        let index = self.resource as usize;
        let usage = &mut *self.quota.usage.lock();
        usage.total[index] -= amount;
        self.amount -= amount;
        if let Some(of_client) = usage.of_clients.get_mut(&self.client) {
            of_client[index] -= amount;
            if *of_client == Amounts::default() {
                usage.of_clients.remove(&self.client);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S12: a client can't use more than its share, nor all clients more than the total; what is
    /// given back can be used again.
    #[test]
    fn a_client_gets_its_share_and_no_more() {
        let requests = Share { client: 2, total: 3 };
        let quota = Quota::new(Limits { requests, ..Limits::default() });
        let [ann, bob] = ["ann", "bob"].map(Arc::<str>::from);
        let one = |client| quota.reserve(client, Resource::Requests, 1);
        let (first, second) = (one(&ann), one(&ann));
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(one(&ann).err().map(|status| status.code()), Some(429));
        let third = one(&bob);
        assert!(third.is_ok());
        assert!(one(&bob).is_err(), "more than the total");
        drop(first);
        assert!(one(&bob).is_ok());
        drop((second, third));
        assert!(quota.usage.lock().of_clients.is_empty(), "a client that is gone is forgotten");
    }
}
