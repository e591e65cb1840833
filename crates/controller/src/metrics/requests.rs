//! The metrics of requests to the API server, with the names, labels and buckets of client-go.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The `rest_client_*` family. Clones share it.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    /// `rest_client_requests_total`
    requests: Family<RequestLabels, Counter>,
    /// `rest_client_request_duration_seconds`
    seconds: Family<VerbLabels, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    /// The status code of the response, or `<error>` if there was none.
    code: String,
    host: String,
    method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    host: String,
    verb: String,
}

impl RequestMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        let metrics =
            Self { requests: Family::default(), seconds: Family::new_with_constructor(buckets) };
        r.register(
            "rest_client_requests",
            "Requests to the API server, those for the lease included, by status code; `<error>` \
             without a response",
            metrics.requests.clone(),
        );
        r.register(
            "rest_client_request_duration_seconds",
            "From sending a request to the head of its response",
            metrics.seconds.clone(),
        );
        metrics
    }

    /// Counts a request: its method, the server's host and port, the status code of the response
    /// (`None` without a response), and the time until its head arrived.
    pub fn observe(&self, method: &str, host: &str, code: Option<u16>, duration: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let (host, method) = (host.to_owned(), method.to_owned());
        let labels = RequestLabels { code, host: host.clone(), method: method.clone() };
        self.requests.get_or_create(&labels).inc();
        let labels = VerbLabels { host, verb: method };
        self.seconds.get_or_create(&labels).observe(duration.as_secs_f64());
    }
}

fn buckets() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0])
}
