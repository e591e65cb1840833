//! YAML as kubectl reads it: version 1.1 of the language, in which `0400` is octal and `yes` is
//! true.

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Options};

/// Parses one document.
///
/// # Errors
///
/// The text is not YAML, or does not have the form of `T`.
pub fn document<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(text, options())
}

/// Parses the documents of a stream without the empty ones.
///
/// # Errors
///
/// The text is not YAML, or does not have the form of `T`.
pub fn documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, Error> {
    serde_saphyr::from_multiple_with_options(text, options())
}

/// The parser options for manifests.
pub fn options() -> Options {
    serde_saphyr::options! { legacy_octal_numbers: true }
}

#[cfg(test)]
mod tests {
    use crate::json::{Value, json};

    /// S4: scalars have the values that kubectl reads.
    #[test]
    fn scalars_parse_as_in_kubectl() {
        let text = "a: 0400\nb: yes\nc: 1.5\nd: ~\ne: '0400'\nf: 10\ng: 0x10\n---\nh: off";
        let read: Vec<Value> = super::documents(text).expect("it is YAML");
        let first =
            json!({"a": 256, "b": true, "c": 1.5, "d": null, "e": "0400", "f": 10, "g": 16});
        assert_eq!(read, vec![first, json!({"h": false})]);
    }
}
