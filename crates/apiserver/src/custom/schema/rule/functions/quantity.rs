//! Quantities such as `100Mi` (upstream's `library/quantity.go`).

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::{failed, opaque};

#[derive(Clone, Debug, PartialEq)]
struct Quantity(everynode_k8s::quantity::Quantity);

opaque!(Quantity, "kubernetes.Quantity");

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn quantity: (CelString) -> Result<Quantity>, name = "quantity")?;
    add_overload!(env, fn is_quantity: (CelString) -> CelBool, name = "isQuantity")?;
    add_member_overload!(env, fn sign: (Quantity) -> CelInt)?;
    add_member_overload!(env, fn is_greater_than: (Quantity, Quantity) -> CelBool)?;
    add_member_overload!(env, fn is_less_than: (Quantity, Quantity) -> CelBool)?;
    add_member_overload!(env, fn compare_to: (Quantity, Quantity) -> CelInt)?;
    Ok(())
}

fn quantity(text: &CelString<'_>) -> Result<Quantity, ExecutionError> {
    text.inner().parse().map(Quantity).map_err(|error| failed("quantity", error))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    quantity(text).is_ok().into()
}

fn sign(quantity: &Quantity) -> CelInt {
    CelInt::from(match quantity.0 {
        quantity if quantity.is_zero() => 0,
        quantity if quantity.is_negative() => -1,
        _ => 1,
    })
}

fn is_greater_than(quantity: &Quantity, other: &Quantity) -> CelBool {
    (quantity.0 > other.0).into()
}

fn is_less_than(quantity: &Quantity, other: &Quantity) -> CelBool {
    (quantity.0 < other.0).into()
}

fn compare_to(quantity: &Quantity, other: &Quantity) -> CelInt {
    CelInt::from(match quantity.0.cmp(&other.0) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}
