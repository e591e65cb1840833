//! Get, list and watch.

use http::{Response, StatusCode};

use super::Request;
use crate::http::query::Parameters;
use crate::http::respond::Body;
use crate::http::{render, watch};
use crate::selector::{FieldSelector, LabelSelector, Selector, SelectorError};
use crate::status::Status;
use crate::store::{ListOptions, ResourceVersionMatch};

/// Maximum number of requirements of a selector: a list compares each with every object.
const REQUIREMENTS_MAX: usize = 200;

impl Request<'_> {
    pub(super) fn get(&self, name: &str) -> Result<Response<Body>, Status> {
        let (form, call) = (self.form()?, self.call);
        let required = resource_version(&call.parameters.resource_version)?;
        let object = self.shared.read(|store| {
            let cache = call.read_faults.cache(store, &call.api_server, required);
            cache.get(store, self.kind, self.namespace(), name, required)
        })?;
        let include = call.parameters.include_object;
        Ok(render::object(self.kind, &object, form, include, StatusCode::OK))
    }

    pub(super) fn list(&self) -> Result<Response<Body>, Status> {
        let (form, call) = (self.form()?, self.call);
        let options = self.list_options()?;
        let required = options.resource_version;
        let list = self.shared.read(|store| {
            let cache = call.read_faults.cache(store, &call.api_server, required);
            cache.list(store, self.kind, &options)
        })?;
        Ok(render::list(self.kind, &list, form, call.parameters.include_object))
    }

    pub(super) fn watch(&self) -> Result<Response<Body>, Status> {
        let (form, parameters) = (self.form()?, &self.call.parameters);
        let start = watch::start(parameters)?;
        let selector = self.selector()?;
        selector.fields.check(self.kind)?;
        watch::response(
            self.shared,
            watch::WatchRequest {
                kind: self.kind,
                selector,
                form,
                include_object: parameters.include_object,
                start,
                bookmarks: parameters.allow_watch_bookmarks,
                timeout_seconds: parameters.timeout_seconds,
                api_server: self.call.api_server.clone(),
                read_faults: self.call.read_faults,
            },
        )
    }

    pub(super) fn list_options(&self) -> Result<ListOptions, Status> {
        let parameters = &self.call.parameters;
        let resource_version = resource_version(&parameters.resource_version)?;
        let resource_version_match = match parameters.resource_version_match.as_str() {
            "" => None,
            "Exact" => Some(ResourceVersionMatch::Exact),
            "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
            other => {
                return Err(watch::invalid_options(format!(
                    "resourceVersionMatch: Unsupported value: {other:?}: supported values: \
                     \"Exact\", \"NotOlderThan\", \"\""
                )));
            }
        };
        check_match(parameters, resource_version, resource_version_match)?;
        let continue_token = &parameters.continue_token;
        Ok(ListOptions {
            selector: self.selector()?,
            limit: parameters.limit.map_or(0, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            continue_token: (!continue_token.is_empty()).then(|| continue_token.clone()),
            resource_version,
            resource_version_match,
        })
    }

    fn selector(&self) -> Result<Selector, Status> {
        let refuse = |error: SelectorError| Status::bad_request(error.to_string());
        let namespace = self.namespace.filter(|namespace| !namespace.is_empty());
        let labels = LabelSelector::parse(&self.call.parameters.label_selector).map_err(refuse)?;
        let fields = FieldSelector::parse(&self.call.parameters.field_selector).map_err(refuse)?;
        if labels.len().max(fields.len()) > REQUIREMENTS_MAX {
            let message = format!("a selector can have at most {REQUIREMENTS_MAX} requirements");
            return Err(Status::bad_request(message));
        }
        Ok(Selector { namespace: namespace.map(str::to_owned), labels, fields })
    }
}

/// Refuses the combinations of parameters that upstream forbids.
fn check_match(
    parameters: &Parameters,
    resource_version: Option<u64>,
    matching: Option<ResourceVersionMatch>,
) -> Result<(), Status> {
    if parameters.send_initial_events.is_some() {
        return Err(watch::invalid_options(
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ));
    }
    let Some(matching) = matching else { return Ok(()) };
    let is_forbidden = if resource_version.is_none() {
        "is forbidden unless resourceVersion is provided"
    } else if !parameters.continue_token.is_empty() {
        "is forbidden when continue is provided"
    } else if matching == ResourceVersionMatch::Exact && resource_version == Some(0) {
        "\"exact\" is forbidden for resourceVersion \"0\""
    } else {
        return Ok(());
    };
    Err(watch::invalid_options(format!(
        "resourceVersionMatch: Forbidden: resourceVersionMatch {is_forbidden}"
    )))
}

/// Parses a resourceVersion; `None` if it is empty.
pub(super) fn resource_version(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        watch::invalid_options(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: \
             invalid syntax"
        ))
    })
}
