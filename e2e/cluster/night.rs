//! Transcripts of kubectl with dozens of commands, each of which takes kubectl a tenth of a second.

use anyhow::Result;

use super::custom_resources::hold;

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

/// S14: apply, conflict, force, several managers, lists by key, sets, atomic fields, giving up a
/// field, apply over a client-side apply, the status, dry run and diff
#[tokio::test]
async fn server_side_apply_is_that_of_a_real_cluster() -> Result<()> {
    hold("server_side_apply.txt").await
}
