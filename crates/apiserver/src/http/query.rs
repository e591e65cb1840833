//! Query parameters, parsed once and refused with upstream's messages.

use crate::status::Status;

use super::percent;

/// All parameters of a request; an absent one is `None`, false or the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub label_selector: String,
    pub field_selector: String,
    pub limit: Option<u64>,
    pub continue_token: String,
    pub resource_version: String,
    pub resource_version_match: String,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
    /// The values of `dryRun`. Only writes have them, and refuse others than `All`.
    pub dry_run: Vec<String>,
    /// Empty if the request states none.
    pub field_validation: String,
    /// Empty if the request names none.
    pub field_manager: String,
    /// True if an apply takes fields from other managers.
    pub force: Option<bool>,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub include_object: IncludeObject,
    /// True if a health check has the parameter `verbose`, with any value.
    pub verbose: bool,
}

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The part of each object that a table row contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl Parameters {
    /// The treatment of unknown and duplicate fields; `None` if it is not supported.
    pub(crate) fn field_validation(&self) -> Option<FieldValidation> {
        match self.field_validation.as_str() {
            "Ignore" => Some(FieldValidation::Ignore),
            "" | "Warn" => Some(FieldValidation::Warn),
            "Strict" => Some(FieldValidation::Strict),
            _ => None,
        }
    }
}

/// Maximum number of parameters; clients send far fewer.
const PARAMETERS_MAX: usize = 64;

/// Parses a query string. If a parameter is repeated, the last value counts, except of `dryRun`.
pub(crate) fn parse(query: &str) -> Result<Parameters, Status> {
    let mut parameters = Parameters::default();
    for (index, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
        if index == PARAMETERS_MAX {
            return Err(Status::bad_request("too many query parameters"));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (percent::decode(name, true), percent::decode(value, true))
        else {
            return Err(Status::bad_request(format!("invalid URL escape in query {pair:?}")));
        };
        set(&mut parameters, &name, value)?;
    }
    Ok(parameters)
}

fn set(parameters: &mut Parameters, name: &str, value: String) -> Result<(), Status> {
    match name {
        "labelSelector" => parameters.label_selector = value,
        "fieldSelector" => parameters.field_selector = value,
        "limit" => parameters.limit = limit(&value)?,
        "continue" => parameters.continue_token = value,
        "resourceVersion" => parameters.resource_version = value,
        "resourceVersionMatch" => parameters.resource_version_match = value,
        "watch" => parameters.watch = flag(&value),
        "allowWatchBookmarks" => parameters.allow_watch_bookmarks = flag(&value),
        "sendInitialEvents" => parameters.send_initial_events = Some(flag(&value)),
        "timeoutSeconds" => parameters.timeout_seconds = integer(&value)?.map(clamp),
        "dryRun" => parameters.dry_run.push(value),
        "fieldValidation" => parameters.field_validation = value,
        "fieldManager" => parameters.field_manager = value,
        "force" => parameters.force = Some(flag(&value)),
        "gracePeriodSeconds" => parameters.grace_period_seconds = integer(&value)?,
        "propagationPolicy" => parameters.propagation_policy = Some(value),
        "orphanDependents" => parameters.orphan_dependents = Some(flag(&value)),
        "includeObject" => parameters.include_object = include_object(&value)?,
        "verbose" => parameters.verbose = true,
        // As upstream: unknown parameters are ignored.
        _ => {}
    }
    Ok(())
}

/// Upstream's conversion of a boolean parameter: `false` and `0` are false, any other value is
/// true.
fn flag(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

fn integer(value: &str) -> Result<Option<i64>, Status> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|error: std::num::ParseIntError| {
        let cause = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                "value out of range"
            }
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: {cause}"))
    })
}

fn limit(value: &str) -> Result<Option<u64>, Status> {
    Ok(integer(value)?.map(clamp).filter(|limit| *limit > 0))
}

fn clamp(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn include_object(value: &str) -> Result<IncludeObject, Status> {
    match value {
        "None" => Ok(IncludeObject::None),
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "Object" => Ok(IncludeObject::Object),
        other => Err(Status::bad_request(format!("unrecognized includeObject value: {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(query: &str) -> String {
        parse(query).expect_err(query).message.clone()
    }

    /// S4, S6, S7: parameters are read by their upstream names.
    #[test]
    fn parameters_are_read_by_name() {
        let parameters = parse(
            "labelSelector=app%3Dweb,tier+in+(a,b)&limit=500&watch=1&timeoutSeconds=5\
             &sendInitialEvents=true&fieldValidation=Strict&dryRun=All&unknown=x",
        )
        .expect("a good query");
        assert_eq!(parameters.label_selector, "app=web,tier in (a,b)");
        assert_eq!(parameters.limit, Some(500));
        assert!(parameters.watch && parameters.dry_run == ["All"]);
        assert_eq!(parameters.timeout_seconds, Some(5));
        assert_eq!(parameters.send_initial_events, Some(true));
        assert_eq!(parameters.field_validation(), Some(FieldValidation::Strict));
    }

    /// S4, S12: an invalid parameter is refused by name.
    #[test]
    fn invalid_parameters_are_refused_by_name() {
        assert_eq!(message("limit=x"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(
            message("limit=99999999999999999999"),
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"
        );
        assert_eq!(
            message("labelSelector=%ff"),
            "invalid URL escape in query \"labelSelector=%ff\""
        );
        assert_eq!(message(&"a=b&".repeat(1000)), "too many query parameters");
    }

    proptest! {
        #[test]
        fn arbitrary_queries_do_not_panic(query in "\\PC*") {
            let _ = parse(&query);
        }
    }
}
