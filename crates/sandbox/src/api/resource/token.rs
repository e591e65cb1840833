//! Tokens of service accounts, which `kubectl create token` requests from `serviceaccounts/token`.
//! They are signed, as JWTs are, but are none.

use base64::engine::GeneralPurpose;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use everynode_core::api::Timestamp;
use http::{Method, Response, StatusCode};
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::call::Call;
use super::decode;
use super::negotiate;
use super::respond::{self, Body, method_not_allowed};
use super::route::ResourcePath;
use super::shared::{SharedCluster, now};
use crate::clock::rfc3339;
use crate::json::{Value, json};
use crate::kinds::SERVICE_ACCOUNT;
use crate::status::{Reason, Status};
use crate::value::{array, integer_maybe, is_set};

/// The default audience of a token: this server.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

/// The account that a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct TokenAccount {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// Issues tokens, and knows its own by their signature: none is kept.
pub(crate) struct Tokens(hmac::Key);

impl Tokens {
    /// Signs with a secret, which others must not know.
    pub(crate) fn signed_with(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// The account of a token; `None` if the token is unknown or expired.
    pub(crate) fn find(&self, token: &str) -> Option<TokenAccount> {
        let (claims, signature) = token.split_once('.')?;
        let (claims, signature) = (decoded(claims)?, decoded(signature)?);
        hmac::verify(&self.0, &claims, &signature).ok()?;
        let (account, expires): (TokenAccount, i64) = serde_json::from_slice(&claims).ok()?;
        (now().as_millis() < expires).then_some(account)
    }

    fn issue(&self, account: &TokenAccount, expires: Timestamp) -> String {
        let claims = serde_json::to_vec(&(account, expires.as_millis())).expect("it is texts");
        let signature = hmac::sign(&self.0, &claims);
        format!("{}.{}", TOKEN_TEXT.encode(&claims), TOKEN_TEXT.encode(signature))
    }
}

/// The form of the parts of a token.
const TOKEN_TEXT: GeneralPurpose = BASE64_URL_SAFE_NO_PAD;

fn decoded(part: &str) -> Option<Vec<u8>> {
    TOKEN_TEXT.decode(part).ok()
}

/// Whether a path requests a token.
pub(crate) fn is_request(path: &ResourcePath) -> bool {
    path.group == SERVICE_ACCOUNT.group
        && path.version == SERVICE_ACCOUNT.version
        && path.plural == SERVICE_ACCOUNT.plural
        && path.subresource.as_deref() == Some("token")
        && path.namespace.is_some()
}

pub(crate) fn handle(
    tokens: &Tokens,
    shared: &SharedCluster,
    path: &ResourcePath,
    call: &Call,
) -> Result<Response<Body>, Status> {
    if call.method != Method::POST {
        return Err(method_not_allowed());
    }
    let syntax = negotiate::body_syntax(&call.headers)?;
    let request = decode::decode(&call.body, syntax).map_err(Status::bad_request)?.value;
    let seconds = seconds(&request)?;
    if is_set(&request, "/spec/boundObjectRef") {
        return Err(Status::bad_request("the sandbox does not bind tokens to other objects"));
    }
    let namespace = path.namespace.as_deref().unwrap_or_default();
    let name = path.name.as_deref().unwrap_or_default();
    let account = shared.read(|store| store.get(&SERVICE_ACCOUNT, namespace, name))?;
    let account = TokenAccount {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: account.uid().to_owned(),
    };
    let issued_at = now();
    let expires = Timestamp::from_seconds(issued_at.as_millis().div_euclid(1000) + seconds);
    let audiences = audiences(&request);
    let is_for_us = audiences.iter().any(|audience| audience == AUDIENCE);
    // A token for other audiences is expired from the start, because these can't have it reviewed
    // by this server.
    let token = tokens.issue(&account, if is_for_us { expires } else { issued_at });
    let document = json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": name, "namespace": namespace, "creationTimestamp": rfc3339(issued_at),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null},
        "status": {"token": token, "expirationTimestamp": rfc3339(expires)},
    });
    Ok(respond::json(StatusCode::CREATED, &document))
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
