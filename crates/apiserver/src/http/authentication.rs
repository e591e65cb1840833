//! Authentication: by the token in the kubeconfig or by the token of a service account, with
//! impersonation.

use base64::engine::GeneralPurpose;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use everynode_core::api::Timestamp;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use ring::hmac;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::access;
use super::respond::unauthorized;
use super::shared::{SharedCluster, now};
use crate::authorization::{AUTHENTICATED, Attributes, MASTERS, RequestTarget, User};
use crate::status::Status;

/// Finds the user that a token belongs to.
pub(crate) struct Authenticator {
    admin_token: String,
    pub tokens: Tokens,
}

impl Authenticator {
    pub(crate) fn new(admin_token: String) -> Self {
        Self { tokens: Tokens::signed_with(&admin_token), admin_token }
    }

    /// The user of a request; `None` for a request without credentials. Invalid credentials are an
    /// error.
    pub(crate) fn identify(
        &self,
        shared: &SharedCluster,
        headers: &HeaderMap,
    ) -> Result<Option<User>, Status> {
        let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
        let sent = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let user =
            sent.and_then(|token| self.user_of_token(shared, token)).ok_or_else(unauthorized)?;
        impersonate(shared, user, headers).map(Some)
    }

    fn user_of_token(&self, shared: &SharedCluster, token: &str) -> Option<User> {
        if bool::from(token.as_bytes().ct_eq(self.admin_token.as_bytes())) {
            return Some(admin());
        }
        let account = self.tokens.find(token)?;
        // A token is valid as long as its account exists: an account that was created again under
        // the same name has another UID.
        let uid = shared.read(|store| {
            let kind = store.kinds().by_resource("", "v1", "serviceaccounts")?;
            Some(store.find(kind, &account.namespace, &account.name)?.uid().to_owned())
        })?;
        (uid == account.uid)
            .then(|| User::service_account(&account.namespace, &account.name, &account.uid))
    }
}

/// The account that a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct TokenAccount {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// Issues tokens of service accounts, and knows its own by their signature: none is kept. They are
/// signed, as JWTs are, but are none.
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

    pub(crate) fn issue(&self, account: &TokenAccount, expires: Timestamp) -> String {
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

fn admin() -> User {
    User {
        name: "everynode-sandbox".to_owned(),
        uid: String::new(),
        groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()],
    }
}

/// Applies the impersonation headers to a user who may impersonate the user, groups and UIDs in
/// them.
fn impersonate(shared: &SharedCluster, user: User, headers: &HeaderMap) -> Result<User, Status> {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let (groups, uids) = (all("impersonate-group"), all("impersonate-uid"));
    let Some(name) = all("impersonate-user").into_iter().next() else {
        if groups.is_empty() && uids.is_empty() {
            return Ok(user);
        }
        return Err(Status::bad_request("a group or uid is impersonated without a user"));
    };
    let may = |resource, group, namespace, name| {
        let target = RequestTarget::Resource { group, resource, subresource: "", namespace, name };
        access::check(shared, &user, &Attributes { verb: "impersonate", target })
    };
    let account = service_account(&name);
    match account {
        Some((namespace, account)) => may("serviceaccounts", "", namespace, account)?,
        None => may("users", "", "", &name)?,
    }
    for group in &groups {
        may("groups", "", "", group)?;
    }
    for uid in &uids {
        may("uids", "authentication.k8s.io", "", uid)?;
    }
    let uid = uids.into_iter().next().unwrap_or_default();
    let mut impersonated = match account {
        Some((namespace, account)) if groups.is_empty() => {
            User::service_account(namespace, account, &uid)
        }
        _ => User { name, uid, groups },
    };
    if !impersonated.groups.iter().any(|group| group == AUTHENTICATED) {
        impersonated.groups.push(AUTHENTICATED.to_owned());
    }
    Ok(impersonated)
}

/// The namespace and the name in `system:serviceaccount:NAMESPACE:NAME`.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}
