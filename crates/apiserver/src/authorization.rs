//! Users, what they ask for, and the rules of RBAC by which a server decides about it. The decision
//! itself is the server's.

mod rule;

pub use rule::{Attributes, Coverage, PolicyRule, RequestTarget, missing};

/// The group whose members may do anything.
pub const MASTERS: &str = "system:masters";
/// The group of all users but anonymous ones.
pub const AUTHENTICATED: &str = "system:authenticated";

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The UID; empty if there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
}

impl User {
    /// The user of a service account, with upstream's name and groups.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: service_account_name(namespace, name),
            uid: uid.to_owned(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                AUTHENTICATED.to_owned(),
            ],
        }
    }

    /// Whether the user may do anything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Whether a request is allowed, and the reason: the binding that allows it, or the missing role of
/// a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allowed {
        /// The binding that allows it.
        reason: String,
    },
    /// No rule allows the request.
    Refused {
        /// The missing roles; empty if there are none.
        reason: String,
    },
}
