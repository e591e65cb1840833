//! A cluster as the operator's commands use it: connect, read, patch, follow. Whatever the cluster refuses is told as what to
//! do about it ([`Error`]). It never writes but where a command asks it to.

mod error;
mod find;
mod follow;
mod resource;

use std::collections::BTreeSet;
use std::time::Duration;

use everynode_controller::client::{self, Location, Pings};
use http::{Method, Request, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::ConnectionArguments;
pub use error::{Error, Right};
pub use follow::{Follower, News};
pub use resource::{Resource, Selection};

/// Objects on a page of a list, as kubectl asks for them.
const PAGE_LIMIT: u32 = 500;
/// A list may take the server long.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Who changed an object, in its `managedFields`.
const FIELD_MANAGER: &str = "everynode";

pub struct Cluster {
    client: kube::Client,
    server: String,
    namespace: String,
}

/// Whether a patch is to happen, or only to be checked by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    No,
    Server,
}

impl Cluster {
    /// Nothing is asked of the server yet.
    ///
    /// # Errors
    /// If there is no kubeconfig, or not that context in it, or its credentials can't be used.
    pub async fn connect(arguments: &ConnectionArguments) -> Result<Cluster, Error> {
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
        Ok(Cluster { client, server: config.server(), namespace })
    }

    /// That of `--namespace`, else of the context, else `default`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// All objects of the selection, page by page, as of one moment.
    ///
    /// # Errors
    /// As the server refuses it, or does not answer.
    pub async fn list(
        &self,
        resource: Resource,
        selection: &Selection,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        self.complete(resource, selection, Form::Object).await
    }

    /// [`list`](Self::list), read as its type.
    ///
    /// # Errors
    /// As the server refuses it, or does not answer, or answers otherwise than Kubernetes.
    pub async fn list_as<T: DeserializeOwned>(
        &self,
        resource: Resource,
        selection: &Selection,
    ) -> Result<Vec<T>, Error> {
        let objects = self.list(resource, selection).await?;
        objects.iter().map(|object| parsed(resource, object.get())).collect()
    }

    /// The metadata of [`list`](Self::list), which is all that the server sends then.
    ///
    /// # Errors
    /// As the server refuses it, or does not answer, or answers otherwise than Kubernetes.
    pub async fn list_metadata(
        &self,
        resource: Resource,
        selection: &Selection,
    ) -> Result<Vec<ObjectMeta>, Error> {
        let objects = self.complete(resource, selection, Form::Metadata).await?;
        let partial = objects.iter().map(|object| parsed::<Partial>(resource, object.get()));
        partial.map(|partial| Ok(partial?.metadata)).collect()
    }

    /// One object.
    ///
    /// # Errors
    /// As the server refuses it, or does not answer; [`Error::NotFound`] if there is none.
    pub async fn read(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Box<RawValue>, Error> {
        let right = Right::new("get", resource, namespace).of(name);
        let path = resource.path(namespace, Some(name));
        let text = self.send(&right, request(Method::GET, &path, Form::Object, None)?).await?;
        RawValue::from_string(text).map_err(|error| unreadable(resource, &error))
    }

    /// Has the server check a new object as it would on its creation; returns it with all that the server fills in.
    ///
    /// # Errors
    /// As the server refuses it, or does not answer.
    pub async fn try_create(
        &self,
        resource: Resource,
        namespace: &str,
        object: &Value,
    ) -> Result<Box<RawValue>, Error> {
        let right = Right::new("create", resource, Some(namespace));
        let path = resource.path(Some(namespace), None);
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&dryRun=All");
        let text =
            self.send(&right, request(Method::POST, &path, Form::Object, Some(object))?).await?;
        RawValue::from_string(text).map_err(|error| unreadable(resource, &error))
    }

    /// Sends a strategic merge patch; returns the object as it is then.
    ///
    /// # Errors
    /// As the server refuses it, or does not answer.
    pub async fn patch(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
        dry_run: DryRun,
    ) -> Result<Box<RawValue>, Error> {
        let right = Right::new("patch", resource, namespace).of(name);
        let mut path = resource.path(namespace, Some(name));
        path.push_str("?fieldManager=");
        path.push_str(FIELD_MANAGER);
        if dry_run == DryRun::Server {
            path.push_str("&dryRun=All");
        }
        let text =
            self.send(&right, request(Method::PATCH, &path, Form::Object, Some(patch))?).await?;
        RawValue::from_string(text).map_err(|error| unreadable(resource, &error))
    }

    async fn complete(
        &self,
        resource: Resource,
        selection: &Selection,
        form: Form,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        match self.pages(resource, selection, form, Some(PAGE_LIMIT)).await {
            // The moment that the pages are of is forgotten: all at once, then, as kubectl does.
            Err(Error::Expired) => self.pages(resource, selection, form, None).await,
            result => result,
        }
    }

    async fn pages(
        &self,
        resource: Resource,
        selection: &Selection,
        form: Form,
        limit: Option<u32>,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        let right = Right::new("list", resource, selection.namespace());
        let mut objects = Vec::new();
        let mut token = None;
        loop {
            let path = selection.path(resource, limit, token.as_deref());
            let text = self.send(&right, request(Method::GET, &path, form, None)?).await?;
            let page: Page = parsed(resource, &text)?;
            objects.extend(page.items.unwrap_or_default());
            token = page.metadata.continue_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(objects);
            }
        }
    }

    async fn send(&self, right: &Right, request: Request<Vec<u8>>) -> Result<String, Error> {
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.client.request_text(request)).await;
        match answer {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(Error::of(right, &self.server, error)),
            Err(_) => Err(Error::Silent { server: self.server.clone(), within: ANSWER_WITHIN }),
        }
    }
}

fn location(arguments: &ConnectionArguments) -> Location {
    Location {
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
        impersonate: arguments.impersonate.clone(),
    }
}

/// The contexts of the kubeconfig; none if it can't be read.
pub fn contexts(arguments: &ConnectionArguments) -> BTreeSet<String> {
    let kubeconfig = client::kubeconfig(&location(arguments));
    let contexts = kubeconfig.map(|kubeconfig| kubeconfig.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| context.name).collect()
}

/// Reads an object that the cluster sent.
///
/// # Errors
/// If it has not the shape of its kind.
pub fn parsed<T: DeserializeOwned>(resource: Resource, json: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| unreadable(resource, &error))
}

/// How much of each object is to come.
#[derive(Clone, Copy, Debug)]
enum Form {
    Object,
    Metadata,
}

impl Form {
    const fn media_types(self) -> &'static str {
        match self {
            Self::Object => "application/json",
            Self::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }
}

#[derive(Deserialize)]
struct Partial {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    items: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct PageMeta {
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

fn unreadable(resource: Resource, error: &serde_json::Error) -> Error {
    Error::Unreadable { resource, cause: error.to_string() }
}

fn request(
    method: Method,
    path: &str,
    form: Form,
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
        .header(header::ACCEPT, form.media_types())
        .header(header::CONTENT_TYPE, content_type)
        .body(body)
        .map_err(|error| Error::Refused { message: format!("{path}: {error}") })
}
