//! How a replica ends.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::api::Api;
use crate::checks::ChecksDisabled;

/// Paths that were asked for.
type Asked = Arc<Mutex<BTreeSet<String>>>;

/// A replica with this role, whose API server records the paths and never answers.
fn replica(leadership: Leadership, asked: &Asked) -> Replica<Api> {
    let asked = asked.clone();
    let silent = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        asked.lock().unwrap().insert(request.uri().path().to_owned());
        std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
    });
    let (client, fence) = (Client::new(silent, "default"), Fence::open());
    Replica {
        watch_options: WatchOptions {
            namespace: None,
            namespace_node_selectors: false,
            rollout_policies: false,
        },
        config: Config::default(),
        server: Api::new(client.clone(), fence.clone(), None),
        checks: Arc::new(ChecksDisabled),
        client,
        fence,
        environment: Environment::default(),
        election: None,
        other_installation: None,
        role: watch::Sender::new(leadership),
        synced: watch::Sender::new(true),
        recorder: Recorder::channel().0,
        outages: OutageLog::default(),
        metrics: Arc::new(Metrics::new()),
        supervisor: Supervisor::default(),
        decisions: Box::new(|state| Box::new(state)),
    }
}

/// C65: a task that ended unexpectedly ends the replica with an error that names it, whether it
/// leads or waits: writes stop, the replica is not ready, and its lease is left to expire.
#[tokio::test]
async fn a_part_that_ended_unexpectedly_ends_the_replica() {
    for leadership in [Leadership::Leading, Leadership::Standby] {
        let replica = replica(leadership, &Asked::default());
        let (fence, synced) = (replica.fence.clone(), replica.synced.subscribe());
        let dead = replica.supervisor.supervise("a part", async { panic!("in a test") });
        assert!(tokio::spawn(dead).await.is_err());
        let stop = CancellationToken::new();
        let work = timeout(Duration::from_secs(10), replica.work(None, &stop)).await;
        let error = work.expect("it continues without a part").unwrap_err();
        assert_eq!(error.to_string(), "a part ended unexpectedly: a bug in everynode");
        if leadership == Leadership::Leading {
            assert!(!fence.permits_writes() && !*synced.borrow());
        }
    }
}

/// C63: a replica that loses the lease before it notices that it leads ends, so that it is started
/// again and competes.
#[tokio::test(start_paused = true)]
async fn a_replica_that_loses_the_lease_before_it_leads_ends() {
    let replica = replica(Leadership::Unknown, &Asked::default());
    let lease = lease::Config {
        namespace: "ns".to_owned(),
        name: "lease".to_owned(),
        identity: "us".to_owned(),
        timing: lease::Timing::default(),
        outages: OutageLog::default(),
    };
    let candidacy = Candidacy { client: replica.client.clone(), lease };
    let replica = Replica { election: Some(candidacy), ..replica };
    let election = Election {
        task: tokio::spawn(async { Ok(()) }),
        lost: watch::channel(true).1,
        release: CancellationToken::new(),
    };
    let stop = CancellationToken::new();
    let work = timeout(Duration::from_secs(60), replica.work(Some(&election), &stop)).await;
    let error = work.expect("it waits although no election runs").unwrap_err();
    assert!(error.to_string().starts_with("lease ns/lease: not renewed"), "{error}");
}

/// C63: a replica that is stopped shuts down cleanly, so that its lease is released.
#[tokio::test]
async fn a_replica_that_is_stopped_shuts_down_cleanly() {
    for leadership in [Leadership::Leading, Leadership::Standby] {
        let replica = replica(leadership, &Asked::default());
        let stop = CancellationToken::new();
        stop.cancel();
        assert_eq!(replica.work(None, &stop).await.unwrap(), Shutdown::Clean);
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
    let client = Client::new(server, "default");
    let replica = Replica {
        server: Api::new(client.clone(), Fence::open(), None),
        client,
        ..replica(Leadership::Leading, &Asked::default())
    };
    let stop = CancellationToken::new();
    let stopped = async {
        is_sent.cancelled().await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(replica.work(None, &stop), stopped);
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

/// C63: the lease is released only if no write may still take effect.
#[tokio::test(start_paused = true)]
async fn the_lease_is_released_only_if_no_write_is_in_flight() {
    for is_clean in [true, false] {
        let release = CancellationToken::new();
        let is_released = Arc::new(Mutex::new(false));
        let (may_release, released) = (release.clone(), is_released.clone());
        let task = tokio::spawn(async move {
            may_release.cancelled().await;
            *released.lock().unwrap() = true;
            Ok(())
        });
        let election = Election { task, lost: watch::channel(false).1, release: release.clone() };
        election.end(is_clean).await;
        assert_eq!((release.is_cancelled(), *is_released.lock().unwrap()), (is_clean, is_clean));
    }
}

/// C15: Namespaces are neither listed nor waited for, unless their node selectors
/// count.
#[tokio::test(start_paused = true)]
async fn namespaces_are_followed_only_where_their_node_selectors_count() {
    for is_followed in [false, true] {
        let asked = Asked::default();
        let mut replica = replica(Leadership::Leading, &asked);
        replica.watch_options.namespace_node_selectors = is_followed;
        let stop = CancellationToken::new();
        // The clock moves on when every task waits: by then all lists have been asked for.
        assert!(timeout(Duration::from_secs(1), replica.work(None, &stop)).await.is_err());
        let asked = asked.lock().unwrap().clone();
        assert!(asked.contains("/api/v1/nodes"), "{asked:?}");
        assert_eq!(asked.contains("/api/v1/namespaces"), is_followed, "{asked:?}");
        let mut listed = WatchedResource::initial(&replica.watch_options);
        assert_eq!(listed.any(|listed| listed == WatchedResource::Namespace), is_followed);
    }
}
