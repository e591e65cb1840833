//! The plan of policies without a DaemonSet: what a restart of those that they select would do.

use std::collections::BTreeSet;

use anyhow::ensure;
use everynode_k8s::convert;
use everynode_k8s::policies::{Governing, Policies};
use serde_json::Value;

use crate::cluster::{Cluster, Resource, Selection, parsed};
use crate::cmd::restart::{RESTARTED_AT_ANNOTATION, restarted_at};
use crate::output;
use crate::snapshot_source::{self, Manifest};

/// The DaemonSets that the RolloutPolicies of a manifest without any select, as a restart would
/// change them; none if the manifest has DaemonSets, or no such policy.
///
/// # Errors
/// If they can't be read, or the policies select none.
pub(super) async fn restarted(
    cluster: &Cluster,
    manifest: &Manifest,
) -> anyhow::Result<Vec<Value>> {
    let mut policies = Policies::default();
    for policy in manifest.policies.iter().filter(|_| manifest.daemon_sets.is_empty()) {
        policies.apply(convert::policy_object(policy.to_string().as_bytes())?);
    }
    // Which namespaces a ClusterRolloutPolicy selects depends on the labels of all.
    policies.retain(|reference| reference.namespace.is_some());
    let namespaces = policies.references().filter_map(|reference| reference.namespace.as_ref());
    let namespaces: BTreeSet<&str> = namespaces.map(|namespace| namespace.as_str()).collect();
    let mut found = Vec::new();
    for namespace in namespaces {
        let here = Selection::in_namespace(namespace);
        for json in cluster.list(Resource::DaemonSets, &here).await? {
            let object = convert::daemon_set(json.get().as_bytes(), None)?;
            if policies.governing(&object.raw) != Governing::Annotation {
                found.push(with_restart(&parsed(Resource::DaemonSets, json.get())?));
            }
        }
    }
    if policies.is_empty() {
        return Ok(found);
    }
    ensure!(!found.is_empty(), "the policies select no DaemonSet of the cluster");
    let names: Vec<String> =
        found.iter().map(|object| snapshot_source::key(object).to_string()).collect();
    output::note(format_args!(
        "policies only, which change nothing by themselves: planned as if somebody restarted \
         daemonset {}",
        names.join(", ")
    ));
    Ok(found)
}

/// The object as `everynode restart` would change it.
fn with_restart(live: &Value) -> Value {
    let mut object = snapshot_source::settable(live);
    object["apiVersion"] = "apps/v1".into();
    object["kind"] = "DaemonSet".into();
    let annotations = &mut object["spec"]["template"]["metadata"]["annotations"];
    annotations[RESTARTED_AT_ANNOTATION] = restarted_at().into();
    object
}
