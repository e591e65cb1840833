//! How far the watches of a replica are.

/// The versions that the watches have reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feeds {
    /// The watch of nodes.
    pub nodes: u64,
    /// The watch of namespaces.
    pub namespaces: u64,
    /// The watch of DaemonSets.
    pub daemon_sets: u64,
    /// The watch of pods.
    pub pods: u64,
    /// The last list of pods.
    pub pods_listed: u64,
    /// The watch of ControllerRevisions.
    pub revisions: u64,
    /// The watch of ConfigMaps; 0 while they are not known.
    pub config_maps: u64,
}
