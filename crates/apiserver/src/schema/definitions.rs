//! The OpenAPI schemas of all built-in types, under upstream's names.

use std::io::Read as _;

use flate2::read::GzDecoder;

use crate::json::Map;

/// The definitions that `cargo xtask kubernetes` makes of upstream's types; their descriptions are
/// upstream's text.
const DEFINITIONS: &[u8] = include_bytes!("definitions.json.gz");

/// All definitions by name. References have the form `#/definitions/NAME`.
pub fn definitions() -> Map {
    let mut text = Vec::new();
    let mut decoder = GzDecoder::new(DEFINITIONS);
    decoder.read_to_end(&mut text).expect("the file is compressed by gzip");
    serde_json::from_slice(&text).expect("the file is an object in JSON")
}
