//! The questions of checks, and the meaning of the answers of web servers and of Prometheus (G5).
//! Sans-IO.

use std::time::Duration;

use bytes::Bytes;
use everynode_core::api::{CheckAnswer, CheckKind, CheckVerdict, Decimal};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

/// Timeout of a whole question to a server.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The way in which a check is asked.
pub enum Question<'a> {
    /// By a request to a server, whose reply means this answer.
    Server(ServerRequest, Box<dyn Fn(&Reply) -> CheckAnswer + Send + 'a>),
    /// By a Job of the CronJob of this name.
    Job(&'a str),
}

/// A request to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    /// The URL.
    pub url: String,
    /// The form that is posted; `None` for GET.
    pub form: Option<String>,
    /// True if the body of the reply is read.
    pub reads_body: bool,
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// The body, if it was read.
    pub body: Bytes,
}

impl<'a> Question<'a> {
    /// The question of a check of this kind.
    pub fn new(kind: &'a CheckKind) -> Self {
        match kind {
            CheckKind::Http { url } => {
                let request = ServerRequest { url: url.to_string(), form: None, reads_body: false };
                Self::Server(request, Box::new(http))
            }
            CheckKind::Prometheus { url, query, min, max } => {
                let answer = |reply: &Reply| prometheus(reply, min.as_ref(), max.as_ref());
                Self::Server(query_request(url, query), Box::new(answer))
            }
            CheckKind::CronJob(name) => Self::Job(name),
        }
    }
}

/// An answer that is neither yes nor no.
pub fn unknown(why: &str) -> CheckAnswer {
    CheckAnswer::new(CheckVerdict::Unknown, why)
}

/// The answer of a status: 2xx passes and 4xx fails, unless it is about the question rather than
/// the rollout, such as one of too many (G46). All else is neither.
fn http(reply: &Reply) -> CheckAnswer {
    let text = status_text(reply);
    let verdict = match reply.status {
        status if status.is_success() => CheckVerdict::Passed,
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED
        | StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_EARLY
        | StatusCode::TOO_MANY_REQUESTS => CheckVerdict::Unknown,
        status if status.is_client_error() => CheckVerdict::Failed,
        _ => CheckVerdict::Unknown,
    };
    CheckAnswer::new(verdict, &text)
}

fn status_text(reply: &Reply) -> String {
    let status = reply.status;
    let text = match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_str()),
        None => status.as_str().to_owned(),
    };
    match &reply.location {
        Some(location) if status.is_redirection() => {
            format!("{text}, and redirects are not followed: {location}")
        }
        None if status.is_redirection() => format!("{text}, and redirects are not followed"),
        Some(_) | None => text,
    }
}

/// The request for the value of a query.
fn query_request(url: &str, query: &str) -> ServerRequest {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("query", query).append_pair("timeout", &format!("{}s", TIMEOUT.as_secs()));
    let url = format!("{}/api/v1/query", url.trim_end_matches('/'));
    ServerRequest { url, form: Some(form.finish()), reads_body: true }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct QueryReply {
    status: String,
    data: QueryData,
    error_type: String,
    error: String,
    warnings: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct QueryData {
    result_type: String,
    result: Value,
}

/// The answer by the result of a query: one value passes if it is within the bounds, and fails if
/// it is not. All else is neither.
fn prometheus(reply: &Reply, min: Option<&Decimal>, max: Option<&Decimal>) -> CheckAnswer {
    let Ok(read) = serde_json::from_slice::<QueryReply>(&reply.body) else {
        let why = match reply.status.is_success() {
            true => "the answer is not that of a Prometheus server".to_owned(),
            false => status_text(reply),
        };
        return unknown(&why);
    };
    if !reply.status.is_success() || read.status != "success" {
        let QueryReply { error_type, error, .. } = &read;
        return unknown(&format!("{}: {error_type}: {error}", status_text(reply)));
    }
    let text = match value(&read.data) {
        Ok(text) => text,
        Err(why) => return unknown(&why),
    };
    // JSON knows neither NaN nor infinity, so Prometheus sends numbers as text.
    let Ok(number) = text.parse::<f64>() else {
        return unknown(&format!("the value is not a number: {text}"));
    };
    let (verdict, mut text) = judge(number, text, min, max);
    if !read.warnings.is_empty() {
        text = format!("{text} (warning: {})", read.warnings.join(", "));
    }
    CheckAnswer::new(verdict, &text)
}

fn judge(
    number: f64,
    text: &str,
    min: Option<&Decimal>,
    max: Option<&Decimal>,
) -> (CheckVerdict, String) {
    if number.is_nan() {
        return (CheckVerdict::Unknown, "the value is NaN".to_owned());
    }
    if let Some(max) = max.filter(|max| number > max.as_f64()) {
        return (CheckVerdict::Failed, format!("{text} is above max {max}"));
    }
    if let Some(min) = min.filter(|min| number < min.as_f64()) {
        return (CheckVerdict::Failed, format!("{text} is below min {min}"));
    }
    (CheckVerdict::Passed, text.to_owned())
}

/// The value of a result, if it has exactly one.
fn value(data: &QueryData) -> Result<&str, String> {
    let sample = match data.result_type.as_str() {
        "scalar" => &data.result,
        "vector" => {
            let series = data.result.as_array().map(Vec::as_slice);
            match series.ok_or("the result is no list")? {
                [] => return Err("the query returns no value".to_owned()),
                [one] if one.get("histogram").is_some() => {
                    return Err("the query returns a histogram, and one value is needed".to_owned());
                }
                [one] => &one["value"],
                many => {
                    return Err(format!(
                        "the query returns {} values, and one is needed",
                        many.len()
                    ));
                }
            }
        }
        other => {
            return Err(format!("the query returns a {other}, and a scalar or vector is needed"));
        }
    };
    sample[1].as_str().ok_or_else(|| "the result has no value".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn reply(status: u16, body: &str) -> Reply {
        let status = StatusCode::from_u16(status).expect("a status");
        Reply { status, location: None, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    fn of_result(data: &Value) -> CheckAnswer {
        let (min, max) = (Decimal::parse("-1"), Decimal::parse("0.5"));
        let body = json!({ "status": "success", "data": data }).to_string();
        prometheus(&reply(200, &body), min.as_ref(), max.as_ref())
    }

    fn said(answer: &CheckAnswer) -> (CheckVerdict, &str) {
        (answer.verdict, &*answer.text)
    }

    /// G5: 2xx passes, 4xx fails, and all else is neither; redirects are not followed.
    #[test]
    fn a_status_passes_fails_or_says_nothing() {
        use CheckVerdict::{Failed, Passed, Unknown};
        for (status, expected) in [
            (200, (Passed, "200 OK")),
            (204, (Passed, "204 No Content")),
            (299, (Passed, "299")),
            (304, (Unknown, "304 Not Modified, and redirects are not followed")),
            (400, (Failed, "400 Bad Request")),
            (404, (Failed, "404 Not Found")),
            (403, (Unknown, "403 Forbidden")),
            (429, (Unknown, "429 Too Many Requests")),
            (500, (Unknown, "500 Internal Server Error")),
            (503, (Unknown, "503 Service Unavailable")),
            (999, (Unknown, "999")),
        ] {
            assert_eq!(said(&http(&reply(status, ""))), expected);
        }
        let elsewhere =
            Reply { location: Some("http://169.254.169.254/\n".to_owned()), ..reply(302, "") };
        assert_eq!(
            said(&http(&elsewhere)),
            (Unknown, "302 Found, and redirects are not followed: http://169.254.169.254/")
        );
    }

    /// G5: one value is compared with the bounds, which belong to what passes.
    #[test]
    fn a_value_is_compared_with_the_bounds() {
        use CheckVerdict::{Failed, Passed, Unknown};
        for (value, expected) in [
            ("0.25", (Passed, "0.25")),
            ("0.5", (Passed, "0.5")),
            ("5e-1", (Passed, "5e-1")),
            ("-1", (Passed, "-1")),
            ("0.50001", (Failed, "0.50001 is above max 0.5")),
            ("-1.5", (Failed, "-1.5 is below min -1")),
            ("+Inf", (Failed, "+Inf is above max 0.5")),
            ("-Inf", (Failed, "-Inf is below min -1")),
            ("NaN", (Unknown, "the value is NaN")),
            ("many", (Unknown, "the value is not a number: many")),
            ("", (Unknown, "the value is not a number:")),
        ] {
            let series = json!({ "metric": {}, "value": [1, value] });
            let vector = json!({ "resultType": "vector", "result": [series] });
            assert_eq!(said(&of_result(&vector)), expected);
            let scalar = json!({ "resultType": "scalar", "result": [1.5, value] });
            assert_eq!(said(&of_result(&scalar)), expected);
        }
    }

    /// G5: nothing, several values, text, a range and a histogram are neither yes nor no.
    #[test]
    fn what_is_not_one_value_says_nothing() {
        let sample = json!({ "metric": {}, "value": [1, "0"] });
        for (data, expected) in [
            (json!({ "resultType": "vector", "result": [] }), "the query returns no value"),
            (
                json!({ "resultType": "vector", "result": [sample, sample, sample] }),
                "the query returns 3 values, and one is needed",
            ),
            (
                json!({ "resultType": "string", "result": [1, "0"] }),
                "the query returns a string, and a scalar or vector is needed",
            ),
            (
                json!({ "resultType": "matrix", "result": [] }),
                "the query returns a matrix, and a scalar or vector is needed",
            ),
            (
                json!({ "resultType": "vector", "result": [{ "histogram": [1, {}] }] }),
                "the query returns a histogram, and one value is needed",
            ),
            (json!({ "resultType": "vector", "result": {} }), "the result is no list"),
            (json!({ "resultType": "scalar", "result": [1, 0] }), "the result has no value"),
            (json!({ "resultType": "vector", "result": [3] }), "the result has no value"),
            (json!({}), "the query returns a , and a scalar or vector is needed"),
        ] {
            let answer = of_result(&data);
            assert_eq!(said(&answer), (CheckVerdict::Unknown, expected), "{data}");
        }
    }

    /// G5: an error of the server is stated, and so is an answer of another server; warnings are
    /// shown.
    #[test]
    fn errors_and_warnings_are_stated() {
        let ask = |status, body: &str| prometheus(&reply(status, body), None, None);
        let error = r#"{"status":"error","errorType":"bad_data","error":"parse error: x"}"#;
        assert_eq!(&*ask(400, error).text, "400 Bad Request: bad_data: parse error: x");
        assert_eq!(&*ask(200, error).text, "200 OK: bad_data: parse error: x");
        assert_eq!(&*ask(502, "<html>").text, "502 Bad Gateway");
        assert_eq!(&*ask(200, "<html>").text, "the answer is not that of a Prometheus server");
        assert_eq!(ask(404, "").verdict, CheckVerdict::Unknown);
        let body = r#"{"status":"success","warnings":["a","b"],
            "data":{"resultType":"scalar","result":[1,"2"]}}"#;
        assert_eq!(said(&ask(200, body)), (CheckVerdict::Passed, "2 (warning: a, b)"));
    }

    /// Any JSON of moderate depth, with the words of Prometheus in it.
    fn json() -> impl Strategy<Value = Value> {
        let words = ["success", "vector", "scalar", "string", "NaN", "0.1", "1e400", ""];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop::sample::select(words.to_vec()).prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        let keys = ["status", "data", "resultType", "result", "metric", "value", "histogram"];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            let key = prop::sample::select(keys.to_vec()).prop_map(str::to_owned);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..4).prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        /// G5: whatever a server answers, nothing passes or fails that is not one number in a
        /// successful answer, and the text is short and on one line.
        #[test]
        fn any_answer_has_a_verdict(result in json(), kind in "vector|scalar|matrix|.{0,3}") {
            let answer = of_result(&json!({ "resultType": kind, "result": result }));
            prop_assert!(answer.text.chars().count() <= 257 && !answer.text.contains('\n'));
            if answer.verdict != CheckVerdict::Unknown {
                let sample = match kind.as_str() {
                    "scalar" => &result,
                    _ => &result[0]["value"],
                };
                let number: f64 = sample[1].as_str().expect("text").parse().expect("a number");
                let is_within = (-1.0..=0.5).contains(&number);
                prop_assert_eq!(is_within, answer.verdict == CheckVerdict::Passed);
            }
        }

        /// G5: no body makes the evaluation panic.
        #[test]
        fn any_bytes_have_a_verdict(
            status in 100u16..1000,
            body in prop::collection::vec(any::<u8>(), 0..200),
            whole in json(),
        ) {
            let raw = Reply { body: body.into(), ..reply(status, "") };
            prop_assert_eq!(prometheus(&raw, None, None).verdict, CheckVerdict::Unknown);
            let _ = prometheus(&reply(status, &whole.to_string()), None, None);
            let _ = http(&raw);
        }
    }
}
