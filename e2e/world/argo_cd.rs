//! The health of a DaemonSet that Argo CD shows with the check under deploy/: a Lua script in a
//! patch of its ConfigMap.

use anyhow::{Context, Result, ensure};
use mlua::{Lua, LuaOptions, LuaSerdeExt, StdLib};
use serde::Deserialize;
use serde_json::Value;

use super::World;

const PATCH: &str = include_str!("../../deploy/argocd/health-daemonset.yaml");
const KEY: &str = "resource.customizations.health.apps_DaemonSet";

/// The result of a health check.
#[derive(Debug, Deserialize)]
pub(crate) struct Health {
    pub status: String,
    #[serde(default)]
    pub message: String,
}

/// The health of a DaemonSet in JSON form. Argo CD gives scripts no library but these.
pub(crate) fn health(daemon_set: &Value) -> Result<Health> {
    let patch: Value = serde_saphyr::from_str(PATCH)?;
    let script = patch["data"][KEY].as_str().context("the patch has no script")?;
    let lua = Lua::new_with(StdLib::TABLE, LuaOptions::default())?;
    lua.globals().set("obj", lua.to_value(daemon_set)?)?;
    Ok(lua.from_value(lua.load(script).eval()?)?)
}

impl World {
    /// Fails unless Argo CD shows this health of the DaemonSet.
    pub(crate) async fn shows_health(&self, name: &str, status: &str) -> Result<()> {
        let health = health(&serde_json::to_value(self.daemon_sets().get(name).await?)?)?;
        ensure!(health.status == status, "{health:?}, not {status}");
        Ok(())
    }
}
