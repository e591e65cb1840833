//! The DaemonSet that is meant, or what else may have been.

use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::value::RawValue;

use super::{Cluster, Error, Resource, Selection, parsed};
use crate::args::DaemonSetName;

/// Names less alike than that (0 to 1) are not what was meant.
const LIKENESS_MIN: f64 = 0.7;
/// So many names are offered.
const NAMES_MAX: usize = 3;

impl Cluster {
    /// The DaemonSet of that name in the namespace.
    ///
    /// # Errors
    /// As [`read`](Self::read); a name that is not there comes with a hint of what is.
    pub async fn daemon_set_json(&self, name: &DaemonSetName) -> Result<Box<RawValue>, Error> {
        let namespace = Some(self.namespace());
        match self.read(Resource::DaemonSets, namespace, name.as_str()).await {
            Err(Error::NotFound { right, hint: None }) => {
                Err(Error::NotFound { right, hint: self.hint(name.as_str()).await })
            }
            result => result,
        }
    }

    /// [`daemon_set_json`](Self::daemon_set_json), read as its type.
    ///
    /// # Errors
    /// As there, or if it has another shape.
    pub async fn daemon_set(&self, name: &DaemonSetName) -> Result<DaemonSet, Error> {
        let json = self.daemon_set_json(name).await?;
        parsed(Resource::DaemonSets, json.get())
    }

    /// Where it is instead, or what is called alike. Who may not look gets no hint.
    async fn hint(&self, name: &str) -> Option<String> {
        let namespace = self.read(Resource::Namespaces, None, self.namespace()).await;
        if matches!(namespace, Err(Error::NotFound { .. })) {
            return Some(format!("there is no namespace {}", self.namespace()));
        }
        let all = Selection::all();
        let here = Selection::namespace_of(self.namespace());
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

fn hint(namespace: &str, name: &str, there: Vec<(String, String)>) -> Option<String> {
    if let Some((other, _)) = there.iter().find(|(_, other)| other == name) {
        return Some(format!("there is one in namespace {other}, use -n {other}"));
    }
    let here = there.iter().filter(|(other, _)| other == namespace).map(|(_, name)| name);
    let mut alike: Vec<(f64, &String)> = here
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .collect();
    alike.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let names: Vec<_> = alike.into_iter().take(NAMES_MAX).map(|(_, name)| name.as_str()).collect();
    if names.is_empty() { None } else { Some(format!("did you mean {}?", names.join(" or "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_comes_with_what_is() {
        let there = [("a", "fluentd"), ("a", "node-exporter"), ("b", "cilium")];
        let there = || there.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
        for (name, expected) in [
            ("cilium", Some("there is one in namespace b, use -n b")),
            ("fluent", Some("did you mean fluentd?")),
            ("node-exproter", Some("did you mean node-exporter?")),
            ("zzz", None),
        ] {
            assert_eq!(hint("a", name, there()).as_deref(), expected, "{name}");
        }
    }
}
