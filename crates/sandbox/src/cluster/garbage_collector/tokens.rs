//! The Secrets with tokens of service accounts (upstream's tokens controller): they go with their
//! account. The sandbox writes no token into them.

use std::sync::Arc;

use crate::json::Value;

use crate::kinds::{SECRET, SERVICE_ACCOUNT};
use crate::object::Object;
use crate::store::Store;
use crate::value::string;

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The UIDs of an account's Secrets.
pub(super) fn of_account(store: &Store, account: &Object) -> Vec<Box<str>> {
    let secrets = store.iter(&SECRET, Some(account.namespace()));
    let is_of_account = |secret: &&Arc<Object>| {
        owner(secret).is_some_and(|(name, uid)| {
            name == account.name() && (uid.is_empty() || uid == account.uid())
        })
    };
    secrets.filter(is_of_account).map(|secret| secret.uid().into()).collect()
}

/// True if a Secret is for a token of an account that does not exist.
pub(super) fn lacks_account(store: &Store, secret: &Object) -> bool {
    owner(secret)
        .is_some_and(|(name, _)| store.find(&SERVICE_ACCOUNT, secret.namespace(), &name).is_none())
}

/// The name and the UID, if it has one, of the account whose token a Secret is for.
fn owner(secret: &Object) -> Option<(String, String)> {
    let secret = secret.read();
    if string(&secret, "/type") != TYPE {
        return None;
    }
    let annotation = |name: &str| {
        secret["metadata"]["annotations"].get(name).and_then(Value::as_str).map(str::to_owned)
    };
    Some((annotation(ACCOUNT)?, annotation(ACCOUNT_UID).unwrap_or_default()))
}
