//! The stories (`make e2e-nodes`, `make night`), by what is done.

mod clients;
mod containers;
mod cost;
mod faults;
mod guarded;
mod handover;
mod in_place;
mod installation;
mod placement;
mod rollout;
mod room;
mod soak;
mod strategy;
