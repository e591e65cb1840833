//! The client of the operators' commands: connect, read, patch, watch. An [`Error`] states what the
//! operator can do. Nothing is stored except by [`Cluster::patch`].

mod error;
mod lookup;
mod refusals;
mod resource;
mod revisions;
mod warning;
mod watcher;

use std::collections::BTreeSet;
use std::time::Duration;

use everynode_controller::api::Api;
use everynode_controller::client::{self, Location, Pings};
use everynode_controller::lease::Fence;
use http::{Method, Request, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::ConnectionArguments;
pub(crate) use error::{Error, Permission};
pub(crate) use resource::{Resource, Selection};
pub(crate) use revisions::DaemonSetRevisions;
pub(crate) use watcher::{Update, Watcher};

/// The number of objects in one page of a list, as in kubectl.
pub(crate) const PAGE_LIMIT: u32 = 500;
/// The maximum number of pages of a list: five million objects.
const PAGES_MAX: usize = 10_000;
/// The maximum duration of a request. Long lists take the server some time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum duration of the question who asks.
const USER_TIMEOUT: Duration = Duration::from_secs(5);
const USER_PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// The name of this program in the `managedFields` of objects that it changes.
const FIELD_MANAGER: &str = "everynode";

/// A connection to a cluster, and the namespace to work in.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: kube::Client,
    server: String,
    description: String,
    namespace: String,
}

/// Says if a patch is applied, or only validated by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryRun {
    No,
    Server,
}

impl Cluster {
    /// Reads the kubeconfig and creates a client. No request is sent yet.
    ///
    /// # Errors
    /// If there is no kubeconfig, it lacks the context, or its credentials can't be used.
    pub(crate) async fn connect(arguments: &ConnectionArguments) -> Result<Cluster, Error> {
        if let Some(context) = &arguments.context {
            let known = contexts(arguments);
            if !known.is_empty() && !known.contains(context) {
                return Err(Error::UnknownContext { context: context.clone(), known });
            }
        }
        let config = client::config(&location(arguments))?;
        let client = client::client(&config, Pings::default())?;
        let namespace = arguments.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace().to_owned());
        Ok(Cluster { client, server: config.server(), description: config.cluster(), namespace })
    }

    /// The namespace of `--namespace`, else of the context, else `default`.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The cluster for people: the context, if there is one, and the server.
    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    /// The same connection as the controller uses it.
    pub(crate) fn api(&self) -> Api {
        Api::new(self.client.clone(), Fence::open(), None)
    }

    /// The same connection, to work in another namespace.
    #[must_use]
    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    /// All objects of the selection at one moment, read page by page.
    ///
    /// # Errors
    /// If the server rejects the request or does not answer.
    pub(crate) async fn list(
        &self,
        resource: Resource,
        selection: &Selection,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        self.list_complete(resource, selection, Representation::Object).await
    }

    /// [`list`](Self::list), parsed as `T`.
    ///
    /// # Errors
    /// If the server rejects the request, does not answer, or sends something else.
    pub(crate) async fn list_as<T: DeserializeOwned>(
        &self,
        resource: Resource,
        selection: &Selection,
    ) -> Result<Vec<T>, Error> {
        let objects = self.list(resource, selection).await?;
        objects.iter().map(|object| parsed(resource, object.get())).collect()
    }

    /// [`list`](Self::list), but the server sends only the metadata of each object.
    ///
    /// # Errors
    /// If the server rejects the request, does not answer, or sends something else.
    pub(crate) async fn list_metadata(
        &self,
        resource: Resource,
        selection: &Selection,
    ) -> Result<Vec<ObjectMeta>, Error> {
        let objects = self.list_complete(resource, selection, Representation::Metadata).await?;
        let partial = objects.iter().map(|object| parsed::<MetadataOnly>(resource, object.get()));
        partial.map(|partial| Ok(partial?.metadata)).collect()
    }

    /// Reads one object.
    ///
    /// # Errors
    /// If the server rejects the request or does not answer; [`Error::NotFound`] if there is none.
    pub(crate) async fn read(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Box<RawValue>, Error> {
        let permission = Permission::new("get", resource, namespace).of(name);
        let path = resource.path(namespace, Some(name));
        let request = request(Method::GET, &path, Representation::Object, None)?;
        Ok(self.send(&permission, request).await?.written(resource)?.object)
    }

    /// Lets the server validate a new object with `dryRun=All`; returns the object with the
    /// server's defaults, and its warnings.
    ///
    /// # Errors
    /// If the server rejects the object or does not answer.
    pub(crate) async fn dry_run_create(
        &self,
        resource: Resource,
        namespace: &str,
        object: &Value,
    ) -> Result<Written, Error> {
        let permission = Permission::new("create", resource, Some(namespace));
        let path = resource.path(Some(namespace), None);
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&dryRun=All");
        let request = request(Method::POST, &path, Representation::Object, Some(object))?;
        self.send(&permission, request).await?.written(resource)
    }

    /// Sends a strategic merge patch; returns the patched object, and the server's warnings.
    ///
    /// # Errors
    /// If the server rejects the patch or does not answer.
    pub(crate) async fn patch(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
        dry_run: DryRun,
    ) -> Result<Written, Error> {
        let permission = Permission::new("patch", resource, namespace).of(name);
        let mut path = resource.path(namespace, Some(name));
        path.push_str("?fieldManager=");
        path.push_str(FIELD_MANAGER);
        if dry_run == DryRun::Server {
            path.push_str("&dryRun=All");
        }
        let request = request(Method::PATCH, &path, Representation::Object, Some(patch))?;
        self.send(&permission, request).await?.written(resource)
    }

    /// The user that the server takes the caller for (SelfSubjectReview). `None` if it does not
    /// tell: the question is no obstacle to what it is asked for.
    pub(crate) async fn user(&self) -> Option<String> {
        let review =
            json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
        let request =
            request(Method::POST, USER_PATH, Representation::Object, Some(&review)).ok()?;
        let answer = tokio::time::timeout(USER_TIMEOUT, self.answer(request)).await.ok()?.ok()?;
        let review: Value = serde_json::from_str(&answer.text).ok()?;
        let name = review.pointer("/status/userInfo/username")?.as_str()?;
        Some(name.to_owned())
    }

    async fn list_complete(
        &self,
        resource: Resource,
        selection: &Selection,
        representation: Representation,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        match self.pages(resource, selection, representation, Some(PAGE_LIMIT)).await {
            // The server no longer has the version of the first page. Read all at once, as kubectl
            // does.
            Err(Error::Expired) => self.pages(resource, selection, representation, None).await,
            result => result,
        }
    }

    async fn pages(
        &self,
        resource: Resource,
        selection: &Selection,
        representation: Representation,
        limit: Option<u32>,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        let permission = Permission::new("list", resource, selection.namespace());
        let mut objects = Vec::new();
        let mut token = None;
        for _ in 0..PAGES_MAX {
            let path = selection.path(resource, limit, token.as_deref());
            let request = request(Method::GET, &path, representation, None)?;
            let page: Page = parsed(resource, &self.send(&permission, request).await?.text)?;
            objects.extend(page.items.unwrap_or_default());
            match page.metadata.continue_token.filter(|token| !token.is_empty()) {
                None => return Ok(objects),
                next if next == token => break,
                next => token = next,
            }
        }
        Err(Error::Unparsable { resource, cause: "the list does not end".to_owned() })
    }

    async fn send(
        &self,
        permission: &Permission,
        request: Request<Vec<u8>>,
    ) -> Result<Answer, Error> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.answer(request)).await {
            Ok(Ok(answer)) if answer.status.is_success() => Ok(answer),
            Ok(Ok(answer)) => {
                let (code, message) = (answer.status.as_u16(), answer.message());
                Err(Error::of_status(permission, &self.server, code, message))
            }
            Ok(Err(error)) => Err(Error::of(permission, &self.server, error)),
            Err(_) => Err(Error::Timeout { server: self.server.clone(), within: REQUEST_TIMEOUT }),
        }
    }

    /// The output of a future that ends early enough.
    ///
    /// # Errors
    /// That the server did not answer.
    pub(crate) async fn within<T>(
        &self,
        within: Duration,
        requests: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let done = tokio::time::timeout(within, requests).await;
        done.map_err(|_| Error::Timeout { server: self.server.clone(), within })
    }

    async fn answer(&self, request: Request<Vec<u8>>) -> kube::Result<Answer> {
        let response = self.client.send(request.map(Body::from)).await?;
        let warnings = response.headers().get_all(header::WARNING).iter();
        let warnings = warnings.filter_map(|value| warning::text(value.to_str().ok()?)).collect();
        let status = response.status();
        let body = response.into_body().collect_bytes().await?;
        Ok(Answer { status, warnings, text: String::from_utf8_lossy(&body).into_owned() })
    }
}

/// The server's answer to a request.
struct Answer {
    status: StatusCode,
    warnings: Vec<String>,
    text: String,
}

impl Answer {
    fn written(self, resource: Resource) -> Result<Written, Error> {
        let object = RawValue::from_string(self.text);
        let object = object.map_err(|error| parse_error(resource, &error))?;
        Ok(Written { object, warnings: self.warnings })
    }

    /// The message of a status, or the text of another answer, such as a proxy's.
    fn message(&self) -> String {
        match serde_json::from_str::<kube::core::Status>(&self.text) {
            Ok(status) => status.message,
            Err(_) => self.text.clone(),
        }
    }
}

/// A written object, and what the server warns of.
#[derive(Debug)]
pub(crate) struct Written {
    pub object: Box<RawValue>,
    pub warnings: Vec<String>,
}

fn location(arguments: &ConnectionArguments) -> Location {
    Location {
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
        impersonate: arguments.impersonate.clone(),
    }
}

/// The contexts of the kubeconfig; empty if it can't be read.
pub(crate) fn contexts(arguments: &ConnectionArguments) -> BTreeSet<String> {
    let kubeconfig = client::kubeconfig(&location(arguments));
    let contexts = kubeconfig.map(|kubeconfig| kubeconfig.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| context.name).collect()
}

/// Parses an object that the cluster sent.
///
/// # Errors
/// If the JSON is not that of the kind.
pub(crate) fn parsed<T: DeserializeOwned>(resource: Resource, json: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| parse_error(resource, &error))
}

/// The representation of objects in an answer.
#[derive(Clone, Copy, Debug)]
enum Representation {
    Object,
    Metadata,
}

impl Representation {
    const fn media_types(self) -> &'static str {
        match self {
            Self::Object => "application/json",
            Self::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }
}

/// An object of which the server sent only the metadata.
#[derive(Deserialize)]
struct MetadataOnly {
    metadata: ObjectMeta,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
    items: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

fn parse_error(resource: Resource, error: &serde_json::Error) -> Error {
    Error::Unparsable { resource, cause: error.to_string() }
}

fn request(
    method: Method,
    path: &str,
    representation: Representation,
    body: Option<&Value>,
) -> Result<Request<Vec<u8>>, Error> {
    let content_type = if method == Method::PATCH {
        "application/strategic-merge-patch+json"
    } else {
        "application/json"
    };
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, representation.media_types())
        .header(header::CONTENT_TYPE, content_type)
        .body(body)
        .map_err(|error| Error::Rejected { message: format!("{path}: {error}") })
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use tower::{BoxError, service_fn};

    use super::*;

    /// G49: a server that does not say who asks is no obstacle.
    #[tokio::test]
    async fn a_server_may_not_say_who_asks() {
        let user = async |status: u16, body: &'static str| {
            let service = service_fn(move |request: Request<Body>| async move {
                assert_eq!((request.method(), request.uri().path()), (&Method::POST, USER_PATH));
                let body = Body::from(body.as_bytes().to_vec());
                Ok::<_, BoxError>(http::Response::builder().status(status).body(body).unwrap())
            });
            let client = kube::Client::new(service, "default");
            let (server, namespace) = ("https://a".to_owned(), "default".to_owned());
            let description = server.clone();
            Cluster { client, server, description, namespace }.user().await
        };
        let review = r#"{"kind":"SelfSubjectReview","status":{"userInfo":{"username":"alice"}}}"#;
        assert_eq!(user(201, review).await.as_deref(), Some("alice"));
        let refused = r#"{"kind":"Status","status":"Failure","message":"forbidden","code":403}"#;
        assert_eq!(user(403, refused).await, None);
        assert_eq!(user(404, "404 page not found").await, None);
        assert_eq!(user(201, r#"{"status":{"userInfo":{}}}"#).await, None);
    }

    /// A list whose pages lead back to themselves is an error.
    #[tokio::test]
    async fn a_list_without_end_is_an_error() {
        let service = service_fn(async |_: Request<Body>| {
            let page = r#"{"metadata":{"continue":"again"},"items":[]}"#;
            Ok::<_, BoxError>(http::Response::new(Body::from(page.as_bytes().to_vec())))
        });
        let client = kube::Client::new(service, "default");
        let cluster = Cluster {
            client,
            server: "https://a".to_owned(),
            description: "https://a".to_owned(),
            namespace: "default".to_owned(),
        };
        let error = cluster.list(Resource::Pods, &Selection::all()).await.unwrap_err();
        assert_eq!(error.to_string(), "can't parse pods: the list does not end");
    }
}
