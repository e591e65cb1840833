//! The plan of policies without a DaemonSet: what their overrides would do to those that they
//! select, or else a restart of these.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::ensure;
use everynode_core::api::{DaemonSet, MayOverride, RolloutPolicy};
use everynode_k8s::convert;
use everynode_k8s::policies::{Governing, Policies};
use serde_json::Value;

use crate::cluster::{Cluster, Error, Resource, Selection, parsed};
use crate::cmd::restart::{RESTARTED_AT_ANNOTATION, restarted_at};
use crate::output;
use crate::snapshot_source::{self, Manifest};

/// The DaemonSets that the RolloutPolicies of a manifest without any select: as they are if the
/// policies have other overrides that they can use, or else as a restart would change them. None
/// if the manifest has DaemonSets, or no such policy.
///
/// # Errors
/// If they can't be read, or the policies select none.
pub(super) async fn selected(cluster: &Cluster, manifest: &Manifest) -> anyhow::Result<Vec<Value>> {
    let mut policies = Policies::default();
    for policy in manifest.policies.iter().filter(|_| manifest.daemon_sets.is_empty()) {
        policies.apply(convert::policy_object(policy.to_string().as_bytes())?);
    }
    // Which namespaces a ClusterRolloutPolicy selects depends on the labels of all.
    policies.retain(|reference| reference.namespace.is_some());
    let namespaces = policies.references().filter_map(|reference| reference.namespace.as_ref());
    let namespaces: BTreeSet<&str> = namespaces.map(|namespace| namespace.as_str()).collect();
    let (mut restarted, mut overridden, mut copied) = (Vec::new(), Vec::new(), Vec::new());
    for namespace in namespaces {
        let here = Selection::in_namespace(namespace);
        let live = live_policies(cluster, &here).await?;
        for json in cluster.list(Resource::DaemonSets, &here).await? {
            let object = convert::daemon_set(json.get().as_bytes(), None)?;
            if policies.governing(&object.raw) == Governing::Annotation {
                continue;
            }
            let raw = parsed(Resource::DaemonSets, json.get())?;
            let differs = |of: fn(&RolloutPolicy) -> Option<Arc<str>>| {
                let stated = |policies: &Policies| of(policies.source(&object.raw).valid()?);
                stated(&policies) != stated(&live)
            };
            let policy = policies.source(&object.raw);
            let governed = DaemonSet { policy, ..object.daemon_set.clone() };
            let governed = governed.with_usable_overrides(MayOverride::All);
            if differs(copied_maps) {
                copied.push(with_restart(&raw));
            } else if differs(overrides) && governed.policy.valid().is_some() {
                overridden.push(unchanged(&raw));
            } else {
                restarted.push(with_restart(&raw));
            }
        }
    }
    if policies.is_empty() {
        return Ok(Vec::new());
    }
    ensure!(
        !(restarted.is_empty() && overridden.is_empty() && copied.is_empty()),
        "the policies select no DaemonSet of the cluster"
    );
    for (objects, what) in [
        (
            &restarted,
            "policies only, which change nothing by themselves: planned as if somebody restarted",
        ),
        (&overridden, "the policies have other overrides: planned as they are rolled out to"),
        (
            &copied,
            "other ConfigMaps are copied than before, which replaces all pods: planned as a \
             restart of",
        ),
    ] {
        let names: Vec<String> =
            objects.iter().map(|object| snapshot_source::key(object).to_string()).collect();
        if !names.is_empty() {
            output::note(format_args!("{what} daemonset {}", names.join(", ")));
        }
    }
    Ok(overridden.into_iter().chain(copied).chain(restarted).collect())
}

/// The policies of a namespace; none if the cluster has no definition of them, or they may not be
/// read.
async fn live_policies(cluster: &Cluster, here: &Selection) -> anyhow::Result<Policies> {
    let mut policies = Policies::default();
    match cluster.list(Resource::RolloutPolicies, here).await {
        Ok(objects) => {
            for object in objects {
                policies.apply(convert::policy_object(object.get().as_bytes())?);
            }
        }
        Err(Error::NotFound { .. }) => {}
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(policies)
}

/// The text of the overrides of a policy, if it has any.
fn overrides(policy: &RolloutPolicy) -> Option<Arc<str>> {
    Some(policy.stated_overrides()?.text.clone())
}

/// The names of the ConfigMaps that are not copied, if others are.
fn copied_maps(policy: &RolloutPolicy) -> Option<Arc<str>> {
    let except: BTreeSet<&str> = policy.snapshots()?.except.iter().map(|name| &**name).collect();
    Some(except.into_iter().collect::<Vec<_>>().join(" ").into())
}

/// The object as somebody would apply it.
fn unchanged(live: &Value) -> Value {
    let mut object = snapshot_source::settable(live);
    object["apiVersion"] = "apps/v1".into();
    object["kind"] = "DaemonSet".into();
    object
}

/// The object as `everynode restart` would change it.
fn with_restart(live: &Value) -> Value {
    let mut object = unchanged(live);
    let annotations = &mut object["spec"]["template"]["metadata"]["annotations"];
    annotations[RESTARTED_AT_ANNOTATION] = restarted_at().into();
    object
}
