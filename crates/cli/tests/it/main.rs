//! The tests of the program that need no cluster. Those with one are the package `everynode-e2e`.

#![forbid(unsafe_code)]

mod bad_input;
mod program;
mod streams;
