//! Checks of names, labels, port names and other strings. Each function returns the errors with the
//! messages of apimachinery's `util/validation`.

use base64::prelude::{BASE64_STANDARD, Engine};

const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
    '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric \
    characters or '-', start with an alphabetic character, and end with an alphanumeric character \
    (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
pub(crate) const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower \
    case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
    character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
pub(crate) const KEY_NAME_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
pub(crate) const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of \
    alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
    character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// True if a format of texts means something in OpenAPI schemas.
pub fn is_known(format: &str) -> bool {
    const KNOWN: &[&str] = &[
        "bsonobjectid",
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "isbn",
        "isbn10",
        "isbn13",
        "creditcard",
        "ssn",
        "hexcolor",
        "rgbcolor",
        "byte",
        "password",
        "date",
        "duration",
        "datetime",
        "k8sshortname",
        "k8slongname",
    ];
    KNOWN.contains(&format.replace('-', "").as_str())
}

/// True if a text has a format of OpenAPI schemas. Any text has a format that is not known.
pub fn is_of(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(address, bits)| {
            let max = match address.parse::<std::net::IpAddr>() {
                Ok(std::net::IpAddr::V4(_)) => 32,
                Ok(std::net::IpAddr::V6(_)) => 128,
                Err(_) => return false,
            };
            bits.parse::<u8>().is_ok_and(|bits| bits <= max)
        }),
        "uuid" => {
            let digits = text.bytes().filter(|byte| *byte != b'-');
            digits.clone().count() == 32 && digits.clone().all(|byte| byte.is_ascii_hexdigit())
        }
        "byte" => BASE64_STANDARD.decode(text).is_ok(),
        "duration" => is_duration(text),
        _ => true,
    }
}

/// True if a text is a duration: numbers with units, such as `1h30m`, `1.5s` and `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: &[&str] = &[
        "ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "sec", "second", "seconds", "min",
        "minute", "minutes", "hr", "hour", "hours", "day", "days", "week", "weeks",
    ];
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let is_digit = |character: char| character.is_ascii_digit() || character == '.';
        let after_number = rest.trim_start_matches(is_digit);
        let after_space = after_number.trim_start_matches(' ');
        let after_unit = after_space.trim_start_matches(|letter: char| letter.is_alphabetic());
        let unit = &after_space[..after_space.len() - after_unit.len()];
        if after_number.len() == rest.len() || !UNITS.contains(&unit) {
            return false;
        }
        rest = after_unit.trim_start_matches(' ');
    }
    true
}

/// An RFC 1123 label: at most 63 lower case alphanumeric characters and dashes.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63);
    if !is_dns_label(text) {
        let dots_only = is_dns_subdomain(text);
        wrong.push(if dots_only { "must not contain dots" } else { LABEL_MESSAGE }.to_owned());
    }
    wrong
}

/// RFC 1123 labels joined by dots, at most 253 characters.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 253);
    if !is_dns_subdomain(text) {
        wrong.push(SUBDOMAIN_MESSAGE.to_owned());
    }
    wrong
}

/// The name of an object, which must be a subdomain. A `prefix` may end with a dash, because more
/// characters follow.
pub fn subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    dns_subdomain(&mask_trailing_dash(name, prefix))
}

/// The name of an object that must be a label (a namespace).
pub fn label_name(name: &str, prefix: bool) -> Vec<String> {
    dns_label(&mask_trailing_dash(name, prefix))
}

/// An RFC 1035 label, which starts with a letter.
pub(crate) fn dns_1035(name: &str, prefix: bool) -> Vec<String> {
    let name = mask_trailing_dash(name, prefix);
    let mut wrong = too_long(&name, 63);
    if !is_dns_label(&name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        wrong.push(LABEL_1035_MESSAGE.to_owned());
    }
    wrong
}

/// A name that is valid in the path of a URL.
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|forbidden| name.contains(*forbidden))
        .map(|forbidden| format!("may not contain '{forbidden}'"))
        .collect()
}

/// A label key (a qualified name): an optional DNS prefix, and a name of at most 63 characters.
pub fn label_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        ["", name] => {
            wrong.push("prefix part must be non-empty".to_owned());
            *name
        }
        [prefix, name] => {
            wrong.extend(
                dns_subdomain(prefix).into_iter().map(|message| format!("prefix part {message}")),
            );
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {KEY_NAME_MESSAGE} with an optional DNS subdomain prefix and \
                 '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_key_name(name) {
        wrong.push(format!("name part {KEY_NAME_MESSAGE}"));
    }
    wrong
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, 63);
    if !value.is_empty() && !is_key_name(value) {
        wrong.push(LABEL_VALUE_MESSAGE.to_owned());
    }
    wrong
}

/// A key of a ConfigMap or Secret.
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut wrong = too_long(key, 253);
    if key.is_empty()
        || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    {
        wrong.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
             'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
             '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// The name of an environment variable, by the relaxed rules since 1.34.
pub fn env_var_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if name.chars().any(|character| !(' '..='~').contains(&character) || character == '=') {
        return vec![
            "a valid environment variable name must consist only of printable ASCII characters \
             other than '='"
                .to_owned(),
        ];
    }
    Vec::new()
}

/// A port number.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// The name of a container port (an IANA service name in lower case).
pub fn port_name(name: &str) -> Vec<String> {
    let mut wrong = too_long(name, 15);
    if name.is_empty() || !name.bytes().all(is_label_byte) {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// A number within a range.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        Vec::new()
    } else {
        vec![format!("must be between {low} and {high}, inclusive")]
    }
}

/// A user or group ID.
pub fn unix_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

/// A percentage: `10%`.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or("");
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    vec![
        "a valid percent string must be a numeric string followed by an ending '%' \
         (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            .to_owned(),
    ]
}

/// The name of an HTTP header.
pub fn http_header_name(name: &str) -> Vec<String> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' \
         (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            .to_owned(),
    ]
}

/// An IP address.
pub fn ip(text: &str) -> Vec<String> {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
}

/// A relative path without `..` elements.
pub fn descending_path(path: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if path.starts_with('/') {
        wrong.push("must be a relative path".to_owned());
    }
    wrong.extend(no_backsteps(path));
    wrong
}

/// A relative path without `..` elements, whose first element does not start with `..` either.
pub fn local_path(path: &str) -> Vec<String> {
    let mut wrong = descending_path(path);
    if path.starts_with("..") && !path.starts_with("../") {
        wrong.push("must not start with '..'".to_owned());
    }
    wrong
}

/// A path without `..` elements.
pub fn no_backsteps(path: &str) -> Vec<String> {
    if path.split('/').any(|part| part == "..") {
        vec!["must not contain '..'".to_owned()]
    } else {
        Vec::new()
    }
}

/// The permission bits of a file.
pub fn file_mode(mode: i64) -> Vec<String> {
    if (0..=0o777).contains(&mode) {
        Vec::new()
    } else {
        vec!["must be a number between 0 and 0777 (octal), both inclusive".to_owned()]
    }
}

fn too_long(text: &str, length_max: usize) -> Vec<String> {
    if text.len() > length_max {
        vec![format!("must be no more than {length_max} characters")]
    } else {
        Vec::new()
    }
}

fn mask_trailing_dash(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        // Upstream replaces the last two characters, not only the dash.
        Some(rest) if prefix && !rest.is_empty() => {
            let cut = rest.char_indices().next_back().map_or(0, |(index, _)| index);
            format!("{}a", &rest[..cut])
        }
        _ => name.to_owned(),
    }
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(is_label_byte)
}

/// A subdomain, but for its length.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

/// The name of a label key, but for its length.
pub(crate) fn is_key_name(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(name.as_bytes().first())
        && edge(name.as_bytes().last())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S15: formats of schemas are checked, and unknown ones allow anything.
    #[test]
    fn formats_are_checked() {
        for (format, good, bad) in [
            ("date-time", "2026-01-01T00:00:00Z", "2026-01-01"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/40"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
            ("byte", "eA==", "x"),
            ("duration", "1h30m", "x"),
            ("duration", "3 days", "3"),
        ] {
            assert!(is_of(format, good) && !is_of(format, bad), "{format}");
        }
        assert!(is_of("unknown", "x"));
    }
}
