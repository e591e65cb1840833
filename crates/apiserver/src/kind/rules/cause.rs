//! The errors that validation finds, as apimachinery classifies them.

/// An error in a field of an object; it becomes a `StatusCause` (S8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The type of the error.
    pub reason: Reason,
    /// The path of the field, such as `spec.template.spec.containers[0].name`.
    pub field: String,
    /// The error, without the path.
    pub message: String,
}

/// The type of a [`Cause`], as in apimachinery's `field.ErrorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A required field is missing.
    Required,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not in the list of supported values.
    NotSupported,
    /// The field may not have this value in this situation.
    Forbidden,
    /// The value must be unique and is not.
    Duplicate,
    /// The value refers to something that does not exist.
    NotFound,
    /// The value is too long.
    TooLong,
    /// The value has the wrong type.
    TypeInvalid,
    /// There are too many items.
    TooMany,
}

impl Reason {
    /// The `reason` of the `StatusCause`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    /// The start of a message with this reason.
    pub fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}
