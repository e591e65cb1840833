//! The `everynode` program.

#![forbid(unsafe_code)]

fn main() {}
