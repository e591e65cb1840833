//! The tests of the simulation, in one program. Those of [`night`] take long: `make night`.

mod bytes;
mod forecasts;
mod guarded;
mod night;
mod regressions;
mod scenario;
mod schedules;
