//! The lifecycle that a pod's ConfigMaps select (S22).

use everynode_core::api::ConfigObject;
use everynode_k8s::convert::stored_config;

use super::PodRecord;
use crate::cluster::component_context::ComponentContext;
use crate::object::Object;
use crate::value::text;

/// The key in the data of a ConfigMap that selects the lifecycle of pods which start with it, so
/// that bad configuration can be played.
const LIFECYCLE_KEY: &str = "sandbox.everynode.dev.lifecycle";

/// The name or the stages of the lifecycle that a ConfigMap which the pod names selects.
pub(super) fn lifecycle(context: &ComponentContext<'_>, pod: &Object) -> Option<Box<str>> {
    let config = stored_config(pod.value())?;
    let named = config.objects.iter().chain(&config.hashed);
    let maps = named.filter_map(|object| match object {
        ConfigObject::ConfigMap(name) => context.config_map(pod.namespace(), name),
        ConfigObject::Secret(_) => None,
    });
    let selected = maps.map(|map| text(&map.read(), &["data", LIFECYCLE_KEY]).to_owned());
    selected.into_iter().find(|lifecycle| !lifecycle.is_empty()).map(Into::into)
}

impl PodRecord {
    /// The lifecycle that the pod selects, by its annotation or by a ConfigMap.
    pub(super) fn lifecycle(&self) -> Option<&str> {
        self.annotation.as_deref().or(self.of_config.as_deref())
    }
}
