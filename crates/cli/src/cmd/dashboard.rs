//! `everynode dashboard`: web pages about DaemonSets on this machine.

mod actions;
mod daemon_set;
mod list;
mod node;
mod sessions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use everynode_core::api::{DaemonSetKey, NodeName};
use everynode_dashboard::server::Server;
use everynode_dashboard::source::{
    Action, Content, DaemonSetDetail, DaemonSets, Done, NodeDetail, Prepared, Reading, Revisions,
    Source,
};
use tokio::sync::{Mutex, watch};

use super::top::Top;
use crate::args::{DaemonSetName, DashboardArguments};
use crate::clock;
use crate::cluster::{Cluster, DaemonSetRevisions, Resource, Selection};
use crate::output;
use crate::signal;
use sessions::Sessions;

/// For how long a question waits for the nodes of the rollout.
const NODES_WAIT: Duration = Duration::from_secs(5);
/// For how long the names of nodes that were read are suggested.
const NODE_NAMES_AGE_MAX: Duration = Duration::from_secs(10);

/// Executes the command.
pub(crate) async fn execute(arguments: DashboardArguments) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    let scope = Selection::in_scope(&arguments.connection);
    let shutdown = signal::shutdown()?;
    // An error at the start, such as a missing permission, is reported as by `top`.
    let Some(first) = shutdown.run_until_cancelled(Top::read(&cluster, &scope)).await else {
        return Ok(());
    };
    let pages = Arc::new(Pages {
        cluster,
        scope,
        list: Sessions::default(),
        daemon_sets: Sessions::default(),
        nodes: Sessions::default(),
        node_names: Mutex::default(),
    });
    // The first page needs not wait for the list.
    let first = first?;
    drop(pages.list.open((), |sender| list::follow(pages.clone(), Some(first), sender)));
    let server = Server::bind(arguments.port.unwrap_or(0)).await?;
    output::print(&format!("{}\n", server.url()))?;
    output::note("whoever has this URL acts with your rights; Ctrl-C ends it");
    server.serve(Arc::new(Shared(pages)), shutdown).await;
    Ok(())
}

/// The content of the pages, read from the cluster as long as somebody looks.
struct Pages {
    cluster: Cluster,
    scope: Selection,
    list: Sessions<(), DaemonSets>,
    daemon_sets: Sessions<DaemonSetKey, DaemonSetDetail>,
    nodes: Sessions<NodeName, NodeDetail>,
    /// The names of all nodes, and when they were read.
    node_names: Mutex<Option<(Instant, Arc<Vec<String>>)>>,
}

impl Pages {
    fn list(pages: &Arc<Self>) -> watch::Receiver<Reading<DaemonSets>> {
        pages.list.open((), |sender| list::follow(pages.clone(), None, sender))
    }

    fn daemon_set(
        pages: &Arc<Self>,
        key: &DaemonSetKey,
    ) -> watch::Receiver<Reading<DaemonSetDetail>> {
        let follow = |sender| daemon_set::follow(pages.clone(), key.clone(), sender);
        pages.daemon_sets.open(key.clone(), follow)
    }

    /// The connection in the namespace of a DaemonSet, and its name.
    ///
    /// # Errors
    /// If the name is none.
    fn target(&self, key: &DaemonSetKey) -> Result<(Cluster, DaemonSetName), String> {
        let name = key.name.as_str().parse()?;
        Ok((self.cluster.in_namespace(key.namespace.as_str()), name))
    }
}

/// The pages, as the server asks for them.
struct Shared(Arc<Pages>);

impl Source for Shared {
    fn cluster(&self) -> &str {
        self.0.cluster.description()
    }

    fn daemon_sets(&self) -> watch::Receiver<Reading<DaemonSets>> {
        Pages::list(&self.0)
    }

    fn daemon_set(&self, key: &DaemonSetKey) -> watch::Receiver<Reading<DaemonSetDetail>> {
        Pages::daemon_set(&self.0, key)
    }

    fn node(&self, name: &NodeName) -> watch::Receiver<Reading<NodeDetail>> {
        let follow = |sender| node::follow(self.0.clone(), name.clone(), sender);
        self.0.nodes.open(name.clone(), follow)
    }

    async fn node_names(&self) -> Arc<Vec<String>> {
        let mut last = self.0.node_names.lock().await;
        match &*last {
            Some((at, names)) if at.elapsed() < NODE_NAMES_AGE_MAX => names.clone(),
            Some(_) | None => {
                let read = self.0.cluster.list_metadata(Resource::Nodes, &Selection::all()).await;
                let nodes = read.unwrap_or_else(|error| {
                    output::note(format!("no names of nodes are suggested: {error}"));
                    Vec::new()
                });
                let names = Arc::new(nodes.into_iter().filter_map(|node| node.name).collect());
                *last = Some((Instant::now(), Arc::clone(&names)));
                names
            }
        }
    }

    async fn revisions(&self, key: &DaemonSetKey) -> Result<Revisions, String> {
        let (cluster, name) = self.0.target(key)?;
        let read = DaemonSetRevisions::read(&cluster, &name).await;
        let revisions = read.map_err(|error| error.to_string())?;
        let (entries, read_at) = (revisions.entries(None), clock::now());
        Ok(Revisions { entries, template: revisions.template, read_at })
    }

    async fn prepare(&self, key: &DaemonSetKey, action: Action) -> Result<Prepared, String> {
        let (cluster, name) = self.0.target(key)?;
        let mut page = Pages::daemon_set(&self.0, key);
        let is_read = |reading: &Reading<_>| !matches!(reading.content, Content::Loading);
        // Who comes from the list has not seen its page. Without the nodes less is said of waves.
        let _ = tokio::time::timeout(NODES_WAIT, page.wait_for(is_read)).await;
        let nodes = match &page.borrow().content {
            Content::Loaded(detail) => detail.guarded.as_ref().and_then(|it| it.nodes.clone()),
            Content::Loading | Content::Missing(_) => None,
        };
        let prepared = actions::prepare(&cluster, &name, action, nodes.as_ref()).await;
        prepared.map_err(|error| format!("{error:#}"))
    }

    async fn perform(
        &self,
        key: &DaemonSetKey,
        action: Action,
        basis: &str,
    ) -> Result<Done, String> {
        let (cluster, name) = self.0.target(key)?;
        actions::perform(&cluster, &name, action, basis).await.map_err(|error| format!("{error:#}"))
    }
}
