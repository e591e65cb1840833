//! The functions of Kubernetes' CEL libraries that are not in those of the language: durations and
//! times, IP addresses and blocks of them, URLs, quantities, named formats, lists and sets.
//!
//! Upstream's `k8s.io/apiserver/pkg/cel/library`.

mod address;
mod list;
mod named;
mod quantity;
mod time;
mod url;

use cel::common::types::{CelList, CelString};
use cel::common::value::Val;
use cel::{DeclarationError, Env, ExecutionError};
pub(super) use time::{Moment, Span};

/// Implements the trait of values for a type of Kubernetes' own.
macro_rules! opaque {
    ($name:ident, $type_name:literal $(, $accessor:ident: $capability:path)*) => {
        impl cel::common::value::Val for $name {
            // Raw, because functions of our own have no such names.
            fn r#get_type(&self) -> &cel::common::types::Type {
                <Self as cel::common::value::Val>::cel_type()
            }

            fn cel_type() -> &'static cel::common::types::Type {
                static TYPE: cel::common::types::Type =
                    cel::common::types::Type::new_unspecified_type($type_name);
                &TYPE
            }

            $(
                opaque!(@accessor $accessor, $capability);
            )*

            fn equals(&self, other: &dyn cel::common::value::Val) -> bool {
                other.downcast_ref::<Self>().is_some_and(|other| self == other)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn cel::common::value::Val + 'v> {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }

        impl cel::common::value::StaticVal for $name {}
    };
    (@accessor as_comparer, $capability:path) => {
        fn as_comparer(&self) -> Option<&dyn $capability> {
            Some(self)
        }
    };
    (@accessor $accessor:ident, $capability:path) => {
        fn $accessor<'b, 'v>(&'b self) -> Option<&'b (dyn $capability + 'v)>
        where
            Self: 'v,
        {
            Some(self)
        }
    };
}
use opaque;

/// Adds functions of a value that have no other argument.
macro_rules! getters {
    ($env:ident, $of:ty => $result:ty: $($name:literal = $read:expr;)*) => {$({
        fn get(of: &$of) -> $result {
            let read: fn(&$of) -> $result = $read;
            read(of)
        }
        cel::add_member_overload!($env, fn get: ($of) -> $result, name = $name)?;
    })*};
}
use getters;

/// Adds all functions.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    address::extension(env)?;
    list::extension(env)?;
    named::extension(env)?;
    quantity::extension(env)?;
    time::extension(env)?;
    url::extension(env)
}

/// The error of a function.
pub(super) fn failed(function: &str, message: impl ToString) -> ExecutionError {
    ExecutionError::function_error(function, message)
}

fn list_of_texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> CelList<'static> {
    let boxed = |text: T| Box::new(CelString::from(text.into())) as Box<dyn Val>;
    texts.into_iter().map(boxed).collect::<Vec<_>>().into()
}
