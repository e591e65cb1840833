//! How the values of a policy are written: the parts of the schema from which its parser, the
//! definitions of policies and their reference are made (G4).
//!
//! A schema has the keywords of definitions; `default`; `propertyNames`; `title`, which names the
//! type for people; and three keywords of its own: `x-reason` says why a value is wrong that does
//! not match the schema; `x-forms` are patterns that a value must match first, each with a reason;
//! `x-at-least` is the shortest duration. A rule without CEL is one that definitions cannot check.

use std::time::Duration;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// The pattern of a DNS subdomain, as most objects are named.
pub const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                         ([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$";
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// The scheme, the host and the port of a URL.
const ORIGIN: &str = "^https?://([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])\
                      (:(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|\
                      [1-5][0-9]{4}|[1-9][0-9]{0,3}))?";

/// The messages of rules, by which the parser knows them.
pub mod rule {
    /// Of a requirement of a label selector.
    pub const VALUES: &str = "In and NotIn need values, Exists and DoesNotExist take none";
    /// Of `upTo`.
    pub const GROWING: &str = "must be greater than the items before";
    /// Of a window.
    pub const DIFFERENT_TIMES: &str = "from and to must be different times";
    /// Of `timeZone`.
    pub const TIME_ZONE: &str =
        "must be the name of a time zone of the IANA database, such as Europe/Berlin";
    /// Of `prometheus`.
    pub const A_BOUND: &str = "at least one of min and max is required";
    /// Of `prometheus`.
    pub const ORDERED_BOUNDS: &str = "min must not be greater than max";
    /// Of the checks of steps.
    pub const KNOWN_CHECKS: &str = "must be the name of one of the policy's checks";
    /// Of the checks of `finally`.
    pub const KNOWN_LAST_CHECKS: &str = "must be names of the policy's checks";
    /// Of the names of steps.
    pub const FINALLY_IS_NO_STEP: &str =
        "must not be finally, by which orders name the last wave of a policy that has finally";
    /// Of `update`.
    pub const IN_PLACE_ONLY_FAILS: &str =
        "must not be InPlaceOnly without failure: nodes whose pods cannot be changed fail";
    /// Of `config`.
    pub const SOME_CONFIG_RULE: &str = "at least one of require and configMaps is required";
    /// Of `settle` and `except` in `config`.
    pub const ONLY_WITH_COPIES: &str = "settle and except require configMaps";
    /// Of a step.
    pub const BY_OR_EACH: &str = "must not be set with by";
    /// Of `daemonSets`.
    pub const ONE_TARGET: &str = "exactly one of name and selector is required";
}

/// Implements `JsonSchema` for a type by a function.
macro_rules! schema_of {
    ($name:ident, $function:expr) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $function(generator)
            }
        }
    };
}
pub(super) use schema_of;

/// A text of a certain form.
pub fn text(title: &str, pattern: &str, length_max: u32, reason: &str) -> Schema {
    json_schema!({
        "type": "string",
        "title": title,
        "maxLength": length_max,
        "pattern": pattern,
        "x-reason": reason,
    })
}

pub(super) fn name(_: &mut SchemaGenerator) -> Schema {
    let reason = "must consist of lower case letters, digits and '-', at most 63, and start and \
                  end with a letter or digit";
    text("name", DNS_LABEL, 63, reason)
}

pub(super) fn override_name(_: &mut SchemaGenerator) -> Schema {
    let reason = "must consist of lower case letters, digits and '-', at most 40, and start and \
                  end with a letter or digit";
    // With a hash it is the value of a label.
    text("name", DNS_LABEL, 40, reason)
}

pub(super) fn kubelet_version(_: &mut SchemaGenerator) -> Schema {
    text("version", "^[0-9]{1,2}[.][0-9]{1,2}$", 5, "must be a version such as \"1.35\"")
}

pub(super) fn arguments(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "atomic",
        "items": { "type": "string", "maxLength": 4096 },
    })
}

pub(super) fn image(_: &mut SchemaGenerator) -> Schema {
    text("image", "^[^ \t\r\n]+$", 1024, "must be the name of an image, without spaces")
}

pub(super) fn variable_name(_: &mut SchemaGenerator) -> Schema {
    let reason = "must be the name of a variable: letters, digits, '-', '_' and '.', and not begin \
                  with a digit";
    text("name", "^[-._a-zA-Z][-._a-zA-Z0-9]*$", 253, reason)
}

pub(super) fn variable_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 8192 })
}

/// Amounts by resource.
pub(super) fn amounts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "propertyNames": text("resource", LABEL_KEY, 253, "must be the name of a resource"),
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "title": "quantity",
            "minimum": 0,
            "maxLength": 32,
            "pattern": "^([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$",
            "x-reason": "must be a quantity such as 100m or 128Mi",
        },
    })
}

pub(super) fn check_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string",
            "maxLength": 63,
            "x-reason": "must be the name of a check",
        },
    })
}

pub(super) fn config_requirement(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["hashedNames"] })
}

pub(super) fn config_maps(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["snapshot"] })
}

pub(super) fn config_map_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "set",
        "items": text("name", SUBDOMAIN, 253, "must be the name of a ConfigMap"),
    })
}

pub(super) fn update_method(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["Replace", "InPlaceIfPossible", "InPlaceOnly"] })
}

pub(super) fn cron_job(_: &mut SchemaGenerator) -> Schema {
    // So that the names of its Jobs fit.
    text("name", SUBDOMAIN, 52, "must be the name of a CronJob, of at most 52 characters")
}

pub(super) fn label_key(_: &mut SchemaGenerator) -> Schema {
    text("label key", LABEL_KEY, 317, "must be the key of a label")
}

pub(super) fn label_keys(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": label_key(generator),
    })
}

pub(super) fn label_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 63,
        "pattern": LABEL_VALUE,
        "x-reason": "must be the value of a label",
    })
}

pub(super) fn label_values(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "atomic",
        "items": label_value(generator),
    })
}

pub(super) fn labels(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "propertyNames": label_key(generator),
        "additionalProperties": label_value(generator),
    })
}

pub(super) fn decimal(_: &mut SchemaGenerator) -> Schema {
    let reason = "must be a decimal number as text, such as \"0.01\"";
    text("number as text", r"^-?[0-9]+(\.[0-9]+)?$", 32, reason)
}

pub(super) fn opening(_: &mut SchemaGenerator) -> Schema {
    let reason = "must be a time from 00:00 to 23:59";
    text("time", "^([01][0-9]|2[0-3]):[0-5][0-9]$", 5, reason)
}

pub(super) fn closing(_: &mut SchemaGenerator) -> Schema {
    let reason = "must be a time from 00:00 to 24:00";
    text("time", "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", 5, reason)
}

pub(super) fn time_zone(_: &mut SchemaGenerator) -> Schema {
    let pattern = "^[A-Za-z][-+_A-Za-z0-9]*(/[A-Za-z][-+_A-Za-z0-9]*)*$";
    text("time zone", pattern, 64, rule::TIME_ZONE)
}

/// A URL that may have a query.
pub(super) fn url(_: &mut SchemaGenerator) -> Schema {
    url_with("([/?][A-Za-z0-9._~:/@!$&'()*+,;=%?-]*)?$", &[])
}

pub(super) fn url_without_query(_: &mut SchemaGenerator) -> Schema {
    let no_query = ("^[^?]*$", "must not have a query of its own");
    url_with("(/[A-Za-z0-9._~:/@!$&'()*+,;=%-]*)?$", &[no_query])
}

fn url_with(path: &str, forms: &[(&str, &str)]) -> Schema {
    let all = [
        ("^https?://", "must begin with http:// or https://"),
        ("^https?://[^/?#@]*([/?#]|$)", "must not contain credentials"),
        ("^[^#]*$", "must not have a fragment"),
    ];
    let reason = "must be a URL such as http://host:9090/path, of at most 2048 characters";
    let schema = text("URL", &format!("{ORIGIN}{path}"), 2048, reason);
    let forms = [all.as_slice(), forms].concat();
    with(schema, json_schema!({ "x-forms": forms }))
}

/// A number of nodes from 1 on, or a percentage from 1% on.
pub(super) fn positive(generator: &mut SchemaGenerator) -> Schema {
    let own = json_schema!({
        "minimum": 1,
        "pattern": "^(100|[1-9][0-9]?)%$",
        "x-forms": [["^(|[^0].*|0[^%].*|0%.+)$", "must be greater than 0"]],
    });
    with(int_or_percent(generator), own)
}

pub(super) fn int_or_percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "title": "number or percentage",
        "minimum": 0,
        "maximum": i32::MAX,
        "pattern": "^(100|[1-9]?[0-9])%$",
        "x-reason": "must be a number that is not negative, or a percentage from 0% to 100%",
    })
}

/// A duration such as `1h30m`: one to four numbers of at most five digits, each with a unit, as in
/// Kubernetes' Gateway API.
pub(super) fn duration(_: &mut SchemaGenerator) -> Schema {
    let reason = "must be a duration such as 90s, 30m or 1h30m";
    text("duration", "^([0-9]{1,5}(h|m|s|ms)){1,4}$", 32, reason)
}

/// The schema with these keywords in place of its own.
fn with(mut schema: Schema, keywords: Schema) -> Schema {
    let keywords = keywords.as_object().cloned().unwrap_or_default();
    keywords.into_iter().for_each(|(key, value)| drop(schema.insert(key, value)));
    schema
}

/// Reads a duration; `None` if it has another form.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut duration = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let number: u32 = number.parse().ok()?;
        let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        let (tail, millis) =
            units.iter().find_map(|(unit, millis)| Some((tail.strip_prefix(unit)?, *millis)))?;
        duration = duration.checked_add(Duration::from_millis(millis).checked_mul(number)?)?;
        rest = tail;
    }
    Some(duration)
}

/// For `deserialize_with` of a duration.
pub(super) fn read_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).ok_or_else(|| D::Error::custom("it is not a duration"))
}

/// For `deserialize_with` of an optional duration.
pub(super) fn read_optional_duration<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    read_duration(from).map(Some)
}
