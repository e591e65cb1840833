//! What the commands read of a cluster, and its paths.

use std::fmt;

use everynode_insight::snapshot::ObjectKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    ControllerRevisions,
    DaemonSets,
    Events,
    Namespaces,
    Nodes,
    Pods,
}

impl Resource {
    /// As roles name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ControllerRevisions => "controllerrevisions",
            Self::DaemonSets => "daemonsets",
            Self::Events => "events",
            Self::Namespaces => "namespaces",
            Self::Nodes => "nodes",
            Self::Pods => "pods",
        }
    }

    /// The API group, empty for the core one.
    pub const fn group(self) -> &'static str {
        match self {
            Self::ControllerRevisions | Self::DaemonSets => "apps",
            Self::Events | Self::Namespaces | Self::Nodes | Self::Pods => "",
        }
    }

    /// One object of it, in messages.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::ControllerRevisions => "controllerrevision",
            Self::DaemonSets => "daemonset",
            Self::Events => "event",
            Self::Namespaces => "namespace",
            Self::Nodes => "node",
            Self::Pods => "pod",
        }
    }

    /// Of all, of those of a namespace, or of one.
    pub fn path(self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = match self.group() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        if let Some(namespace) = namespace {
            path = format!("{path}/namespaces/{}", encoded(namespace));
        }
        path = format!("{path}/{}", self.name());
        if let Some(name) = name {
            path = format!("{path}/{}", encoded(name));
        }
        path
    }
}

impl From<ObjectKind> for Resource {
    fn from(kind: ObjectKind) -> Self {
        match kind {
            ObjectKind::ControllerRevision => Self::ControllerRevisions,
            ObjectKind::DaemonSet => Self::DaemonSets,
            ObjectKind::Event => Self::Events,
            ObjectKind::Namespace => Self::Namespaces,
            ObjectKind::Node => Self::Nodes,
            ObjectKind::Pod => Self::Pods,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Which objects of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
}

impl Selection {
    /// Those of all namespaces, or of a resource that has none.
    pub fn all() -> Self {
        Self::default()
    }

    pub fn namespace_of(namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::default() }
    }

    /// Only what the selector matches. One that does not parse selects everything here: what is read is looked through anyway.
    #[must_use]
    pub fn matching(self, selector: &LabelSelector) -> Self {
        let selector = kube::core::Selector::try_from(selector.clone()).ok();
        let labels = selector.map(|selector| selector.to_string()).filter(|text| !text.is_empty());
        Self { labels, ..self }
    }

    /// Only the object of that name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { fields: Some(format!("metadata.name={name}")), ..self }
    }

    /// Only events about the object.
    #[must_use]
    pub fn about(self, kind: ObjectKind, name: &str) -> Self {
        let fields = format!("involvedObject.kind={kind:?},involvedObject.name={name}");
        Self { fields: Some(fields), ..self }
    }

    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The path with its parameters.
    pub fn path(&self, resource: Resource, limit: Option<u32>, token: Option<&str>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(limit) = limit {
            query.append_pair("limit", &limit.to_string());
        }
        let parameters = [
            ("continue", token),
            ("labelSelector", self.labels.as_deref()),
            ("fieldSelector", self.fields.as_deref()),
        ];
        for (name, value) in parameters {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        let path = resource.path(self.namespace.as_deref(), None);
        match query.finish().as_str() {
            "" => path,
            query => format!("{path}?{query}"),
        }
    }
}

/// Names come from the command line: none of them may reach out of its place in the path.
fn encoded(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_those_of_the_api() {
        for (resource, namespace, name, expected) in [
            (Resource::Namespaces, None, None, "/api/v1/namespaces"),
            (Resource::Namespaces, None, Some("a"), "/api/v1/namespaces/a"),
            (Resource::Pods, None, None, "/api/v1/pods"),
            (Resource::Pods, Some("a"), None, "/api/v1/namespaces/a/pods"),
            (Resource::DaemonSets, Some("a"), Some("b"), "/apis/apps/v1/namespaces/a/daemonsets/b"),
            (Resource::Pods, Some("../x"), Some("../y"), "/api/v1/namespaces/..%2Fx/pods/..%2Fy"),
        ] {
            assert_eq!(resource.path(namespace, name), expected);
        }
    }

    #[test]
    fn a_selection_becomes_parameters() {
        let selector = serde_json::from_value(json!({
            "matchLabels": {"app": "a"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}],
        }));
        let selection = Selection::namespace_of("n").matching(&selector.unwrap());
        assert_eq!(
            selection.path(Resource::Pods, Some(500), Some("t=1")),
            "/api/v1/namespaces/n/pods?limit=500&continue=t%3D1&labelSelector=app%3Da%2Ctier+in+%28x%2Cy%29"
        );
        assert_eq!(Selection::all().path(Resource::Pods, None, None), "/api/v1/pods");
        let named = Selection::namespace_of("n").named("a");
        assert_eq!(
            named.path(Resource::DaemonSets, None, None),
            "/apis/apps/v1/namespaces/n/daemonsets?fieldSelector=metadata.name%3Da"
        );
        let about = Selection::namespace_of("n").about(ObjectKind::DaemonSet, "a");
        assert_eq!(
            about.path(Resource::Events, None, None),
            "/api/v1/namespaces/n/events?fieldSelector=involvedObject.kind%3DDaemonSet%2CinvolvedObject.name%3Da"
        );
    }
}
