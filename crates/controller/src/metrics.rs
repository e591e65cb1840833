//! Prometheus metrics. Those of the work queue, of requests and of the process have the names that
//! Kubernetes' components use, so that existing dashboards work; the others are prefixed with
//! `everynode`.

mod classic_text;
mod gauges;
mod labels;
#[cfg(target_os = "linux")]
mod process;
mod requests;
mod rollout;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use everynode_core::api::{CheckKind, CheckVerdict, DaemonSetKey};
use everynode_core::daemon_set::{NodeCounts, RolloutStatus};
use everynode_core::plan::Transition;

use gauges::{Gauges, count};
use rollout::RolloutMetrics;

pub use labels::ReasonLabels;
pub use requests::RequestMetrics;

/// The label `name` of the work queue, as in kube-controller-manager.
const QUEUE: &str = "daemonset";

/// All metrics. The controller updates the public fields directly.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// The work queue.
    pub queue: QueueMetrics,
    /// `everynode_syncs_total`
    pub syncs: Family<SyncLabels, Counter>,
    /// `everynode_sync_duration_seconds`
    sync_seconds: Histogram,
    /// `everynode_writes_total`
    pub writes: Family<WriteLabels, Counter>,
    /// `everynode_expectations_lapsed_total`
    pub expectations_lapsed: Counter,
    /// `everynode_stale_syncs_skipped_total`
    pub stale_syncs_skipped: Counter,
    /// `everynode_problems_total`
    pub problems: Family<ReasonLabels, Counter>,
    /// `everynode_events_dropped_total`
    pub events_dropped: Counter,
    /// `everynode_watch_restarts_total`
    pub watch_restarts: Family<ResourceLabels, Counter>,
    /// `everynode_leader`
    pub leader: Gauge,
    /// The `rest_client_*` family.
    pub requests: RequestMetrics,
    daemon_sets: Gauges<DaemonSetFigures>,
    rollouts: RolloutMetrics,
    /// DaemonSets whose sync is running, with its start.
    working: Mutex<BTreeMap<DaemonSetKey, Instant>>,
}

/// The `workqueue_*` family.
#[derive(Debug)]
pub struct QueueMetrics {
    /// `workqueue_depth`
    pub depth: Gauge,
    /// `workqueue_adds_total`
    pub adds: Counter,
    /// `workqueue_retries_total`
    pub retries: Counter,
    /// `workqueue_queue_duration_seconds`: from the addition of a key to its removal.
    pub queue_seconds: Histogram,
    /// `workqueue_work_duration_seconds`: from the removal of a key to the end of its sync.
    pub work_seconds: Histogram,
    unfinished_seconds: Gauge<f64, AtomicU64>,
    longest_running_seconds: Gauge<f64, AtomicU64>,
}

/// The figures of a DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct DaemonSetFigures {
    /// Its nodes.
    pub counts: NodeCounts,
    /// Those that should run a pod, have none that is available, and are not ready themselves.
    pub down: usize,
    /// Somebody has to delete the pods of older revisions: the update strategy is `OnDelete`, and
    /// nothing guards the rollout.
    pub awaits_deletion: bool,
}

/// The `everynode_daemonset_*` metrics.
const DAEMON_SET_GAUGES: &[gauges::Row<DaemonSetFigures>] = &[
    ("desired", "Nodes that should run a pod", |it| count(it.counts.desired)),
    ("ready", "Nodes whose pod is ready", |it| count(it.counts.ready)),
    ("available", "Nodes whose pod has been ready for `minReadySeconds`", |it| {
        count(it.counts.available)
    }),
    ("updated", "Nodes whose pod has the current revision", |it| count(it.counts.updated)),
    (
        "misscheduled",
        "Nodes that run a pod and should not: a NoSchedule taint leaves the pods that run",
        |it| count(it.counts.misscheduled),
    ),
    (
        "down",
        "Nodes that should run a pod, have no available one, and are not ready themselves",
        |it| count(it.down),
    ),
    (
        "on_delete",
        "Nodes whose pod of an older revision somebody has to delete: the update strategy is \
         `OnDelete`, and no policy guards the rollout",
        |it| {
            let NodeCounts { desired, updated, .. } = it.counts;
            count(if it.awaits_deletion { desired.saturating_sub(updated) } else { 0 })
        },
    ),
];

/// Labels of `everynode_syncs_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SyncLabels {
    /// The result of all writes.
    pub result: Outcome,
}

/// The label `result` of a sync or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    /// It succeeded.
    #[expect(non_camel_case_types, reason = "label values are lower case")]
    success,
    /// It failed, or its outcome is unknown.
    #[expect(non_camel_case_types, reason = "label values are lower case")]
    error,
}

impl Outcome {
    /// The label value of a result.
    pub fn from_result<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::success } else { Self::error }
    }
}

/// Labels of `everynode_writes_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WriteLabels {
    /// `create`, `patch` or `delete`.
    pub verb: &'static str,
    /// The plural, with a subresource: `daemonsets/status`.
    pub resource: &'static str,
    /// The result of the request.
    pub result: Outcome,
}

/// Labels of `everynode_watch_restarts_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResourceLabels {
    /// The plural.
    pub resource: &'static str,
}

/// Labels of `everynode_build_info`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    os: &'static str,
    arch: &'static str,
}

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// The text format of Prometheus, version 0.0.4.
    Classic,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl TextFormat {
    /// The format for a client that accepts these media types: OpenMetrics if it asks for that.
    pub fn accepted(accept: &str) -> Self {
        let is_open_metrics = accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_type = parts.next() == Some("application/openmetrics-text");
            is_type && !parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0"))
        });
        if is_open_metrics { Self::OpenMetrics } else { Self::Classic }
    }

    /// The media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Metrics {
    /// All metrics, registered and zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        #[cfg(target_os = "linux")]
        r.register_collector(Box::new(process::ProcessCollector));
        let requests = RequestMetrics::new(r);
        let queue = QueueMetrics::new(r.sub_registry_with_label(("name".into(), QUEUE.into())));
        let daemon_sets =
            Gauges::new(r.sub_registry_with_prefix("everynode_daemonset"), DAEMON_SET_GAUGES);
        let rollouts = RolloutMetrics::new(r.sub_registry_with_prefix("everynode_rollout"));
        let r = r.sub_registry_with_prefix("everynode");
        register_build_info(r);
        Self {
            queue,
            requests,
            daemon_sets,
            rollouts,
            working: Mutex::default(),
            syncs: register(
                r,
                "syncs",
                "Syncs of a DaemonSet; `error` if any of its writes failed",
                from_zero(),
            ),
            sync_seconds: register(
                r,
                "sync_duration_seconds",
                "From taking a DaemonSet off the queue to its plan",
                seconds(),
            ),
            writes: register(r, "writes", "Requests that change something", Family::default()),
            expectations_lapsed: register(
                r,
                "expectations_lapsed",
                "Creations or deletions that were not seen within five minutes",
                Counter::default(),
            ),
            stale_syncs_skipped: register(
                r,
                "stale_syncs_skipped",
                "Syncs deferred until a watch had shown the controller's own writes; some are \
                 normal during many writes",
                Counter::default(),
            ),
            problems: register(
                r,
                "problems",
                "Malformed parts of objects, created pods that admission has changed, and pods \
                 that others have deleted again and again; the DaemonSet has an event of the same \
                 reason. `Undecodable`: an object that cannot be decoded, or has invalid UTF-8; \
                 the log names it, at most 20 of a resource in a minute",
                Family::default(),
            ),
            events_dropped: register(
                r,
                "events_dropped",
                "Events not written because too many were waiting",
                Counter::default(),
            ),
            watch_restarts: register(
                r,
                "watch_restarts",
                "Lists and watches that were restarted because one ended or was refused; each \
                 watch ends regularly after 5 to 10 minutes. Attempts to reach an unavailable \
                 server do not count",
                Family::default(),
            ),
            leader: register(r, "leader", "1 while this replica leads", Gauge::default()),
            registry,
        }
    }

    /// All metrics as text.
    ///
    /// # Errors
    /// Only if a metric can't be encoded, which would be a bug.
    pub fn text(&self, format: TextFormat) -> Result<String, std::fmt::Error> {
        let running: Vec<f64> =
            self.working().values().map(|since| since.elapsed().as_secs_f64()).collect();
        self.queue.unfinished_seconds.set(running.iter().fold(0.0, |sum, seconds| sum + seconds));
        self.queue.longest_running_seconds.set(running.iter().copied().fold(0.0, f64::max));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(match format {
            TextFormat::Classic => classic_text::from_open_metrics(&text),
            TextFormat::OpenMetrics => text,
        })
    }

    /// Runs the planning part of a sync and records its duration.
    pub fn time_sync<T>(&self, plan: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = plan();
        self.sync_seconds.observe(started.elapsed().as_secs_f64());
        result
    }

    /// Records that a DaemonSet was taken off the queue, where it had waited for `wait`.
    pub fn sync_started(&self, key: &DaemonSetKey, wait: Duration) {
        self.queue.started(wait);
        self.working().insert(key.clone(), Instant::now());
    }

    /// Records that all writes planned for a DaemonSet are done.
    pub fn sync_finished(&self, key: &DaemonSetKey) {
        if let Some(since) = self.working().remove(key) {
            self.queue.done(since.elapsed());
        }
    }

    /// Sets the gauges of a DaemonSet.
    pub fn set_daemon_set(&self, key: &DaemonSetKey, figures: &DaemonSetFigures) {
        self.daemon_sets.set(key, Some(figures));
    }

    /// Sets the gauges of a DaemonSet's rollout; `None` if it is neither guarded nor paused.
    pub fn set_rollout(&self, key: &DaemonSetKey, state: Option<&RolloutStatus>) {
        self.rollouts.set(key, state);
    }

    /// Counts a transition of a guarded rollout.
    pub fn count_transition(&self, transition: &Transition) {
        self.rollouts.count(transition);
    }

    /// Counts the answer to a check of a guarded rollout.
    pub fn count_answer(&self, kind: &CheckKind, verdict: CheckVerdict) {
        self.rollouts.count_answer(kind, verdict);
    }

    fn working(&self) -> MutexGuard<'_, BTreeMap<DaemonSetKey, Instant>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the gauges of a deleted DaemonSet.
    pub fn remove_daemon_set(&self, key: &DaemonSetKey) {
        self.daemon_sets.set(key, None);
        self.rollouts.set(key, None);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl QueueMetrics {
    fn new(r: &mut Registry) -> Self {
        Self {
            depth: register(
                r,
                "workqueue_depth",
                "DaemonSets that wait for their sync",
                Gauge::default(),
            ),
            adds: register(
                r,
                "workqueue_adds",
                "DaemonSets added to the queue",
                Counter::default(),
            ),
            retries: register(
                r,
                "workqueue_retries",
                "DaemonSets added to the queue because a sync failed",
                Counter::default(),
            ),
            queue_seconds: register(
                r,
                "workqueue_queue_duration_seconds",
                "From being added to the queue to being taken",
                seconds(),
            ),
            work_seconds: register(
                r,
                "workqueue_work_duration_seconds",
                "From being taken to the last answer of the API server",
                seconds(),
            ),
            unfinished_seconds: register(
                r,
                "workqueue_unfinished_work_seconds",
                "Sum of the ages of all syncs with writes in flight",
                Gauge::default(),
            ),
            longest_running_seconds: register(
                r,
                "workqueue_longest_running_processor_seconds",
                "Age of the oldest sync with writes in flight",
                Gauge::default(),
            ),
        }
    }

    fn started(&self, wait: Duration) {
        self.queue_seconds.observe(wait.as_secs_f64());
    }

    fn done(&self, duration: Duration) {
        self.work_seconds.observe(duration.as_secs_f64());
    }
}

fn register<M: Metric + Clone>(r: &mut Registry, name: &str, help: &str, metric: M) -> M {
    r.register(name, help, metric.clone());
    metric
}

fn register_build_info(r: &mut Registry) {
    let build = Family::<BuildLabels, Gauge>::default();
    let (version, os, arch) =
        (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    build.get_or_create(&BuildLabels { version, os, arch }).set(1);
    register(r, "build_info", "1 for the version of this program, its system and machine", build);
}

/// A family that exports both results from the start, so that a first failure is an increase.
fn from_zero() -> Family<SyncLabels, Counter> {
    let syncs = Family::<SyncLabels, Counter>::default();
    for result in [Outcome::success, Outcome::error] {
        drop(syncs.get_or_create(&SyncLabels { result }));
    }
    syncs
}

/// Upstream's buckets of the work queue: 10 ns to 1,000 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 12))
}

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_queue_has_upstreams_names() {
        let metrics = Metrics::new();
        metrics.queue.adds.inc();
        metrics.queue.started(Duration::from_millis(2));
        let text = metrics.text(TextFormat::OpenMetrics).unwrap();
        for line in [
            "workqueue_depth{name=\"daemonset\"} 0",
            "workqueue_adds_total{name=\"daemonset\"} 1",
            "workqueue_retries_total{name=\"daemonset\"} 0",
            "workqueue_queue_duration_seconds_count{name=\"daemonset\"} 1",
            "workqueue_work_duration_seconds_count{name=\"daemonset\"} 0",
            "workqueue_unfinished_work_seconds{name=\"daemonset\"} 0.0",
            "everynode_leader 0",
            concat!("everynode_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\","),
        ] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line} in\n{text}");
        }
    }

    #[test]
    fn clients_choose_the_format() {
        let open_metrics = [
            "application/openmetrics-text",
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "text/plain, application/openmetrics-text; version=0.0.1",
        ];
        for accept in open_metrics {
            assert_eq!(TextFormat::accepted(accept), TextFormat::OpenMetrics, "{accept}");
        }
        for accept in ["", "*/*", "text/plain", "application/openmetrics-text;q=0, */*"] {
            assert_eq!(TextFormat::accepted(accept), TextFormat::Classic, "{accept}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_is_measured() {
        let text = Metrics::new().text(TextFormat::Classic).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} in\n{text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        assert!(value("process_threads") >= 1.0);
        let since_start =
            jiff::Timestamp::now().as_second() as f64 - value("process_start_time_seconds");
        assert!((-2.0..3600.0).contains(&since_start), "{since_start}");
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(text.contains("# TYPE process_cpu_seconds_total counter\n"), "{text}");
    }

    #[test]
    fn requests_have_the_names_of_client_go() {
        let metrics = Metrics::new();
        metrics.requests.observe("GET", "a:6443", Some(200), Duration::from_millis(30));
        metrics.requests.observe("POST", "a:6443", None, Duration::from_secs(1));
        let text = metrics.text(TextFormat::Classic).unwrap();
        for line in [
            "# TYPE rest_client_requests_total counter",
            "rest_client_requests_total{code=\"200\",host=\"a:6443\",method=\"GET\"} 1",
            "rest_client_requests_total{code=\"<error>\",host=\"a:6443\",method=\"POST\"} 1",
            "rest_client_request_duration_seconds_count{host=\"a:6443\",verb=\"GET\"} 1",
            "rest_client_request_duration_seconds_sum{host=\"a:6443\",verb=\"POST\"} 1.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_deleted_daemon_set_is_removed() {
        let metrics = Metrics::new();
        let key = DaemonSetKey::new("kube-system", "agent");
        let counts = NodeCounts { desired: 3, updated: 1, ..NodeCounts::default() };
        let figures = DaemonSetFigures { counts, down: 1, awaits_deletion: true };
        metrics.set_daemon_set(&key, &figures);
        let text = metrics.text(TextFormat::OpenMetrics).unwrap();
        for (name, value) in [("desired", 3), ("down", 1), ("on_delete", 2)] {
            let labels = "{namespace=\"kube-system\",daemonset=\"agent\"}";
            assert!(
                text.contains(&format!("everynode_daemonset_{name}{labels} {value}")),
                "{text}"
            );
        }
        metrics.remove_daemon_set(&key);
        assert!(!metrics.text(TextFormat::OpenMetrics).unwrap().contains("kube-system"));
    }
}
