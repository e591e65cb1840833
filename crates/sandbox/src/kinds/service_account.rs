//! ServiceAccounts.

use crate::kind::columns::{AGE, Cell, Column, NAME};
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, Subresource, named};

/// ServiceAccounts.
pub static SERVICE_ACCOUNT: Kind = Kind {
    short_names: &["sa"],
    subresources: &[Subresource::Token],
    columns: &[
        NAME,
        Column::new("Secrets", Cell::Count("/secrets"))
            .about("The number of secrets that its pods may use"),
        AGE,
    ],
    strategy: Strategy { returns_deleted_object: true, ..Strategy::PLAIN },
    ..named("", "ServiceAccount", "serviceaccounts", "serviceaccount")
};
