//! The decisions of everynode: observations go in, a [`Plan`](plan::Plan) of writes comes out.
//!
//! This crate does no I/O, reads no clock, draws no random number and knows no JSON but the schema
//! of a policy. Time is an argument, objects are narrow types that contain only what a decision
//! reads, and every collection whose order could reach a decision is ordered: the same observations
//! always give the same plan.
//!
//! # Layout
//!
//! Layers, each of which uses only those before it. Those without a link are internal.
//!
//! 1. [`api`]: the parts of Kubernetes' objects that decisions read, and what one says by itself,
//!    such as a template's default tolerations, a budget, or when a window opens. `api::schema`
//!    says how values of a policy are written.
//! 2. [`placement`]: whether a node should run a pod, and the reasons if it should not.
//! 3. - `memo`: values that are computed again when their inputs change.
//!    - [`node_table`]: the nodes of the cluster and their numbers, which all DaemonSets share.
//!    - [`ownership`]: whether a pod or a revision belongs to a DaemonSet.
//!    - `backoff`: delays that double.
//! 4. [`plan`]: the output. A caller executes each [`Write`](plan::Write) and returns its
//!    [`WriteResult`](plan::WriteResult).
//! 5. - `config`: settings that all DaemonSets share, and the duties of each mode.
//!    - [`admission`]: whether a created pod counts for its node, as the API server stored it.
//!    - `expectations`: writes that no watch has shown.
//! 6. - [`revisions`]: the hash of a template. The revision history is internal.
//!    - `pod_changes`: pods that are changed in place.
//!    - `copying`: copies of ConfigMaps.
//! 7. `node`: a slot for each node, and its assessment.
//! 8. `rollout`: guarded rollouts: where a rollout is, which record comes next, which nodes get a
//!    template.
//! 9. [`daemon_set`]: [`DaemonSetState`](daemon_set::DaemonSetState), everything known of one
//!    DaemonSet. It applies observations and plans writes.
//!
//! # Example
//!
//! A DaemonSet without revisions first stores its template. After that it creates pods.
//!
//! ```
//! use everynode_core::api::*;
//! use everynode_core::daemon_set::{Config, DaemonSetState};
//! use everynode_core::node_table::NodeTable;
//! use everynode_core::plan::{Outcome, Watermarks, Write, WriteResult};
//!
//! let app = LabelRequirement { key: "app".into(), operator: LabelOperator::Exists };
//! let daemon_set = DaemonSet {
//!     key: DaemonSetKey::new("logging", "fluentd"),
//!     uid: Uid::new("d-1"),
//!     resource_version: ResourceVersion(1),
//!     generation: 1,
//!     terminating: false,
//!     selector: Some(LabelSelector { requirements: vec![app] }),
//!     template: Template::new(r#"{"spec":{}}"#, Placement::default()),
//!     template_generation: None,
//!     paused: false,
//!     policy: PolicySource::None,
//!     copies: None,
//!     order: None,
//!     retry: None,
//!     rolled_back: None,
//!     update_strategy: UpdateStrategy::OnDelete,
//!     min_ready_seconds: 0,
//!     revision_history_limit: 10,
//!     status: Status::default(),
//!     problems: Vec::new(),
//! };
//! let mut nodes = NodeTable::default();
//! nodes.apply(Node {
//!     name: "a".into(),
//!     labels: Labels::default(),
//!     taints: Vec::new(),
//!     created: Timestamp(0),
//!     readiness: NodeReadiness::Ready,
//!     conditions: Box::default(),
//!     boot_id: "".into(),
//!     kubelet_version: None,
//! });
//!
//! let mut state = DaemonSetState::new(Config::default(), daemon_set, &nodes);
//! let now = Timestamp::from_seconds(1_000);
//! let plan = state.plan(now, &Watermarks::default(), &nodes);
//! assert!(matches!(&plan.writes[..], [Write::CreateRevision(new)] if new.number == 1));
//!
//! for write in plan.writes {
//!     // Here a caller sends the write to the API server.
//!     let outcome = Outcome::Failed { message: "no API server in this example".to_owned() };
//!     state.apply_result(WriteResult { write, outcome }, now);
//! }
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::struct_excessive_bools)]

pub mod admission;
pub mod api;
mod backoff;
mod config;
mod copying;
pub mod daemon_set;
mod expectations;
mod memo;
mod node;
pub mod node_table;
pub mod ownership;
pub mod placement;
pub mod plan;
mod pod_changes;
pub mod revisions;
mod rollout;
