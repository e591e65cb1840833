//! Cargo as a subprocess.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Variables that `cargo run` sets for this program. Build scripts read some of them (that of ring
/// does), so cargo would build their packages anew after each call of cargo by hand.
const OF_THIS_PACKAGE: [&str; 7] = [
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_LINKS",
    "CARGO_PKG_NAME",
    "CARGO_PKG_VERSION_MAJOR",
    "CARGO_PKG_VERSION_MINOR",
    "CARGO_PKG_VERSION_PATCH",
    "CARGO_PKG_VERSION_PRE",
];

/// The cargo that runs this program, in this directory, with the environment of a call by hand.
pub(crate) fn command(directory: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(directory);
    OF_THIS_PACKAGE.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}
