//! Parses the path of a request. Whether the resource exists is decided later, with the table of
//! kinds.

use super::percent;
use crate::kind::Kind;
use crate::kinds::Kinds;

/// All paths that the server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`: the list of paths.
    Root,
    /// `/healthz`, `/livez`, `/readyz` and their only check: `/livez/ping`.
    Health,
    Version,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/apps`.
    Group(String),
    /// `/api/v1`, `/apis/apps/v1`.
    GroupVersion {
        group: String,
        version: String,
    },
    /// `/debug/faults`: the fault rules.
    Faults,
    OpenApiV2,
    OpenApiV3,
    /// `/openapi/v3/api/v1`, `/openapi/v3/apis/apps/v1`.
    OpenApiV3Document(String),
    Resource(ResourcePath),
    Unknown,
}

/// `/apis/GROUP/VERSION[/namespaces/NAMESPACE]/PLURAL[/NAME[/SUBRESOURCE]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// `None` for a cluster-scoped resource and for all namespaces.
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl ResourcePath {
    /// The kind of the objects.
    pub(crate) fn kind(&self, kinds: &Kinds) -> Option<&'static Kind> {
        kinds.by_resource(&self.group, &self.version, &self.plural)
    }
}

/// Maximum number of segments; every path of the API has fewer.
const SEGMENTS_MAX: usize = 16;

/// Parses the path of a request line. `None` if its escapes are not valid UTF-8.
pub(crate) fn parse(path: &str) -> Option<Route> {
    let mut segments = Vec::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        if segments.len() == SEGMENTS_MAX {
            return Some(Route::Unknown);
        }
        segments.push(percent::decode(segment, false)?);
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    Some(match segments.as_slice() {
        [] => Route::Root,
        ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping"] => {
            Route::Health
        }
        ["version"] => Route::Version,
        ["debug", "faults"] => Route::Faults,
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3"] => Route::OpenApiV3,
        ["openapi", "v3", document @ ..] => Route::OpenApiV3Document(document.join("/")),
        ["api"] => Route::CoreVersions,
        ["api", version, rest @ ..] => in_group("", version, rest),
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["apis", group, version, rest @ ..] => in_group(group, version, rest),
        _ => Route::Unknown,
    })
}

fn in_group(group: &str, version: &str, rest: &[&str]) -> Route {
    let path = |namespace: Option<&str>, plural: &str, rest: &[&str]| {
        let (name, subresource) = match rest {
            [] => (None, None),
            [name] => (Some(name), None),
            // The segments after the subresource `proxy` are the proxied path.
            [name, subresource, ..] => (Some(name), Some(subresource)),
        };
        Route::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.map(str::to_owned),
            plural: plural.to_owned(),
            name: name.map(|name| (*name).to_owned()),
            subresource: subresource.map(|subresource| (*subresource).to_owned()),
        })
    };
    match rest {
        [] => Route::GroupVersion { group: group.to_owned(), version: version.to_owned() },
        // The subresources of a namespace; every other third segment is a resource in the
        // namespace.
        ["namespaces", _, "status" | "finalize"] => path(None, "namespaces", &rest[1..]),
        ["namespaces", namespace, plural, rest @ ..] => path(Some(namespace), plural, rest),
        [plural, rest @ ..] => path(None, plural, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(text: &str) -> Route {
        let field = |index: usize| {
            text.split(' ').nth(index).filter(|field| *field != "-").map(str::to_owned)
        };
        Route::Resource(ResourcePath {
            group: field(0).unwrap_or_default(),
            version: field(1).unwrap_or_default(),
            namespace: field(2),
            plural: field(3).unwrap_or_default(),
            name: field(4),
            subresource: field(5),
        })
    }

    /// S3, S4: each path has the meaning that it has on a real server.
    #[test]
    fn paths_parse_as_upstream() {
        let cases = [
            ("/", Route::Root),
            ("/healthz", Route::Health),
            ("/livez/ping", Route::Health),
            ("/api", Route::CoreVersions),
            ("/api/v1", Route::GroupVersion { group: String::new(), version: "v1".into() }),
            ("/apis/apps", Route::Group("apps".into())),
            ("/openapi/v3/apis/apps/v1", Route::OpenApiV3Document("apis/apps/v1".into())),
            ("/api/v1/nodes", resource("- v1 - nodes - -")),
            ("/api/v1/nodes/n1/status", resource("- v1 - nodes n1 status")),
            ("/api/v1/namespaces", resource("- v1 - namespaces - -")),
            ("/api/v1/namespaces/a", resource("- v1 - namespaces a -")),
            ("/api/v1/namespaces/a/finalize", resource("- v1 - namespaces a finalize")),
            ("/api/v1/namespaces/a/pods", resource("- v1 a pods - -")),
            ("/api/v1/namespaces/a/pods/p/binding", resource("- v1 a pods p binding")),
            ("/api/v1/namespaces/a/pods/p/proxy/x/y", resource("- v1 a pods p proxy")),
            ("/apis/apps/v1/daemonsets", resource("apps v1 - daemonsets - -")),
            ("/apis/apps/v1/namespaces/a/daemonsets/d", resource("apps v1 a daemonsets d -")),
            ("/api/v1/nodes/a%2Fb", resource("- v1 - nodes a/b -")),
            ("/debug/faults", Route::Faults),
            ("/livez/etcd", Route::Unknown),
            ("/metrics", Route::Unknown),
        ];
        for (path, route) in cases {
            assert_eq!(parse(path), Some(route), "{path}");
        }
    }

    /// S12: a path that is not text is refused, and one with too many segments is unknown.
    #[test]
    fn absurd_paths_are_refused() {
        assert_eq!(parse("/api/v1/nodes/%ff"), None);
        assert_eq!(parse("/api/v1/nodes/%zz"), None);
        assert_eq!(parse(&"/a".repeat(10_000)), Some(Route::Unknown));
    }
}
