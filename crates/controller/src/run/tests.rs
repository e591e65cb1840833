//! How a replica ends.

use std::sync::Mutex;

use super::*;

/// A replica with this role, whose API server never answers, and the sender of its role.
fn replica(leadership: Leadership) -> (watch::Sender<Leadership>, Replica) {
    replica_with(leadership, Options::default(), &Asked::default())
}

/// Paths that were asked for.
type Asked = Arc<Mutex<BTreeSet<String>>>;

fn replica_with(
    leadership: Leadership,
    options: Options,
    asked: &Asked,
) -> (watch::Sender<Leadership>, Replica) {
    let asked = asked.clone();
    let silent = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        asked.lock().unwrap().insert(request.uri().path().to_owned());
        std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
    });
    let (role_sender, role) = watch::channel(leadership);
    let replica = Replica {
        options,
        client: Client::new(silent, "default"),
        metrics: Arc::new(Metrics::new()),
        outages: OutageLog::default(),
        fence: Fence::open(),
        role,
        synced: watch::channel(true).0,
        recorder: recorder::Recorder::channel().0,
        stop_helpers: CancellationToken::new(),
        release: CancellationToken::new(),
        lease_lost: watch::channel(false).1,
        supervisor: Supervisor::default(),
        election: None,
        helpers: TaskTracker::new(),
    };
    (role_sender, replica)
}

/// C65: a task that ended unexpectedly ends the replica with an error that names it, whether it
/// leads or waits: writes stop, the replica is not ready, and its lease is left to expire.
#[tokio::test]
async fn a_part_that_ended_unexpectedly_ends_the_replica() {
    for leadership in [Leadership::Leading, Leadership::Standby] {
        let (role, replica) = replica(leadership);
        let dead = replica.supervisor.supervise("a part", async { panic!("in a test") });
        assert!(tokio::spawn(dead).await.is_err());
        let work = timeout(Duration::from_secs(10), replica.run(&CancellationToken::new())).await;
        let error = work.expect("it continues without a part").unwrap_err();
        assert_eq!(error.to_string(), "a part ended unexpectedly: a bug in everynode");
        if *role.borrow() == Leadership::Leading {
            assert!(!replica.fence.permits_writes() && !*replica.synced.borrow());
        }
    }
}

/// C63: a replica that is stopped shuts down cleanly, so that its lease is released.
#[tokio::test]
async fn a_replica_that_is_stopped_shuts_down_cleanly() {
    for leadership in [Leadership::Leading, Leadership::Standby] {
        let (_role, replica) = replica(leadership);
        let stop = CancellationToken::new();
        stop.cancel();
        assert_eq!(replica.run(&stop).await.unwrap(), Shutdown::Clean);
    }
}

/// C63: a replica that is stopped while a write may still take effect does not shut down cleanly.
#[tokio::test(start_paused = true)]
async fn a_replica_with_a_write_in_flight_does_not_shut_down_cleanly() {
    let is_sent = CancellationToken::new();
    let sent = is_sent.clone();
    // Answers lists in pages, and neither watches nor writes.
    let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let sent = sent.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            let is_write = *request.method() != http::Method::GET;
            if is_write {
                sent.cancel();
            }
            let (code, body) = match is_write {
                false if query.contains("sendInitialEvents") => (400, "{}".to_owned()),
                false if !query.contains("watch") => (200, list(request.uri().path())),
                false | true => std::future::pending().await,
            };
            let body = kube::client::Body::from(body.into_bytes());
            Ok::<_, tower::BoxError>(http::Response::builder().status(code).body(body)?)
        }
    });
    let (_role, mut replica) = replica(Leadership::Leading);
    replica.client = Client::new(server, "default");
    let stop = CancellationToken::new();
    let stopped = async {
        is_sent.cancelled().await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(replica.run(&stop), stopped);
    assert_eq!(ended.unwrap(), Shutdown::WritesInFlight);
}

/// A list with one DaemonSet, or one node, or nothing.
fn list(path: &str) -> String {
    let item = match path {
        "/api/v1/nodes" => r#"{ "metadata": { "name": "n", "resourceVersion": "1" } }"#,
        "/apis/apps/v1/daemonsets" => {
            r#"{
                "metadata": {
                    "name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "1",
                    "generation": 1
                },
                "spec": {
                    "selector": { "matchLabels": { "a": "b" } },
                    "template": { "metadata": { "labels": { "a": "b" } } }
                }
            }"#
        }
        _ => "",
    };
    format!(r#"{{ "metadata": {{ "resourceVersion": "1" }}, "items": [{item}] }}"#)
}

/// C63: the lease is released only if no write may still take effect; writes stop in any case.
#[tokio::test(start_paused = true)]
async fn the_lease_is_released_only_if_no_write_is_in_flight() {
    for is_clean in [true, false] {
        let (_role, mut replica) = replica(Leadership::Leading);
        let (release, fence) = (replica.release.clone(), replica.fence.clone());
        let is_released = Arc::new(Mutex::new(false));
        let (may_release, released) = (release.clone(), is_released.clone());
        replica.election = Some(tokio::spawn(async move {
            may_release.cancelled().await;
            *released.lock().unwrap() = true;
            Ok(())
        }));
        replica.shut_down(is_clean).await;
        assert_eq!((release.is_cancelled(), *is_released.lock().unwrap()), (is_clean, is_clean));
        assert!(!fence.permits_writes());
    }
}

/// C15: Namespaces are neither listed nor waited for, unless their node selectors
/// count.
#[tokio::test(start_paused = true)]
async fn namespaces_are_followed_only_where_their_node_selectors_count() {
    let heeding = Options { namespace_node_selectors: true, ..Options::default() };
    for (options, is_followed) in [(Options::default(), false), (heeding, true)] {
        let asked = Asked::default();
        let (_role, replica) = replica_with(Leadership::Leading, options, &asked);
        let stop = CancellationToken::new();
        // The clock moves on when every task waits: by then all lists have been asked for.
        assert!(timeout(Duration::from_secs(1), replica.run(&stop)).await.is_err());
        let asked = asked.lock().unwrap().clone();
        assert!(asked.contains("/api/v1/nodes"), "{asked:?}");
        assert_eq!(asked.contains("/api/v1/namespaces"), is_followed, "{asked:?}");
        let (events, _) = mpsc::channel(1);
        let event_loop = replica.event_loop(events, &TaskTracker::new(), &stop);
        assert_eq!(
            event_loop.state.pending_lists.contains(&ListedResource::Namespace),
            is_followed
        );
    }
}
