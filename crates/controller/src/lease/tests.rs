//! When the fence stops writes, and how attempts that get no answer are repeated.

use http::{Method, Request, Response};
use kube::client::Body;

use super::*;

/// C63: the fence closes at the renew deadline after the last renewal was sent, before the lease
/// can expire.
#[test]
fn the_fence_closes_before_the_lease_could_have_expired() {
    let Timing { lease_duration, renew_deadline, .. } = Timing::default();
    let environment = Environment::default();
    let sent = environment.moment();
    let fence = Fence::closed(environment);
    assert!(!fence.permits_at(sent));
    fence.set(FenceState::Until { sent, lasts: renew_deadline });
    assert!(fence.permits_at(sent));
    assert!(fence.permits_at(sent + (renew_deadline - Duration::from_millis(1))));
    assert!(!fence.permits_at(sent + renew_deadline));
    assert!(!fence.permits_at(sent + lease_duration));
    assert!(Fence::open().permits_at(sent + lease_duration));
}

/// A server that stores one lease, and fails at the request with this number.
struct Server {
    lease: Option<Vec<u8>>,
    request_times: Vec<Instant>,
    fails: (usize, Failure),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    Silence,
    Conflict,
    /// Conflicts from that request on.
    Conflicts,
}

impl Server {
    fn new(fails: (usize, Failure)) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { lease: None, request_times: Vec::new(), fails }))
    }
}

fn client(server: &Arc<Mutex<Server>>) -> kube::Client {
    let server = server.clone();
    let service = tower::service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, tower::BoxError>(answer(server, request).await) }
    });
    kube::Client::new(service, "a")
}

async fn answer(server: Arc<Mutex<Server>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await.unwrap();
    let (lease, failure) = {
        let mut server = server.lock().unwrap();
        server.request_times.push(Instant::now());
        let (number, failure) = server.fails;
        let failure = match (server.request_times.len(), failure) {
            (at, Failure::Conflicts) => {
                (at >= number && parts.method != Method::GET).then_some(failure)
            }
            (at, _) => (at == number).then_some(failure),
        };
        if parts.method != Method::GET && failure.is_none() {
            server.lease = Some(body.to_vec());
        }
        (server.lease.clone(), failure)
    };
    match (failure, lease) {
        (Some(Failure::Silence), _) => std::future::pending().await,
        (Some(Failure::Conflict | Failure::Conflicts), _) => refusal(409, "Conflict"),
        (None, Some(lease)) => Response::new(Body::from(lease)),
        (None, None) => refusal(404, "NotFound"),
    }
}

fn refusal(code: u16, reason: &str) -> Response<Body> {
    let status = serde_json::json!({"status": "Failure", "reason": reason, "code": code});
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

fn config() -> Config {
    Config {
        namespace: "a".to_owned(),
        name: "b".to_owned(),
        identity: "c".to_owned(),
        timing: Timing::default(),
        outages: OutageLog::default(),
    }
}

/// C64: an attempt without an answer ends after half the renew deadline and is repeated at once,
/// so that the lease is renewed in time.
#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_leaves_time_for_another() {
    const SILENT: usize = 4;
    let server = Server::new((SILENT, Failure::Silence));
    let (role, release) = (watch::channel(Leadership::Unknown).0, CancellationToken::new());
    let competing =
        compete(client(&server), config(), Fence::closed(Environment::default()), role, release);
    // Too short for the renew deadline to pass since the renewal that fails.
    let ended = timeout(Duration::from_secs(9), competing).await;
    assert!(ended.is_err(), "{ended:?}");
    // The first two acquire the lease, the next two fail to renew it, the last two renew it.
    let times = server.lock().unwrap().request_times.clone();
    let after = |number: usize| times[number - 1].duration_since(times[0]).as_secs();
    assert_eq!((after(3), after(SILENT)), (2, 2));
    assert_eq!((after(5), after(6)), (7, 7));
}

/// C63: the fence counts from when a renewal was sent: the lease may date from then, however late
/// the answer arrives.
#[tokio::test(start_paused = true)]
async fn the_fence_counts_from_the_sending_of_a_renewal() {
    const ANSWERED_AFTER: Duration = Duration::from_secs(1);
    let server = Server::new((usize::MAX, Failure::Silence));
    let environment = Environment::default();
    let arrivals: Arc<Mutex<Vec<Moment>>> = Arc::default();
    let (log, clock) = (arrivals.clone(), environment.clone());
    let service = tower::service_fn(move |request| {
        log.lock().unwrap().push(clock.moment());
        let server = server.clone();
        async move {
            assert!(timeout(ANSWERED_AFTER, std::future::pending::<()>()).await.is_err());
            Ok::<_, tower::BoxError>(answer(server, request).await)
        }
    });
    let (fence, role) = (Fence::closed(environment), watch::channel(Leadership::Unknown).0);
    let client = kube::Client::new(service, "a");
    let competing = compete(client, config(), fence.clone(), role, CancellationToken::new());
    // Two requests of a second each acquire the lease; two more renew it after a pause.
    let mut competing = std::pin::pin!(competing);
    for (seconds, first_request) in [(3, 0), (4, 2)] {
        let ended = timeout(Duration::from_secs(seconds), competing.as_mut()).await;
        assert!(ended.is_err(), "{ended:?}");
        let FenceState::Until { sent, .. } = *fence.lock() else { panic!("{fence:?}") };
        let arrivals = arrivals.lock().unwrap();
        assert_eq!(sent.since(arrivals[first_request]), Duration::ZERO, "{first_request}");
        let before = arrivals[..first_request].iter();
        assert!(before.clone().all(|before| sent.since(*before) > Duration::ZERO));
    }
}

/// C64: a dead connection of the lease is detected before an attempt on it times out.
#[test]
fn the_pings_of_the_lease_detect_a_dead_connection_before_an_attempt_times_out() {
    let timing = Timing::default();
    let Pings { interval, timeout, while_idle } = timing.pings();
    assert!(while_idle && interval + timeout < timing.renew_deadline / 2);
}

/// C63: a renewal that conflicts has not renewed the lease, although this replica still holds it:
/// the others may take it over.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_conflicts_does_not_lengthen_the_fence() {
    // Two requests acquire the lease.
    let server = Server::new((3, Failure::Conflicts));
    let fence = Fence::closed(Environment::default());
    let (role, release) = (watch::channel(Leadership::Unknown).0, CancellationToken::new());
    let mut competing =
        std::pin::pin!(compete(client(&server), config(), fence.clone(), role, release));
    let mut renewals = Vec::new();
    for seconds in [1, 6] {
        let ended = timeout(Duration::from_secs(seconds), competing.as_mut()).await;
        assert!(ended.is_err(), "{ended:?}");
        let FenceState::Until { sent, .. } = *fence.lock() else { panic!("{fence:?}") };
        renewals.push(sent);
    }
    assert!(server.lock().unwrap().request_times.len() > 4, "renewals were tried");
    assert_eq!(renewals[1].since(renewals[0]), Duration::ZERO);
}

/// C63: a release that conflicts with a renewal in flight is repeated.
#[tokio::test(start_paused = true)]
async fn a_release_that_conflicts_with_a_renewal_is_repeated() {
    // Two requests acquire the lease, two more release it.
    let server = Server::new((4, Failure::Conflict));
    let (role, mut is_role) = watch::channel(Leadership::Unknown);
    let release = CancellationToken::new();
    let competing = compete(
        client(&server),
        config(),
        Fence::closed(Environment::default()),
        role,
        release.clone(),
    );
    let released = async {
        is_role.wait_for(|role| *role == Leadership::Leading).await.unwrap();
        release.cancel();
    };
    let (competing, ()) = tokio::join!(competing, released);
    assert!(competing.is_ok());
    let lease = server.lock().unwrap().lease.clone().unwrap();
    let lease: Lease = serde_json::from_slice(&lease).unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some(""));
}
