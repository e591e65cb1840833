//! The cause of a failure as the containers of a pod state it, for people (G35).

use serde::Deserialize;

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    init_container_statuses: Vec<Container>,
    container_statuses: Vec<Container>,
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    ready: bool,
    restart_count: u32,
    state: State,
    last_state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Reason>,
    terminated: Option<Reason>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reason {
    reason: String,
    message: String,
    exit_code: Option<i32>,
}

/// The cause that one container states, such as `container agent: CrashLoopBackOff, exit code 1, 3
/// restarts: no such device`: the first that is not ready; if all are, the one that has restarted
/// most. If none has, it is what the scheduler or the pod states; `None` if that is nothing. The
/// text is of any length, and may have several lines.
pub fn pod_cause(json: &[u8]) -> Option<String> {
    let Pod { status } = serde_json::from_slice(json).ok()?;
    // An init container is ready once it has succeeded.
    let containers = || status.init_container_statuses.iter().chain(&status.container_statuses);
    let restarted = || containers().filter(|container| container.restart_count > 0);
    let failed = containers().find(|container| !container.ready);
    let failed = failed.or_else(|| restarted().max_by_key(|container| container.restart_count));
    let cause = failed.map(Container::cause);
    let is_unscheduled = |it: &Condition| it.kind == "PodScheduled" && it.status == "False";
    if let Some(Condition { reason, message, .. }) =
        status.conditions.into_iter().find(is_unscheduled)
    {
        return Some(Reason { reason, message, exit_code: None }.text());
    }
    let stated = Reason { reason: status.reason, message: status.message, exit_code: None };
    cause.or_else(|| Some(stated.text()).filter(|text| !text.is_empty()))
}

impl Container {
    fn cause(&self) -> String {
        let now = self.state.waiting.as_ref().or(self.state.terminated.as_ref());
        // While it waits, its last end says more than the kubelet's own message.
        let ended = self.state.terminated.as_ref().or(self.last_state.terminated.as_ref());
        let message = ended.map(|it| &it.message).filter(|message| !message.is_empty());
        let message = message.or(now.map(|it| &it.message)).cloned().unwrap_or_default();
        let reason = now.or(ended).map_or("not ready", |it| &it.reason).to_owned();
        if now.is_none() && ended.is_none() && self.restart_count == 0 {
            return format!("container {}: not ready", self.name);
        }
        let mut text = format!("container {}: {reason}", self.name);
        if let Some(code) = ended.and_then(|it| it.exit_code) {
            text += &format!(", exit code {code}");
        }
        match self.restart_count {
            0 => {}
            1 => text += ", 1 restart",
            restarts => text += &format!(", {restarts} restarts"),
        }
        if !message.is_empty() {
            text += &format!(": {message}");
        }
        text
    }
}

impl Reason {
    fn text(&self) -> String {
        let parts = [&self.reason, &self.message].into_iter().filter(|part| !part.is_empty());
        parts.cloned().collect::<Vec<_>>().join(": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cause(status: &Value) -> Option<String> {
        pod_cause(json!({ "status": status }).to_string().as_bytes())
    }

    /// G35: what people need to see of a pod that is gone later.
    #[test]
    fn a_cause_names_the_container_its_end_and_its_message() {
        let crash = json!({ "containerStatuses": [
            { "name": "log", "ready": true },
            {
                "name": "agent", "restartCount": 3,
                "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 40s" } },
                "lastState": { "terminated": {
                    "reason": "Error", "exitCode": 1, "message": "no such device",
                } },
            },
        ] });
        let pull = json!({ "containerStatuses": [{ "name": "agent", "state": { "waiting": {
            "reason": "ImagePullBackOff", "message": "not found",
        } } }] });
        let init = json!({
            "initContainerStatuses": [{ "name": "setup", "state": { "terminated": {
                "reason": "OOMKilled", "exitCode": 137,
            } } }],
            "containerStatuses": [{ "name": "agent", "state": { "waiting": {
                "reason": "PodInitializing",
            } } }],
        });
        let running = json!({ "containerStatuses": [{
            "name": "agent", "state": { "running": {} },
        }] });
        let restarted = json!({ "containerStatuses": [{
            "name": "agent", "ready": true, "restartCount": 4, "state": { "running": {} },
            "lastState": { "terminated": { "reason": "OOMKilled", "exitCode": 137 } },
        }] });
        let evicted = json!({ "reason": "Evicted", "message": "the node was low on memory" });
        let unscheduled = json!({ "conditions": [{ "type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available" }] });
        for (status, expected) in [
            (crash, "container agent: CrashLoopBackOff, exit code 1, 3 restarts: no such device"),
            (pull, "container agent: ImagePullBackOff: not found"),
            (init, "container setup: OOMKilled, exit code 137"),
            (running, "container agent: not ready"),
            (restarted, "container agent: OOMKilled, exit code 137, 4 restarts"),
            (evicted, "Evicted: the node was low on memory"),
            (unscheduled, "Unschedulable: 0/3 nodes are available"),
        ] {
            assert_eq!(cause(&status).as_deref(), Some(expected));
        }
        assert_eq!(cause(&json!({})), None);
        assert_eq!(pod_cause(b"[]"), None);
    }
}
