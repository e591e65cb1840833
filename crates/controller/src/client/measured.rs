//! Counts and times the requests of a client.

use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use tower::Service;

use crate::metrics::RequestMetrics;

/// A service whose requests are counted by host, method and status code.
#[derive(Clone)]
pub(super) struct Measured<S> {
    pub service: S,
    pub metrics: RequestMetrics,
    /// The server's host and port.
    pub host: String,
}

impl<S, B> Service<Request<Body>> for Measured<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (metrics, host) = (self.metrics.clone(), self.host.clone());
        let method = request.method().clone();
        let started = Instant::now();
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|response| response.status().as_u16());
            metrics.observe(method.as_str(), &host, code, started.elapsed());
            answer
        })
    }
}
