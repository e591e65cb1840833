//! Deliberate bugs of copies of ConfigMaps (G58): what the replica reads of policies, what it
//! creates pods of, and which copies it writes and deletes.

use everynode_core::plan::{Plan, Write};
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::CONFIG_MAP;
use everynode_sandbox::store::Store;

use super::bugs::bugs;
use super::guarded::with_policy;
use crate::network::Request;

bugs! {
    /// A deliberate bug of copies of ConfigMaps.
    ConfigMapMutation:
    /// Another content counts at once.
    IgnoreSettle: Copies,
    /// Another content never counts.
    NeverSettle: Copies,
    /// Where a new content would be copied, the copy of another one is deleted.
    DeleteUsedCopies: Copies,
    /// A copy has another content than its ConfigMap.
    ChangeCopies: Copies,
    /// Going back restores the template, but no ConfigMaps.
    RestoreTemplateOnly: Template,
    /// A pod of the target names the ConfigMaps themselves.
    NameNoCopies: Template,
}

impl ConfigMapMutation {
    /// Changes a DaemonSet as the replica receives it. Returns whether this bug does.
    pub(super) fn change_daemon_set(self, ds: &mut Value) -> bool {
        let settle = match self {
            Self::IgnoreSettle => "0s",
            Self::NeverSettle => "3h",
            _ => return false,
        };
        with_policy(&mut ds["metadata"]["annotations"], |policy| {
            if policy["config"].is_object() {
                policy["config"]["settle"] = json!(settle);
            }
        })
    }

    /// Changes a plan before it is executed.
    pub(super) fn plan(self, plan: &mut Plan) {
        for write in &mut plan.writes {
            let Write::CreatePod(new) = write else { continue };
            match (self, &new.template) {
                (Self::RestoreTemplateOnly, Some(_)) | (Self::NameNoCopies, None) => {
                    new.r#override = None;
                }
                _ => {}
            }
        }
    }

    /// Changes a request before it is sent.
    pub(super) fn request(self, store: &Store, request: &mut Request) {
        let is_creation = request.method == http::Method::POST;
        if !is_creation || !request.path.ends_with("/configmaps") {
            return;
        }
        match self {
            Self::ChangeCopies => request.change(|copy| copy["data"]["n"] = json!("0")),
            Self::DeleteUsedCopies => {
                let copies = store.iter(&CONFIG_MAP, None);
                let mut copies = copies.filter(|map| map.value()["immutable"] == true);
                if let Some(copy) = copies.next() {
                    request.method = http::Method::DELETE;
                    request.path = format!("{}/{}", request.path, copy.name());
                    let uid = copy.uid().to_owned();
                    request.change(|body| *body = json!({"preconditions": {"uid": uid}}));
                }
            }
            _ => {}
        }
    }
}
