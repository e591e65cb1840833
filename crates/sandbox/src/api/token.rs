//! Tokens of service accounts, which `kubectl create token` requests from `serviceaccounts/token`.
//! They are random numbers instead of JWTs, and the server keeps them in memory until they expire.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use everynode_core::api::Timestamp;
use http::{Method, Response, StatusCode};
use subtle::ConstantTimeEq;

use super::call::Call;
use super::decode;
use super::negotiate;
use super::respond::{self, Body, method_not_allowed};
use super::route::ResourcePath;
use super::shared::{SharedCluster, now};
use super::tls;
use crate::clock::rfc3339;
use crate::json::{Value, json};
use crate::kind::SERVICE_ACCOUNT;
use crate::status::{Reason, Status};
use crate::value::{array, integer_maybe, is_set};

/// The default audience of a token: this server.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;

/// The account that a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenAccount {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// The tokens that have not expired.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<IssuedTokens>);

#[derive(Default)]
struct IssuedTokens {
    last_number: u64,
    by_number: BTreeMap<u64, Token>,
}

struct Token {
    secret: String,
    account: TokenAccount,
    expires: Timestamp,
}

impl Tokens {
    /// The account of a token; `None` if the token is unknown or expired.
    pub(crate) fn find(&self, token: &str) -> Option<TokenAccount> {
        // The number selects the token, and the secret is compared in constant time, so that the
        // duration of the search reveals nothing about the secret.
        let (number, secret) = token.split_once('.')?;
        let issued = self.lock();
        let token_record = issued.by_number.get(&number.parse().ok()?)?;
        let is_right = bool::from(token_record.secret.as_bytes().ct_eq(secret.as_bytes()));
        (is_right && now() < token_record.expires).then(|| token_record.account.clone())
    }

    fn issue(&self, account: TokenAccount, expires: Timestamp) -> Result<String, Status> {
        let secret = tls::random_token()
            .map_err(|error| Status::new(Reason::InternalError, error.to_string()))?;
        let mut issued = self.lock();
        let now = now();
        issued.by_number.retain(|_, token| now < token.expires);
        issued.last_number += 1;
        let number = issued.last_number;
        let text = format!("{number}.{secret}");
        issued.by_number.insert(number, Token { secret, account, expires });
        Ok(text)
    }

    fn lock(&self) -> MutexGuard<'_, IssuedTokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    let token = tokens.issue(account, if is_for_us { expires } else { issued_at })?;
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
