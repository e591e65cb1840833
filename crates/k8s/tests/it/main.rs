//! The tests of the crate's interface, in one program.

mod arbitrary;
mod near_valid;
mod policies;
