//! The API servers of the cluster. The watch cache of each may be behind the store, so a replica
//! that connects to another server may be told an older state than it knows.

use std::collections::{BTreeMap, VecDeque};

use everynode_core::api::Timestamp;
use everynode_sandbox::store::{Store, WatchCache};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::watch_fault::Outage;

/// Maximum time that a cache is behind the store.
const LAG_MAX_MS: i64 = 5_000;
/// Number of writes that the cache of an added server has not seen.
const WRITES_BEHIND: u64 = 10;
/// Keeps the lags apart from the other random choices of a seed.
const LAG_SEED: u64 = 0x6c61_6773;

/// The API servers and the connections to them.
#[derive(Debug)]
pub(crate) struct ApiServers {
    servers: Vec<ApiServer>,
    /// The versions of the store that some cache has not seen, with the times of the writes.
    unseen: VecDeque<(Timestamp, u64)>,
    /// The server that each replica is connected to.
    connections: BTreeMap<u64, usize>,
}

#[derive(Debug)]
struct ApiServer {
    /// How far the cache is behind the store. It is never behind if this is 0.
    lag_ms: i64,
    cache: WatchCache,
    /// The last restart.
    outage: Option<Outage>,
}

impl ApiServers {
    /// Draws the lags of this number of servers. A single server is never behind.
    pub(crate) fn new(count: u32, seed: u64) -> Self {
        let rng = &mut Pcg64Mcg::seed_from_u64(seed ^ LAG_SEED);
        let lag = |rng: &mut Pcg64Mcg| match rng.random_range(0..3) {
            0 => 0,
            1 => rng.random_range(20..500),
            _ => rng.random_range(500..LAG_MAX_MS),
        };
        let server = |_| ApiServer {
            lag_ms: if count > 1 { lag(rng) } else { 0 },
            cache: WatchCache::at(0),
            outage: None,
        };
        Self {
            servers: (0..count.max(1)).map(server).collect(),
            unseen: VecDeque::new(),
            connections: BTreeMap::new(),
        }
    }

    /// Adds a server that is behind the store, and connects a replica to it. Returns after how many
    /// milliseconds its cache has what the store has now.
    pub(crate) fn connect_to_older(&mut self, replica: u64, now: Timestamp, store: &Store) -> i64 {
        let newest = store.resource_version();
        let cache = WatchCache::at(newest.saturating_sub(WRITES_BEHIND));
        self.unseen.push_back((now, newest));
        self.connections.insert(replica, self.servers.len());
        self.servers.push(ApiServer { lag_ms: LAG_MAX_MS, cache, outage: None });
        LAG_MAX_MS
    }

    /// Connects a replica to one of the servers.
    pub(crate) fn reconnect(&mut self, replica: u64, rng: &mut Pcg64Mcg) {
        if self.servers.len() > 1 {
            self.connections.insert(replica, rng.random_range(0..self.servers.len()));
        }
    }

    /// The number of the server that a replica is connected to. A new replica connects to one.
    pub(crate) fn server_of(&mut self, replica: u64, rng: &mut Pcg64Mcg) -> usize {
        if !self.connections.contains_key(&replica) {
            self.reconnect(replica, rng);
        }
        self.connections.get(&replica).copied().unwrap_or_default()
    }

    /// The last restart of a server.
    pub(crate) fn outage(&mut self, server: usize) -> &mut Option<Outage> {
        &mut self.servers[server].outage
    }

    /// True if there is more than one server.
    pub(crate) fn are_several(&self) -> bool {
        self.servers.len() > 1
    }

    /// True if the cache of a server may be behind the store.
    pub(crate) fn may_be_behind(&self) -> bool {
        self.servers.iter().any(|server| server.lag_ms > 0)
    }

    /// The state of the store that the cache of a server has reached.
    pub(crate) fn cache(&self, server: usize, store: &Store) -> WatchCache {
        match &self.servers[server] {
            ApiServer { lag_ms: 0, .. } => WatchCache::at(store.resource_version()),
            behind => behind.cache,
        }
    }

    /// Notes the version that the store has reached. Returns the times, in milliseconds from now,
    /// at which caches see it.
    pub(crate) fn note_version(&mut self, now: Timestamp, version: u64) -> Vec<i64> {
        let is_known = self.unseen.back().is_some_and(|(_, known)| *known >= version);
        if is_known || !self.may_be_behind() {
            return Vec::new();
        }
        self.unseen.push_back((now, version));
        self.servers.iter().map(|server| server.lag_ms).filter(|lag_ms| *lag_ms > 0).collect()
    }

    /// Lets each cache see what was written early enough.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        for server in &mut self.servers {
            let is_seen = |(at, _): &&(Timestamp, u64)| at.0 + server.lag_ms <= now.0;
            if let Some((_, version)) = self.unseen.iter().rev().find(is_seen) {
                server.cache.advance(*version);
            }
        }
        // The last version stays, so that it is not noted again.
        while let [(_, _), (at, _), ..] = self.unseen.make_contiguous()
            && at.0 + LAG_MAX_MS < now.0
        {
            self.unseen.pop_front();
        }
    }
}
