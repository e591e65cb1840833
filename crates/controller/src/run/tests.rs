//! What ends a replica.

use super::*;

/// A replica of that role, whose API server never answers; and whoever may change the role.
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
        farewell: CancellationToken::new(),
        release: CancellationToken::new(),
        lost: watch::channel(false).1,
        supervisor: Supervisor::default(),
        election: None,
        helpers: TaskTracker::new(),
    };
    (role_sender, replica)
}

/// C65: a part that is dead ends the replica with an error that names it, be it leading or waiting: writes stop, nobody is told
/// that it is ready, and the lease is left to expire, since it did not end in order.
#[tokio::test]
async fn a_dead_part_ends_the_replica() {
    for leadership in [Leadership::Leading, Leadership::Standby] {
        let (role, replica) = replica(leadership);
        let dead = replica.supervisor.to_its_end("a part", async { panic!("of the test") });
        assert!(tokio::spawn(dead).await.is_err());
        let work = timeout(Duration::from_secs(10), replica.work(&CancellationToken::new())).await;
        let error = work.expect("it works on with a dead part").unwrap_err();
        assert_eq!(error.to_string(), "a part ended unexpectedly: a bug in everynode");
        if *role.borrow() == Leadership::Leading {
            assert!(!replica.fence.permits_writes() && !*replica.synced.borrow());
        }
    }
}

/// C63: one that is told to stop ends in order, so that its lease is released.
#[tokio::test]
async fn a_replica_that_is_told_to_stop_ends_in_order() {
    for leadership in [Leadership::Leading, Leadership::Standby] {
        let (_role, replica) = replica(leadership);
        let stop = CancellationToken::new();
        stop.cancel();
        assert_eq!(replica.work(&stop).await.unwrap(), Ended::Clean);
    }
}
