//! The subresource `token` of service accounts, which `kubectl create token` asks for.

use everynode_core::api::Timestamp;
use http::{Response, StatusCode};

use super::Request;
use crate::clock::rfc3339;
use crate::http::authentication::TokenAccount;
use crate::http::decode;
use crate::http::negotiate;
use crate::http::respond::{self, Body};
use crate::http::shared::now;
use crate::json::{Value, json};
use crate::status::{Reason, Status};
use crate::value::{array, integer_maybe, is_set};

/// The default audience of a token: this server.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

impl Request<'_> {
    pub(super) fn request_token(&self, name: &str) -> Result<Response<Body>, Status> {
        let (call, namespace) = (self.call, self.namespace());
        let syntax = negotiate::body_syntax(&call.headers)?;
        let request = decode::decode(&call.body, syntax).map_err(Status::bad_request)?.value;
        let seconds = seconds(&request)?;
        if is_set(&request, "/spec/boundObjectRef") {
            return Err(Status::bad_request("the sandbox does not bind tokens to other objects"));
        }
        let account = self.shared.read(|store| store.get(self.kind, namespace, name))?;
        let account = TokenAccount {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: account.uid().to_owned(),
        };
        let issued_at = now();
        let expires = Timestamp::from_seconds(issued_at.as_millis().div_euclid(1000) + seconds);
        let audiences = audiences(&request);
        let is_for_us = audiences.iter().any(|audience| audience == AUDIENCE);
        // A token for other audiences is expired from the start, because these can't have it
        // reviewed by this server.
        let token = self.tokens.issue(&account, if is_for_us { expires } else { issued_at });
        let document = json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name, "namespace": namespace, "creationTimestamp": rfc3339(issued_at),
            },
            "spec":
                {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null},
            "status": {"token": token, "expirationTimestamp": rfc3339(expires)},
        });
        Ok(respond::json(StatusCode::CREATED, &document))
    }
}

fn seconds(request: &Value) -> Result<i64, Status> {
    let seconds = integer_maybe(request, "/spec/expirationSeconds").unwrap_or(SECONDS_DEFAULT);
    let detail = match seconds {
        ..SECONDS_MIN => "may not specify a duration less than 10 minutes",
        SECONDS_MIN..=SECONDS_MAX => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let message = format!("spec.expirationSeconds: Invalid value: {seconds}: {detail}");
    let message = format!("TokenRequest.authentication.k8s.io \"\" is invalid: {message}");
    Err(Status::new(Reason::Invalid, message))
}

fn audiences(request: &Value) -> Vec<String> {
    let audiences = array(request, "/spec/audiences").iter().filter_map(Value::as_str);
    let audiences: Vec<String> = audiences.map(str::to_owned).collect();
    if audiences.is_empty() { vec![AUDIENCE.to_owned()] } else { audiences }
}
