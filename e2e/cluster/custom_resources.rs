//! Custom resources: transcripts of kubectl that are the same on every cluster.

use std::path::Path;

use anyhow::Result;

use crate::sandbox::conversation;
use crate::world::World;

/// S15: definitions, their objects with defaults, pruning and validation, patches, server-side
/// apply, subresources, tables, several versions, refused definitions and deletion
#[tokio::test]
async fn custom_resources_are_those_of_a_real_cluster() -> Result<()> {
    hold("custom_resources.txt").await
}

/// S15: rules that cost too much, that do not compile, and what they say of objects; values that an
/// older definition let in; watches that end with their definition
#[tokio::test]
async fn the_rules_of_definitions_are_those_of_a_real_cluster() -> Result<()> {
    hold("custom_rules.txt").await
}

/// S15: defaults that are no values of their schemas
#[tokio::test]
async fn the_defaults_of_definitions_are_checked_as_on_a_real_cluster() -> Result<()> {
    hold("defaults_of_definitions.txt").await
}

/// S15: custom resources with values of wrong types and out of range
#[tokio::test]
async fn invalid_custom_resources_are_refused_as_on_a_real_cluster() -> Result<()> {
    hold("invalid_custom_resources.txt").await
}

/// S13, S14, S15: Lists, empty documents, objects and keys that appear twice, line ends of Windows,
/// tabs, octal numbers, wrong types, status in a file, old API versions, a definition and its
/// object in one file
#[tokio::test]
async fn odd_manifests_are_applied_as_on_a_real_cluster() -> Result<()> {
    hold("odd_manifests.txt").await
}

async fn hold(transcript: &str) -> Result<()> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cluster");
    let world = World::cluster(2).await?;
    let file = Path::new(folder).join(transcript);
    conversation::hold_in(&world, &file, Some(&world.namespace)).await
}
