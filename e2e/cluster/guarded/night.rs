//! Guarded rollouts that wait for half a minute and longer (`make night`).

mod failure;
mod windows;
