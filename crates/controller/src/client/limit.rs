//! Limits the size of answers, so that none fills the memory.

use http::Uri;
use http_body_util::combinators::MapErr;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tower::BoxError;

/// An answer of which at most a number of bytes is read.
pub(super) type LimitedBody<B = Incoming> = MapErr<Limited<B>, fn(BoxError) -> BoxError>;

/// Maximum size of an answer. It holds a page of 500 objects of 2 MiB, more than etcd stores of
/// each, and a list without pages of 200,000 pods of 16 KiB.
const ANSWER_BYTES_MAX: usize = 3 << 30;
/// Maximum size of a refusal. A `Status` has a message and some hundred causes.
const REFUSAL_BYTES_MAX: usize = 1 << 20;

/// The maximum number of bytes to read of an answer. A watch has no end, so that whoever reads it
/// limits its lines.
pub(super) fn bytes_max(request: &Uri, is_success: bool) -> usize {
    let query = request.query().unwrap_or_default().as_bytes();
    let is_watch = form_urlencoded::parse(query).any(|(name, _)| name == "watch");
    match (is_success, is_watch) {
        (false, _) => REFUSAL_BYTES_MAX,
        (true, false) => ANSWER_BYTES_MAX,
        (true, true) => usize::MAX,
    }
}

/// The body, which fails when more than this is read of it.
pub(super) fn limited<B>(body: B, bytes_max: usize) -> LimitedBody<B>
where
    B: http_body_util::BodyExt,
    B::Error: Into<BoxError>,
{
    let describe: fn(BoxError) -> BoxError = |error| match error.is::<LengthLimitError>() {
        true => "the answer is too large".into(),
        false => error,
    };
    Limited::new(body, bytes_max).map_err(describe)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;

    use super::*;

    /// C83: an answer is read up to its limit, and a watch without one.
    #[tokio::test]
    async fn an_answer_is_read_up_to_its_limit() {
        let body = |bytes_max| limited(Full::new(Bytes::from_static(b"12345")), bytes_max);
        assert_eq!(body(5).collect().await.unwrap().to_bytes(), "12345");
        let error = body(4).collect().await.unwrap_err();
        assert_eq!(error.to_string(), "the answer is too large");
        for (path, is_success, expected) in [
            ("/api/v1/pods?limit=500", true, ANSWER_BYTES_MAX),
            ("/api/v1/pods?watch=true&timeoutSeconds=7", true, usize::MAX),
            ("/api/v1/pods?watch=true", false, 1 << 20),
        ] {
            assert_eq!(bytes_max(&path.parse().unwrap(), is_success), expected, "{path}");
        }
    }
}
