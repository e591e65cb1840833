//! Serves the pages on a loopback address.

mod connections;
mod live;
mod security;
#[cfg(test)]
mod tests;

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};
use everynode_core::api::{DaemonSetKey, NodeName};
use maud::Markup;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::source::{Action, Content, Reading, Source};
use crate::view::list::Filter;
use crate::view::{self, Page, assets, link};
use connections::Trust;
use security::{Access, Refusal};

pub use security::NoRandomNumbers;

/// How long a page waits for its first content. Then it is shown without, and follows live.
const CONTENT_WAIT: Duration = Duration::from_millis(150);
/// The maximum number of names that are suggested.
const SUGGESTIONS_MAX: usize = 20;
/// The maximum size of a form.
const FORM_BYTES_MAX: usize = 16 * 1024;

/// A server that listens and does not serve yet.
pub struct Server {
    listener: TcpListener,
    port: u16,
    access: Access,
}

/// The server can't start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port can't be listened on.
    #[error("can't listen on 127.0.0.1:{0}: {1}")]
    Listen(u16, io::Error),
    /// The operating system has no random numbers.
    #[error("{0}")]
    Random(NoRandomNumbers),
}

impl Server {
    /// Listens on a port of the loopback address; 0 takes a free one.
    ///
    /// # Errors
    /// If the port is in use, or the operating system has no random numbers.
    pub async fn bind(port: u16) -> Result<Self, Error> {
        let failed = |error| Error::Listen(port, error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port, access: Access::new(port).map_err(Error::Random)? })
    }

    /// The URL that opens the dashboard. It contains the token: do not log it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.access.token.as_str())
    }

    /// Serves until `shutdown`.
    pub async fn serve<S: Source>(self, source: Arc<S>, shutdown: CancellationToken) {
        let app = App { source, access: Arc::new(self.access), shutdown: shutdown.clone() };
        connections::serve(self.listener, router(app), shutdown).await;
    }
}

struct App<S> {
    source: Arc<S>,
    access: Arc<Access>,
    shutdown: CancellationToken,
}

impl<S> Clone for App<S> {
    fn clone(&self) -> Self {
        let Self { source, access, shutdown } = self;
        Self { source: source.clone(), access: access.clone(), shutdown: shutdown.clone() }
    }
}

fn router<S: Source>(app: App<S>) -> Router {
    let base = app.access.base.clone();
    let at = |path: &str| format!("{base}{path}");
    let guarded = middleware::from_fn_with_state(app.access.clone(), guard);
    Router::new()
        .route("/", get(enter))
        .route(&at(""), get(daemon_sets))
        .route(&at("live"), get(daemon_sets_live))
        .route(&at("ds/{namespace}/{name}"), get(daemon_set))
        .route(&at("ds/{namespace}/{name}/live"), get(daemon_set_live))
        .route(&at("ds/{namespace}/{name}/nodes"), get(nodes))
        .route(&at("ds/{namespace}/{name}/at"), get(node_at))
        .route(&at("ds/{namespace}/{name}/diff"), get(diff))
        .route(&at("ds/{namespace}/{name}/do/{action}"), get(prepare).post(perform))
        .route(&at("node"), get(find_node))
        .route(&at("node-names"), get(node_names))
        .route(&at("node/{name}"), get(node))
        .route(&at("node/{name}/live"), get(node_live))
        .route(&at("assets/{name}"), get(asset))
        .fallback(async || (StatusCode::NOT_FOUND, "there is no such page\n"))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(guarded)
        .with_state(app)
}

/// Refuses a request before anything of it is looked at, and adds the headers of all responses.
async fn guard(
    State(access): State<Arc<Access>>,
    trust: Option<Extension<Trust>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let checked = if request.uri().path() == "/" {
        // Also after a click on a link in a chat: the token decides.
        access.check_host(headers).map(drop)
    } else {
        let checked = access.check(request.method(), headers);
        let checked = checked.and_then(|()| access.check_cookie(headers));
        if let (Ok(()), Some(Extension(trust))) = (&checked, trust) {
            trust.gain();
        }
        checked
    };
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(refusal),
    };
    security::add_headers(response.headers_mut());
    response
}

fn refused(refusal: Refusal) -> Response {
    (refusal.status(), format!("{}\n", refusal.text())).into_response()
}

/// Exchanges the token for the cookie. The next request comes from a page of this server, so that
/// the browser sends the cookie with it even if the first one came from elsewhere.
async fn enter<S: Source>(State(app): State<App<S>>, RawQuery(query): RawQuery) -> Response {
    let token = parameter(query.as_deref(), "token").unwrap_or_default();
    if !app.access.token.is(&token) {
        return refused(Refusal::Credentials);
    }
    let headers = [
        (header::SET_COOKIE, app.access.set_cookie()),
        (header::REFRESH, format!("0; url={}", app.access.base)),
    ];
    (headers, Html(view::entry(&app.access.base).into_string())).into_response()
}

impl<S: Source> App<S> {
    fn page(&self, page: &Page<'_>, body: &Markup) -> Response {
        Html(view::document(&self.access.base, self.source.cluster(), page, body).into_string())
            .into_response()
    }

    fn failed(&self, code: StatusCode, title: &str, message: &str) -> Response {
        let body = view::failure(title, message);
        (code, self.page(&Page { title, path: "", live: None }, &body)).into_response()
    }

    fn redirect(&self, path: &str) -> Response {
        Redirect::to(&format!("{}{path}", self.access.base)).into_response()
    }
}

async fn daemon_sets<S: Source>(State(app): State<App<S>>, RawQuery(query): RawQuery) -> Response {
    let filter = filter_of(query.as_deref());
    let mut receiver = app.source.daemon_sets();
    settled(&mut receiver).await;
    let live = format!("live{}", query.map(|query| format!("?{query}")).unwrap_or_default());
    let body = view::list::page(&receiver.borrow(), &filter);
    app.page(&Page { title: "DaemonSets", path: "", live: Some(&live) }, &body)
}

fn filter_of(query: Option<&str>) -> Filter {
    let text = |name| parameter(query, name).unwrap_or_default();
    Filter { name: text("filter"), state: text("state") }
}

async fn daemon_sets_live<S: Source>(
    State(app): State<App<S>>,
    RawQuery(query): RawQuery,
) -> Response {
    let filter = filter_of(query.as_deref());
    let sections = move |reading: &Reading<_>| view::list::sections(reading, &filter);
    live::events(app.source.daemon_sets(), sections, app.shutdown.clone()).into_response()
}

async fn daemon_set<S: Source>(
    State(app): State<App<S>>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let key = DaemonSetKey::new(namespace.as_str(), name.as_str());
    let mut receiver = app.source.daemon_set(&key);
    settled(&mut receiver).await;
    let path = link::daemon_set(&key);
    let live = format!("{path}/live");
    let body = {
        let list = app.source.daemon_sets();
        view::daemon_set::page(&key, &receiver.borrow(), &list.borrow())
    };
    app.page(&Page { title: &key.to_string(), path: &path, live: Some(&live) }, &body)
}

async fn daemon_set_live<S: Source>(
    State(app): State<App<S>>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let key = DaemonSetKey::new(namespace.as_str(), name.as_str());
    let list = app.source.daemon_sets();
    let receiver = app.source.daemon_set(&key);
    let sections =
        move |reading: &Reading<_>| view::daemon_set::sections(&key, reading, &list.borrow());
    live::events(receiver, sections, app.shutdown.clone()).into_response()
}

/// Every node with its reason. It is not live: nobody follows thousands of lines.
async fn nodes<S: Source>(
    State(app): State<App<S>>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let key = DaemonSetKey::new(namespace.as_str(), name.as_str());
    let mut receiver = app.source.daemon_set(&key);
    loaded(&mut receiver).await;
    let path = format!("{}/nodes", link::daemon_set(&key));
    let title = format!("Nodes of {key}");
    let body = view::nodes::page(&key, &receiver.borrow());
    app.page(&Page { title: &title, path: &path, live: None }, &body)
}

/// The node at a place of the map.
async fn node_at<S: Source>(
    State(app): State<App<S>>,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let key = DaemonSetKey::new(namespace.as_str(), name.as_str());
    let number = |name| parameter(query.as_deref(), name)?.parse::<usize>().ok();
    let receiver = app.source.daemon_set(&key);
    let node = match &receiver.borrow().content {
        Content::Loaded(detail) => (|| {
            let (node, _) = detail.zones.get(number("zone")?)?.nodes.get(number("cell")?)?;
            Some(node.clone())
        })(),
        Content::Loading | Content::Missing(_) => None,
    };
    match node {
        Some(node) => app.redirect(&link::node(&node)),
        None => app.failed(StatusCode::NOT_FOUND, "No node", "there is no node at this place"),
    }
}

async fn diff<S: Source>(
    State(app): State<App<S>>,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let key = DaemonSetKey::new(namespace.as_str(), name.as_str());
    let number = |name| parameter(query.as_deref(), name)?.parse::<i64>().ok();
    let title = format!("Revisions of {key}");
    let path = format!("{}/diff", link::daemon_set(&key));
    match app.source.revisions(&key).await {
        Ok(revisions) => {
            let body = view::diff::page(&key, &revisions, number("from"), number("to"));
            app.page(&Page { title: &title, path: &path, live: None }, &body)
        }
        Err(message) => app.failed(StatusCode::BAD_GATEWAY, &title, &message),
    }
}

async fn prepare<S: Source>(
    State(app): State<App<S>>,
    Path((namespace, name, action)): Path<(String, String, String)>,
) -> Response {
    let key = DaemonSetKey::new(namespace.as_str(), name.as_str());
    let Ok(action) = action.parse::<Action>() else {
        return app.failed(StatusCode::NOT_FOUND, "No action", "there is no such action");
    };
    let prepared = app.source.prepare(&key, action).await;
    let title = format!("{} {key}", action.label());
    let path = link::action(&key, action);
    let body = view::action::question(
        &key,
        action,
        (app.source.cluster(), &prepared),
        app.access.form.as_str(),
    );
    app.page(&Page { title: &title, path: &path, live: None }, &body)
}

async fn perform<S: Source>(
    State(app): State<App<S>>,
    Path((namespace, name, action)): Path<(String, String, String)>,
    form: Bytes,
) -> Response {
    let key = DaemonSetKey::new(namespace.as_str(), name.as_str());
    let Ok(action) = action.parse::<Action>() else {
        return app.failed(StatusCode::NOT_FOUND, "No action", "there is no such action");
    };
    let form = str::from_utf8(&form).unwrap_or_default();
    let secret = parameter(Some(form), "secret").unwrap_or_default();
    if !app.access.form.is(&secret) {
        return refused(Refusal::Credentials);
    }
    let basis = parameter(Some(form), "basis").unwrap_or_default();
    let (source, of) = (app.source.clone(), key.clone());
    // It goes on even if the browser does not wait for the result.
    let task = tokio::spawn(async move { source.perform(&of, action, &basis).await });
    let result = task.await.unwrap_or_else(|error| Err(format!("the action failed: {error}")));
    let title = format!("{} {key}", action.label());
    let path = link::daemon_set(&key);
    let body = view::action::result(&key, action, &result);
    let code = if result.is_ok() { StatusCode::OK } else { StatusCode::CONFLICT };
    (code, app.page(&Page { title: &title, path: &path, live: None }, &body)).into_response()
}

async fn find_node<S: Source>(State(app): State<App<S>>, RawQuery(query): RawQuery) -> Response {
    match parameter(query.as_deref(), "name").map(|name| name.trim().to_owned()) {
        Some(name) if !name.is_empty() => app.redirect(&link::node(&NodeName::from(name))),
        Some(_) | None => app.redirect(""),
    }
}

/// The first names of nodes that contain what was typed.
async fn node_names<S: Source>(State(app): State<App<S>>, RawQuery(query): RawQuery) -> Response {
    let part = parameter(query.as_deref(), "part").unwrap_or_default();
    let names = app.source.node_names().await;
    let found = names.iter().filter(|name| name.contains(part.trim()));
    Html(view::names(found.take(SUGGESTIONS_MAX)).into_string()).into_response()
}

async fn node<S: Source>(State(app): State<App<S>>, Path(name): Path<String>) -> Response {
    let name = NodeName::from(name);
    let mut receiver = app.source.node(&name);
    settled(&mut receiver).await;
    let path = link::node(&name);
    let live = format!("{path}/live");
    let body = view::node::page(&name, &receiver.borrow());
    app.page(&Page { title: name.as_str(), path: &path, live: Some(&live) }, &body)
}

async fn node_live<S: Source>(State(app): State<App<S>>, Path(name): Path<String>) -> Response {
    let name = NodeName::from(name);
    let receiver = app.source.node(&name);
    let sections = move |reading: &Reading<_>| view::node::sections(&name, reading);
    live::events(receiver, sections, app.shutdown.clone()).into_response()
}

async fn asset(Path(name): Path<String>) -> Response {
    match assets::find(&name) {
        Some(asset) => ([(header::CONTENT_TYPE, asset.media_type)], asset.text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Waits a moment for the first content.
async fn settled<T>(receiver: &mut watch::Receiver<Reading<T>>) {
    let _ = tokio::time::timeout(CONTENT_WAIT, loaded(receiver)).await;
}

/// Waits for the first content.
async fn loaded<T>(receiver: &mut watch::Receiver<Reading<T>>) {
    let is_loaded = |reading: &Reading<T>| !matches!(reading.content, Content::Loading);
    // If the sender is gone, there is nothing to wait for.
    let _ = receiver.wait_for(is_loaded).await;
}

/// The value of the first parameter of this name.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query?.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
