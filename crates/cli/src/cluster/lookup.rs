//! Reads a DaemonSet by name; if there is none, suggests others.

use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::value::RawValue;

use super::{Cluster, Error, Resource, Selection, parsed};
use crate::args::DaemonSetName;

/// The minimum similarity (0 to 1) of a name that is suggested.
const SIMILARITY_MIN: f64 = 0.7;
/// The maximum number of suggested names.
const SUGGESTIONS_MAX: usize = 3;

impl Cluster {
    /// The DaemonSet with this name in the cluster's namespace, as JSON.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`Error::NotFound`] has a hint if a similar name exists.
    pub(crate) async fn daemon_set_json(
        &self,
        name: &DaemonSetName,
    ) -> Result<Box<RawValue>, Error> {
        let namespace = Some(self.namespace());
        match self.read(Resource::DaemonSets, namespace, name.as_str()).await {
            Err(Error::NotFound { permission, hint: None }) => {
                Err(Error::NotFound { permission, hint: self.hint(name.as_str()).await })
            }
            result => result,
        }
    }

    /// [`daemon_set_json`](Self::daemon_set_json), parsed.
    ///
    /// # Errors
    /// As there, or if the object can't be parsed.
    pub(crate) async fn daemon_set(&self, name: &DaemonSetName) -> Result<DaemonSet, Error> {
        let json = self.daemon_set_json(name).await?;
        parsed(Resource::DaemonSets, json.get())
    }

    /// The namespace that has such a DaemonSet, or similar names. `None` without the permission to
    /// list.
    async fn hint(&self, name: &str) -> Option<String> {
        let namespace = self.read(Resource::Namespaces, None, self.namespace()).await;
        if matches!(namespace, Err(Error::NotFound { .. })) {
            return Some(format!("there is no namespace {}", self.namespace()));
        }
        let all = Selection::all();
        let here = Selection::in_namespace(self.namespace());
        let everywhere = self.list_as::<DaemonSet>(Resource::DaemonSets, &all).await;
        let daemon_sets = match everywhere {
            Ok(daemon_sets) => daemon_sets,
            Err(_) => self.list_as(Resource::DaemonSets, &here).await.ok()?,
        };
        let names = daemon_sets
            .into_iter()
            .filter_map(|ds| Some((ds.metadata.namespace?, ds.metadata.name?)));
        hint(self.namespace(), name, names.collect())
    }
}

fn hint(namespace: &str, name: &str, existing: Vec<(String, String)>) -> Option<String> {
    if let Some((other, _)) = existing.iter().find(|(_, other)| other == name) {
        return Some(format!("there is one in namespace {other}, use -n {other}"));
    }
    let here = existing.iter().filter(|(other, _)| other == namespace).map(|(_, name)| name);
    let mut similar: Vec<(f64, &String)> = here
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .collect();
    similar.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let names: Vec<_> =
        similar.into_iter().take(SUGGESTIONS_MAX).map(|(_, name)| name.as_str()).collect();
    if names.is_empty() { None } else { Some(format!("did you mean {}?", names.join(" or "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_name_comes_with_similar_names() {
        let existing = [("a", "fluentd"), ("a", "node-exporter"), ("b", "cilium")];
        let existing = || existing.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
        for (name, expected) in [
            ("cilium", Some("there is one in namespace b, use -n b")),
            ("fluent", Some("did you mean fluentd?")),
            ("node-exproter", Some("did you mean node-exporter?")),
            ("zzz", None),
        ] {
            assert_eq!(hint("a", name, existing()).as_deref(), expected, "{name}");
        }
    }
}
