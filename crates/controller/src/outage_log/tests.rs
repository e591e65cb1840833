//! The texts of errors in the log.

use super::*;

/// C83: the text of an error is its innermost cause.
#[tokio::test]
async fn a_refused_connection_is_logged_as_such() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = crate::client::Config::for_test(&format!("http://{address}"));
    let client = crate::client::client(&config, crate::client::Pings::default()).unwrap();
    let request = http::Request::get("/version").body(Vec::new()).unwrap();
    let error = client.request_text(request).await.unwrap_err();
    assert_eq!(failure(&error), (FailureKind::Unreachable, "connection refused".to_owned()));
    assert!(is_connection_refused(&error));
    let reset = io::Error::from_raw_os_error(104);
    assert_eq!(cause(&io::Error::new(reset.kind(), reset.to_string())), "connection reset");
    assert_eq!(cause(&reset), "connection reset");
    assert_eq!(cause(&io::Error::other(reset.to_string())), "connection reset by peer");
    let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "no close_notify: https://example.com");
    assert_eq!(cause(&cut), "the server closed the connection");
    assert_eq!(cause(&io::Error::other("a certificate\n expired")), "a certificate expired");
    assert!(!is_connection_refused(&io::Error::other("another")));
}

/// C83: the text of a refusal is its message on one line, or its code.
#[test]
fn a_refusal_is_its_message() {
    let status = |code: u16, message: &str| {
        kube::Error::Api(kube::core::Status::failure(message, "Forbidden").with_code(code).boxed())
    };
    let forbidden = failure(&status(403, "pods is forbidden:\n  no rule"));
    assert_eq!(forbidden, (FailureKind::Refused, "pods is forbidden: no rule".to_owned()));
    assert_eq!(
        failure(&status(503, "")),
        (FailureKind::Unreachable, "the server answered 503".to_owned())
    );
    assert_eq!(failure_kind(None), FailureKind::Unreachable);
}

/// C83: the cause of an answer that can't be read has none of its values.
#[test]
fn an_answer_that_cannot_be_read_is_not_quoted() {
    let error = serde_json::from_str::<Vec<u8>>(r#""secret""#).unwrap_err();
    let (_, cause) = failure(&kube::Error::SerdeError(error));
    assert_eq!(cause, "the answer can't be read from line 1, column 8");
}
