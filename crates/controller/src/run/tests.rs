//! How a replica ends.

use super::*;

/// A replica with this role, whose API server never answers, and the sender of its role.
fn replica(leadership: Leadership) -> (watch::Sender<Leadership>, Replica) {
    let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
    });
    let (role_sender, role) = watch::channel(leadership);
    let replica = Replica {
        options: Options::default(),
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
