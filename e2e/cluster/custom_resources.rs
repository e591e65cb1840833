//! Custom resources: transcripts of kubectl that are the same on every cluster. The long ones are
//! held by [night](super::night).

use std::path::Path;

use anyhow::Result;

use crate::sandbox::conversation;
use crate::world::World;

/// S13, S14, S15: Lists, empty documents, objects and keys that appear twice, line ends of Windows,
/// tabs, octal numbers, wrong types, status in a file, old API versions, a definition and its
/// object in one file
#[tokio::test]
async fn odd_manifests_are_applied_as_on_a_real_cluster() -> Result<()> {
    hold("odd_manifests.txt").await
}

/// Holds a transcript of this folder.
pub(super) async fn hold(transcript: &str) -> Result<()> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cluster");
    let world = World::cluster(2).await?;
    let file = Path::new(folder).join(transcript);
    conversation::hold_in(&world, &file, Some(&world.namespace)).await
}
