//! When an object was changed, as far as its metadata tells.

use everynode_core::api::Timestamp;
use everynode_k8s::convert::timestamp;
use serde::Deserialize;

/// When an object was created and changed. The times of changes come from
/// `metadata.managedFields`, which some clients remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// `metadata.creationTimestamp`.
    pub created_at: Option<Timestamp>,
    /// The last known change of anything but the status.
    pub spec_at: Option<Timestamp>,
    /// The last known change of the status.
    pub status_at: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireObject {
    metadata: WireMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    creation_timestamp: Option<String>,
    managed_fields: Vec<WireManager>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireManager {
    subresource: String,
    time: Option<String>,
}

impl Changes {
    /// The changes of the object in `json`.
    pub(super) fn of(json: &[u8]) -> Self {
        let WireObject { metadata } = serde_json::from_slice(json).unwrap_or_default();
        let last = |is_status: bool| {
            let managers = metadata.managed_fields.iter();
            let managers = managers.filter(|it| (it.subresource == "status") == is_status);
            managers.filter_map(|it| timestamp(it.time.as_deref()?)).max()
        };
        let created_at = metadata.creation_timestamp.as_deref().and_then(timestamp);
        Self { created_at, spec_at: last(false).max(created_at), status_at: last(true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_change_of_spec_and_status_is_known_from_the_managers() {
        let at = |seconds: i64| Some(Timestamp::from_seconds(1_767_225_600 + seconds));
        let spec = |time: &str| json!({ "time": format!("2026-01-01T00:00:{time}Z") });
        let status = |time: &str| {
            let time = format!("2026-01-01T00:00:{time}Z");
            json!({ "time": time, "subresource": "status" })
        };
        for (managers, expected) in [
            (json!([]), (at(1), at(1), None)),
            (json!([spec("07"), spec("03"), status("09"), status("05")]), (at(1), at(7), at(9))),
        ] {
            let object = json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:01Z",
                "managedFields": managers } });
            let changes = Changes::of(object.to_string().as_bytes());
            assert_eq!((changes.created_at, changes.spec_at, changes.status_at), expected);
        }
    }
}
