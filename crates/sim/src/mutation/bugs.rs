//! The form in which deliberate bugs are listed: each with the property that it violates.

/// Defines an enum of deliberate bugs, and of groups of others.
macro_rules! bugs {
    (
        $(#[$of_enum:meta])*
        $enum:ident $(($($(#[$of_group:meta])* $group:ident($bugs:ident),)*))?:
        $($(#[$of_bug:meta])* $bug:ident: $property:ident,)*
    ) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $enum {
            $($(#[$of_bug])* $bug,)*
            $($($(#[$of_group])* $group($bugs),)*)?
        }

        impl $enum {
            /// Every bug, with the property that it violates.
            pub fn all() -> impl Iterator<Item = (Self, $crate::checker::Property)> {
                let all = [$((Self::$bug, $crate::checker::Property::$property)),*].into_iter();
                $($(let all = all.chain($bugs::all().map(|(bug, it)| (Self::$group(bug), it)));)*)?
                all
            }

            /// The name of the bug.
            pub fn name(self) -> String {
                match self {
                    $($(Self::$group(bug) => bug.name(),)*)?
                    bug => format!("{bug:?}"),
                }
            }
        }
    };
}

pub(super) use bugs;
