//! Which addresses and node ports Services have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use crate::json::Value;

use super::super::index::Summary;
use crate::object::Object;
use crate::value::{array, integer, string};

/// 10.96.0.0/16 without its network and broadcast addresses.
const ADDRESSES: RangeInclusive<u32> = 0x0a60_0001..=0x0a60_fffe;
const NODE_PORTS: RangeInclusive<u32> = 30_000..=32_767;

/// The numbers of a range, and how often each one is in use.
#[derive(Debug)]
pub(super) struct Numbers {
    range: RangeInclusive<u32>,
    uses: BTreeMap<u32, usize>,
    /// All free numbers below `next`.
    freed: BTreeSet<u32>,
    /// The first number that was never the lowest free one. It only grows.
    next: u32,
}

impl Numbers {
    fn of(range: RangeInclusive<u32>) -> Self {
        let next = *range.start();
        Self { range, uses: BTreeMap::new(), freed: BTreeSet::new(), next }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.range.contains(&number)
    }

    pub(super) fn is_taken(&self, number: u32) -> bool {
        self.uses.contains_key(&number)
    }

    /// Counts a use of a number of the range.
    pub(super) fn take(&mut self, number: u32) {
        *self.uses.entry(number).or_default() += 1;
        self.freed.remove(&number);
    }

    /// Ends a use that was counted.
    pub(super) fn release(&mut self, number: u32) {
        let Some(uses) = self.uses.get_mut(&number) else { return };
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(&number);
            if number < self.next {
                self.freed.insert(number);
            }
        }
    }

    /// The lowest number without a use.
    pub(super) fn lowest_free(&mut self) -> Option<u32> {
        while self.freed.is_empty() {
            if !self.contains(self.next) {
                return None;
            }
            if !self.is_taken(self.next) {
                self.freed.insert(self.next);
            }
            self.next += 1;
        }
        self.freed.first().copied()
    }
}

/// The addresses and the node ports that Services have.
#[derive(Debug)]
pub(in super::super) struct Taken {
    pub(super) addresses: Numbers,
    pub(super) node_ports: Numbers,
}

impl Default for Taken {
    fn default() -> Self {
        Self { addresses: Numbers::of(ADDRESSES), node_ports: Numbers::of(NODE_PORTS) }
    }
}

impl Taken {
    pub(super) fn add(&mut self, service: &Value) {
        for_each_number(self, service, Numbers::take);
    }

    pub(super) fn remove(&mut self, service: &Value) {
        for_each_number(self, service, Numbers::release);
    }
}

impl Summary for Taken {
    fn add(&mut self, service: &Object) {
        Taken::add(self, &service.read());
    }

    fn remove(&mut self, service: &Object) {
        Taken::remove(self, &service.read());
    }
}

fn for_each_number(taken: &mut Taken, service: &Value, count: impl Fn(&mut Numbers, u32)) {
    if let Some(address) = address(string(service, "/spec/clusterIP"))
        && taken.addresses.contains(address)
    {
        count(&mut taken.addresses, address);
    }
    let ports = array(service, "/spec/ports").iter().map(|port| integer(port, "/nodePort"));
    for port in ports.chain([integer(service, "/spec/healthCheckNodePort")]) {
        if let Some(port) = u32::try_from(port).ok().filter(|port| taken.node_ports.contains(*port))
        {
            count(&mut taken.node_ports, port);
        }
    }
}

/// The number of an address.
pub(super) fn address(text: &str) -> Option<u32> {
    text.parse::<Ipv4Addr>().ok().map(u32::from)
}
