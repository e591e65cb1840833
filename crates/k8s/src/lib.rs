//! Between Kubernetes' JSON and the core's narrow types, and back: pure functions, no I/O.
//!
//! What is read is read narrowly (C3): [`convert`] keeps what decisions read. What is written is built
//! from raw JSON (C2): a field of a pod template that we don't know reaches pods and revisions.
#![forbid(unsafe_code)]

pub mod canonical;
pub mod convert;
pub mod early;
pub mod fit;
pub mod go_json;
pub mod patch;
pub mod pod_form;
pub mod pod_template;
pub mod quantity;
pub mod resources;
pub mod revision_data;
