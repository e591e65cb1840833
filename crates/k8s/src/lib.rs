//! Conversions between Kubernetes' JSON and the types of [`everynode_core`]: pure functions, no
//! I/O.
//!
//! Reading keeps only what decisions read (C3). Writing starts from raw JSON, so that a field of a
//! pod template that this program does not know reaches pods and revisions (C2).
//!
//! # Layout
//!
//! Reading:
//!
//! - [`convert`]: nodes, pods, DaemonSets, ControllerRevisions and namespaces, from JSON or
//!   protobuf to the types of the core. The raw template is kept beside a DaemonSet.
//! - [`policies`]: which policy governs a DaemonSet.
//! - [`json_path`]: one value from the beginning of a JSON text, without reading the rest.
//!
//! Writing:
//!
//! - [`pod_template`]: a pod, from the template of its DaemonSet.
//! - [`image_puller`]: a pod that pulls the images of a template to a node.
//! - [`in_place`]: the change of a running pod from one template to another.
//! - [`patch`]: the bodies of all other writes.
//! - [`revision_data`]: the `data` of a ControllerRevision, and the template in it.
//! - [`canonical`]: the form of a template in which equal text means equal meaning.
//! - [`policy_status`]: the status of a policy object.
//! - [`record`]: the state of a guarded rollout as text.
//! - [`go_json`]: JSON as Go's `encoding/json` writes it.
//!
//! Scheduling, for the sandbox and for forecasts:
//!
//! - [`fit`]: whether a pod fits on a node.
//! - [`resources`], [`quantity`]: requests and amounts.
#![forbid(unsafe_code)]

pub mod canonical;
pub mod convert;
pub mod fit;
pub mod go_json;
pub mod image_puller;
pub mod in_place;
pub mod json;
pub mod json_path;
mod overrides;
pub mod patch;
pub mod pod_template;
pub mod policies;
pub mod policy_status;
pub mod protobuf;
pub mod quantity;
pub mod record;
mod rendered_pod;
pub mod resources;
pub mod revision_data;
