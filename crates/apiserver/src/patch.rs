//! JSON patch (RFC 6902), JSON merge patch (RFC 7396) and Kubernetes' strategic merge patch (S5),
//! as pure functions from an object and a patch to the patched object.
//!
//! The registry decides which changes a patch may make.

mod apply;
mod go_text;
mod json;
mod strategic;

use crate::json::Value;

use crate::kind::Kind;
use crate::schema;
use crate::status::{Details, Reason, Status};

pub(crate) use apply::last_applied;
pub use apply::{LAST_APPLIED, of_apply, with_last_applied};
pub(crate) use go_text::value as go_text;

/// The content type of a server-side apply (S14).
pub const APPLY: &str = "application/apply-patch+yaml";

/// The form of a patch, which its content type determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// A JSON patch.
    Json,
    /// A JSON merge patch.
    Merge,
    /// A strategic merge patch.
    StrategicMerge,
}

impl PatchType {
    /// The form for a Content-Type header, whose parameters are ignored.
    ///
    /// # Errors
    ///
    /// 415 for another type, with the supported ones. Server-side apply is no patch in this sense.
    pub fn parse(content_type: &str) -> Result<Self, Status> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match media_type.to_ascii_lowercase().as_str() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::StrategicMerge),
            _ => Err(unknown_format(SCHEMA_KNOWN)),
        }
    }

    /// The media type of the form.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
        }
    }
}

/// Applies `patch` to a copy of `current`.
///
/// # Errors
///
/// 400 for a patch that does not have its form, 413 for a JSON patch with too many operations, 415
/// for a strategic merge patch of a kind without a schema, 422 for a patch that can't be applied to
/// the object.
pub fn apply(
    kind: &Kind,
    patch_type: PatchType,
    current: &Value,
    patch: &Value,
) -> Result<Value, Status> {
    match patch_type {
        PatchType::Json => json::json_patch(current, patch),
        PatchType::Merge => json::merge_patch(current, patch),
        PatchType::StrategicMerge => match schema::root_of(kind) {
            Some(root) => strategic::strategic_merge_patch(root.get(), current, patch),
            None => Err(unknown_format(SCHEMA_UNKNOWN)),
        },
    }
}

const SCHEMA_KNOWN: &[PatchType] = &[PatchType::Json, PatchType::Merge, PatchType::StrategicMerge];
const SCHEMA_UNKNOWN: &[PatchType] = &[PatchType::Json, PatchType::Merge];

/// 422 without a reason, as upstream, for a patch that can't be applied.
fn failed() -> Status {
    Status::new(Reason::Invalid, "the server rejected our request due to an error in our request")
        .with_details(Details::default())
}

fn unknown_format(types: &[PatchType]) -> Status {
    Status::unsupported_media_type(format!(
        "the body of the request was in an unknown format - {}",
        accepted(types)
    ))
}

fn accepted(types: &[PatchType]) -> String {
    let mut types: Vec<&str> = types.iter().map(|patch_type| patch_type.media_type()).collect();
    types.push(APPLY);
    format!("accepted media types include: {}", types.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S5, S12: a content type determines the form of the patch, and the error for another one
    /// lists those that are supported.
    #[test]
    fn the_content_type_selects_the_patch_type() {
        let parsed =
            |text| PatchType::parse(text).map_err(|status| (status.code(), status.message.clone()));
        assert_eq!(parsed("application/json-patch+json"), Ok(PatchType::Json));
        assert_eq!(parsed("application/merge-patch+json; charset=utf-8"), Ok(PatchType::Merge));
        assert_eq!(parsed("Application/Strategic-Merge-Patch+JSON"), Ok(PatchType::StrategicMerge));
        let types = "accepted media types include: application/json-patch+json, \
                     application/merge-patch+json, application/strategic-merge-patch+json, \
                     application/apply-patch+yaml";
        for unknown in ["", "application/json", ";", "application/apply-patch+cbor"] {
            let message = format!("the body of the request was in an unknown format - {types}");
            assert_eq!(parsed(unknown), Err((415, message)));
        }
    }
}
