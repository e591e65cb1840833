//! DaemonSets.

use everynode_core::api::{
    CONFIG_LABEL, PAUSED_ANNOTATION, ROLLED_BACK_ANNOTATION, TEMPLATE_GENERATION_ANNOTATION,
};
use everynode_sandbox::json::Value;

use super::config_map::{Snapshots, named, with_copies};
use super::metadata::Metadata;
use super::placement::Placement;
use super::policy::{PolicySource, Update};
use super::record::Order;
use super::rollout::Strategy;
use super::selector::Selector;
use super::template::{is_same, reduced};
use super::{Pod, Revision};
use crate::statement::Copies;

/// A DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct DaemonSet {
    pub metadata: Metadata,
    pub generation: i64,
    pub selector: Selector,
    /// `spec.template` as it is stored.
    pub template: Value,
    /// The template with the copies of ConfigMaps, [reduced] to its meaning.
    pub meaning: Value,
    /// The copies that the target has, as a replica states them (G58).
    pub copies: Copies,
    /// The names of the ConfigMaps that its pods name.
    config_maps: Vec<String>,
    pub placement: Placement,
    pub strategy: Strategy,
    /// True if `spec.updateStrategy` is `OnDelete`.
    pub is_on_delete: bool,
    pub min_ready_seconds: i64,
    pub history_limit: usize,
    /// True if the annotation pauses the rollout (G6, G7).
    pub has_pause: bool,
    pub policy: PolicySource,
    /// The DaemonSet as it counts for a rollout that was promoted in full, if its policy holds
    /// others because it changes pods in place, and the strategy has `maxSurge` (G56).
    pub promoted: Option<Box<Self>>,
    pub order: Option<Order>,
    /// The attempt whose template was replaced by that of the base (G20).
    pub rolled_back: Option<String>,
    /// The annotation with the template generation (C45).
    pub template_generation: Option<i64>,
    pub status: Value,
}

impl DaemonSet {
    pub(in crate::checker) fn parse(object: &Value) -> Self {
        let policy = PolicySource::parse(&object["metadata"]["annotations"]);
        let read = Self::with_policy(object, policy);
        let is_in_place =
            read.policy.valid().is_some_and(|policy| policy.update != Update::Replace);
        if !is_in_place || !read.strategy.surges() {
            return read;
        }
        let is_paused = read.is_paused();
        let held = Self::with_policy(object, PolicySource::Invalid);
        Self { has_pause: is_paused, promoted: Some(read.into()), ..held }
    }

    fn with_policy(object: &Value, policy: PolicySource) -> Self {
        let spec = &object["spec"];
        let annotations = &object["metadata"]["annotations"];
        let generation = &annotations[TEMPLATE_GENERATION_ANNOTATION];
        let limit = spec["revisionHistoryLimit"].as_u64().unwrap_or(10);
        Self {
            metadata: Metadata::parse(object),
            generation: object["metadata"]["generation"].as_i64().unwrap_or_default(),
            selector: serde_json::from_value(spec["selector"].clone().into()).unwrap_or_default(),
            meaning: reduced(&spec["template"]),
            copies: Copies::new(),
            config_maps: named(&spec["template"]),
            placement: Placement::parse(&spec["template"]),
            strategy: Strategy::parse(spec).guarded_by(policy.valid()),
            is_on_delete: spec["updateStrategy"]["type"] == "OnDelete",
            min_ready_seconds: spec["minReadySeconds"].as_i64().unwrap_or_default(),
            history_limit: usize::try_from(limit).unwrap_or(usize::MAX),
            has_pause: annotations[PAUSED_ANNOTATION].as_str().is_some_and(|text| text != "false"),
            order: Order::parse(annotations),
            rolled_back: annotations[ROLLED_BACK_ANNOTATION].as_str().map(ToOwned::to_owned),
            policy,
            promoted: None,
            template_generation: generation.as_str().and_then(|text| text.parse().ok()),
            template: spec["template"].clone(),
            status: object["status"].clone(),
        }
    }

    /// The DaemonSet as the built-in controller reads it, to which policies mean nothing.
    pub(in crate::checker) fn parse_unguarded(object: &Value) -> Self {
        let mut object = object.clone();
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.retain(|name, _| !name.starts_with("everynode.dev/"));
        }
        Self::parse(&object)
    }

    /// The rule by which ConfigMaps are copied, if they are (G58).
    pub(in crate::checker) fn snapshots(&self) -> Option<&Snapshots> {
        let policy = self.promoted.as_deref().unwrap_or(self).policy.valid()?;
        policy.config.as_ref()
    }

    /// The DaemonSet whose target has these copies of ConfigMaps (G58).
    pub(in crate::checker) fn with_copies(&self, copies: &Copies) -> Self {
        let promoted = self.promoted.as_ref().map(|it| it.with_copies(copies).into());
        let meaning = with_copies(&self.meaning, copies);
        let config_maps = named(&meaning);
        Self { meaning, copies: copies.clone(), config_maps, promoted, ..self.clone() }
    }

    /// True if a revision stores the current template and its copies of ConfigMaps (C41, G58).
    pub(in crate::checker) fn is_stored_by(&self, revision: &Revision) -> bool {
        is_same(&revision.template, &self.meaning)
    }

    /// True if one of these revisions stores the template, whatever its copies of ConfigMaps.
    pub(in crate::checker) fn has_revision_of_template<'a>(
        &self,
        mut revisions: impl Iterator<Item = &'a Revision>,
    ) -> bool {
        let template = reduced(&self.template);
        revisions.any(|it| is_same(&it.own_template, &template))
    }

    /// True if the newest revision is of the template although it stores another text: nobody has
    /// changed the template since (C41).
    pub(in crate::checker) fn has_generation_of(&self, newest: &Revision) -> bool {
        !newest.template.is_null()
            && self.template_generation.is_some()
            && newest.template_generation == self.template_generation
            && newest.copies == self.copies
    }

    /// True if the DaemonSet has this object and keeps it (C21).
    pub(in crate::checker) fn owns(&self, object: &Metadata) -> bool {
        object.is_controlled_by(&self.metadata.uid) && self.selector.matches(&object.labels)
    }

    /// True if the DaemonSet has this object and must release it (C21).
    pub(in crate::checker) fn releases(&self, object: &Metadata) -> bool {
        object.is_controlled_by(&self.metadata.uid) && !self.selector.matches(&object.labels)
    }

    /// True if a former DaemonSet of its name has left this pod, which has yet to end (C36).
    pub(in crate::checker) fn is_former(&self, pod: &Pod) -> bool {
        let Metadata { namespace, name, uid, .. } = &self.metadata;
        let controller = pod.metadata.controller.as_ref();
        let of_former = controller.is_some_and(|controller| {
            controller.kind == "DaemonSet" && controller.name == *name && controller.uid != *uid
        });
        of_former
            && pod.metadata.namespace == *namespace
            && !self.selector.is_empty()
            && self.selector.matches(&pod.metadata.labels)
            && !pod.has_ended()
    }

    /// True if the DaemonSet must adopt this object (C21).
    pub(in crate::checker) fn adopts(&self, object: &Metadata) -> bool {
        object.controller.is_none()
            && !object.is_terminating
            && object.namespace == self.metadata.namespace
            && !self.selector.is_empty()
            && self.selector.matches(&object.labels)
    }

    /// True if it has a policy, valid or not, or a pause (G2).
    pub(in crate::checker) fn is_to_be_guarded(&self) -> bool {
        self.has_pause || self.policy != PolicySource::None
    }

    /// True if annotation or policy pauses the rollout (G6).
    pub(in crate::checker) fn is_paused(&self) -> bool {
        self.has_pause || self.policy.valid().is_some_and(|policy| policy.paused)
    }

    /// The DaemonSet as it counts for a rollout that was promoted in full, or was not (G56).
    pub(in crate::checker) fn counting(&self, is_promoted: bool) -> &Self {
        self.promoted.as_deref().filter(|_| is_promoted).unwrap_or(self)
    }

    /// True if the pod has the copies of the target, or none if that has none (G58). A pod of
    /// another DaemonSet may name any ConfigMaps, and the template generation decides all the same
    /// (C45).
    pub(in crate::checker) fn has_copies_of(&self, pod: &Pod) -> bool {
        match self.copies.is_empty() {
            true => !pod.metadata.labels.contains_key(CONFIG_LABEL),
            false => self.config_maps == pod.config_maps,
        }
    }

    /// True if the template generation makes the pod up to date (C45).
    pub(in crate::checker) fn has_generation(&self, pod: &Pod) -> bool {
        self.template_generation.is_some() && pod.generation() == self.template_generation
    }
}
