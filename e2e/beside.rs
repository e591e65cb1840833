//! Guarded rollouts beside the built-in controller (G18–G20): in sandboxes, whose built-in
//! controller is everynode without policies, or on a cluster whose own DaemonSet controller runs.
//! The guard has exactly the rights of deploy/beside.

mod failure;
mod night;
mod overrides;
mod strategy;
mod waves;
