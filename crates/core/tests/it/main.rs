//! The tests of the crate's interface, in one program. `tests/memory.rs` is one of its own, because
//! it counts what the allocator gives.

mod beside;
mod cost;
mod guarded;
mod overrides;
mod placement;
mod properties;
mod reference;
mod replacement;
mod running_overrides;
mod shared_nodes;
mod support;
mod transcript;
mod transcripts;
mod waiting;
