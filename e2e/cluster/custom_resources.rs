//! Custom resources: a transcript of kubectl that is the same on every cluster.

use std::path::Path;

use anyhow::Result;

use crate::sandbox::conversation;
use crate::world::World;

/// S15: definitions, their objects with defaults, pruning and validation, patches, server-side
/// apply, subresources, tables, several versions, refused definitions and deletion
#[tokio::test]
async fn custom_resources_are_those_of_a_real_cluster() -> Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/cluster/custom_resources.txt");
    let world = World::cluster(2).await?;
    conversation::hold_in(&world, Path::new(file), Some(&world.namespace)).await
}
