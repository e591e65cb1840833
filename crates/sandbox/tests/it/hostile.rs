//! The hostile run: clients send generated hostile requests to a sandbox in a process of its own,
//! over HTTP/1.1 and HTTP/2, while another client does ordinary work.
//!
//! At the end the sandbox has not panicked, and works as before. A run of a number that is given
//! also requires that the memory is back within a fifth, and that the ordinary client never waited
//! for a second; it is for a quiet machine and the program's allocator, as the C library's keeps
//! freed pages.
//! Every connection is generated from the seed and its number, so that a run can be repeated:
//!
//! ```sh
//! HOSTILE_REQUESTS=1000000 HOSTILE_SEED=1 \
//!   cargo test --release -p everynode-sandbox -p everynode-allocator hostile:: -- --nocapture
//! ```

mod body;
mod bounds;
mod client;
mod crowd;
mod http1;
mod http2;
mod ordinary;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use client::Target;
use ordinary::Latency;

/// Number of hostile connections at a time.
const CONNECTIONS: usize = 24;
/// Number of requests of the short run, which measures no time.
const REQUESTS: u64 = 1_000;
/// Maximum time that a request of the ordinary client may take.
const LATENCY_MAX: Duration = Duration::from_secs(1);
/// How much more memory than before the sandbox may use at the end of a long run, in percent.
const GROWTH_PERCENT_MAX: u64 = 20;
/// Maximum memory that compiled patterns may use in addition, in KiB. Those of definitions that are
/// gone are kept until there are too many.
const PATTERNS_KIB_MAX: u64 = 24 << 10;
/// The time within which the allocator returns freed pages, with a margin. The short run does not
/// wait for it.
const FREED_PAGES_STAY: Duration = Duration::from_secs(15);
/// Maximum time until the memory is back: watches can replay the changes of 5 to 10 minutes.
const PAUSE_MAX: Duration = Duration::from_mins(11);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// Not a test of its own: the process that [`hostile_requests_cost_only_themselves`] starts.
#[test]
fn serve() {
    server::serve_if_asked();
}

/// S12: hostile requests cost nothing but themselves.
#[test]
fn hostile_requests_cost_only_themselves() {
    let (requests, seed) = (number("HOSTILE_REQUESTS", REQUESTS), number("HOSTILE_SEED", 1));
    let is_long = std::env::var_os("HOSTILE_REQUESTS").is_some();
    let mut server = server::Process::start();
    let target = Arc::new(server.target());
    let stop = Arc::new(AtomicBool::new(false));
    let [pause, pause_max] =
        if is_long { [FREED_PAGES_STAY, PAUSE_MAX] } else { [Duration::ZERO; 2] };
    let fresh = server.settled_memory(pause, None);
    // Before the memory is compared, all code and all caches have been used.
    let first = if is_long { requests / 10 } else { requests / 2 };
    attack(&target, seed.wrapping_add(1_000_000), first, None);
    server.clean();
    let before = server.settled_memory(pause, None);
    let ordinary = std::thread::spawn({
        let (target, stop) = (Arc::clone(&target), Arc::clone(&stop));
        move || ordinary::work(&target, &stop)
    });
    let delay = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || ordinary::delay_of_the_machine(&stop)
    });
    let started = Instant::now();
    let counts = attack(&target, seed, requests, Some(&server));
    let took = started.elapsed();
    stop.store(true, Ordering::Relaxed);
    let latency: Latency = ordinary.join().expect("the ordinary client works");
    let delay = delay.join().expect("a thread that sleeps");
    let peak = server.peak_memory();
    server.clean();
    let allowed = before + before * GROWTH_PERCENT_MAX / 100 + PATTERNS_KIB_MAX;
    let after = server.settled_memory(pause_max, Some(allowed));
    println!(
        "hostile run: seed {seed}, {} requests on {} connections in {:.1} s ({} answered)\n\
         ordinary client: {} requests, median {:?}, 99% {:?}, max {:?} ({}); \
         the machine delays a thread by up to {delay:?}\n\
         memory: {} KiB after the start, {} KiB before, {} KiB at most, {} KiB after",
        counts.requests.load(Ordering::Relaxed),
        counts.connections.load(Ordering::Relaxed),
        took.as_secs_f64(),
        counts.answers.load(Ordering::Relaxed),
        latency.count(),
        latency.percentile(50),
        latency.percentile(99),
        latency.max().0,
        latency.max().1,
        fresh,
        before,
        peak,
        after,
    );
    server.check();
    ordinary::check(&target);
    assert!(counts.answers.load(Ordering::Relaxed) > requests / 4, "most requests have no answer");
    if is_long {
        // A machine that runs other things too delays every process.
        let limit = LATENCY_MAX + 5 * delay;
        assert!(latency.max().0 < limit, "{} took {:?}", latency.max().1, latency.max().0);
        assert!(after <= allowed, "{after} KiB, before {before} KiB");
    }
}

/// Counts of what the hostile clients did.
#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    answers: AtomicU64,
}

/// Runs hostile connections until they have sent a number of requests.
fn attack(
    target: &Arc<Target>,
    seed: u64,
    requests: u64,
    watched: Option<&server::Process>,
) -> Arc<Counts> {
    let counts = Arc::new(Counts::default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let (target, counts) = (Arc::clone(target), Arc::clone(&counts));
            clients.push(tokio::spawn(async move {
                while counts.requests.load(Ordering::Relaxed) < requests {
                    let number = counts.connections.fetch_add(1, Ordering::Relaxed);
                    let mut rng = Pcg64::seed_from_u64(seed.wrapping_mul(1 << 32) ^ number);
                    let (sent, answered) = connection(&target, &mut rng).await;
                    counts.requests.fetch_add(sent, Ordering::Relaxed);
                    counts.answers.fetch_add(answered, Ordering::Relaxed);
                }
            }));
        }
        let mut reported = Instant::now();
        for mut client in clients {
            loop {
                let ended = tokio::time::timeout(Duration::from_secs(1), &mut client).await;
                if let Ok(ended) = ended {
                    ended.expect("a hostile client does not fail");
                    break;
                }
                if let Some(server) = watched
                    && reported.elapsed() > Duration::from_secs(30)
                {
                    reported = Instant::now();
                    let requests = counts.requests.load(Ordering::Relaxed);
                    println!("{requests} requests, {} KiB", server.memory());
                }
            }
        }
    });
    counts
}

/// One hostile connection; returns the numbers of requests that it sent and of answers that it got.
async fn connection(target: &Target, rng: &mut Pcg64) -> (u64, u64) {
    match rng.random_range(0..100) {
        0..45 => http1::requests(target, rng).await,
        45..50 => http1::unfinished(target, rng).await,
        50..55 => http1::garbage(target, rng).await,
        55..85 => http2::requests(target, rng).await,
        _ => http2::abuse(target, rng).await,
    }
}
