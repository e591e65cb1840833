//! Tables with a name, one or two further columns, and an age.

use everynode_core::api::Timestamp;

use super::{AGE, Column, NAME, Printer, age, name};
use crate::json::{Value, json};
use crate::value::{array, map, string};

pub(super) const NAMESPACE_PRINTER: Printer = Printer {
    columns: &[NAME, Column::new("Status", "The status of the namespace"), AGE],
    cells: |object, now| {
        vec![name(object).into(), string(object, "/status/phase").into(), age(object, now).into()]
    },
};

pub(super) const CONFIG_MAP_PRINTER: Printer = Printer {
    columns: &[NAME, Column::new("Data", "The number of keys in data and binaryData"), AGE],
    cells: |object, now| {
        let keys = size(object, "/data") + size(object, "/binaryData");
        vec![name(object).into(), json!(keys), age(object, now).into()]
    },
};

pub(super) const SECRET_PRINTER: Printer = Printer {
    columns: &[
        NAME,
        Column::new("Type", "The type of the secret"),
        Column::new("Data", "The number of keys in data"),
        AGE,
    ],
    cells: |object, now| {
        let secret_type = string(object, "/type");
        vec![
            name(object).into(),
            secret_type.into(),
            json!(size(object, "/data")),
            age(object, now).into(),
        ]
    },
};

pub(super) const SERVICE_ACCOUNT_PRINTER: Printer = Printer {
    columns: &[NAME, Column::new("Secrets", "The number of secrets that its pods may use"), AGE],
    cells: |object, now| {
        vec![name(object).into(), json!(array(object, "/secrets").len()), age(object, now).into()]
    },
};

pub(super) const LEASE_PRINTER: Printer = Printer {
    columns: &[NAME, Column::new("Holder", "The identity of the holder of the lease"), AGE],
    cells: |object, now| {
        vec![
            name(object).into(),
            string(object, "/spec/holderIdentity").into(),
            age(object, now).into(),
        ]
    },
};

/// The cells of a kind without a printer.
pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object).into(), age(object, now).into()]
}

fn size(object: &Value, path: &str) -> usize {
    map(object, path).map_or(0, |entries| entries.len())
}
