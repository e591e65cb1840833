//! Deliberate bugs of a replica that guards rollouts beside the built-in controller.

use everynode_core::api::ROLLED_BACK_ANNOTATION;
use everynode_core::daemon_set::Mode;
use everynode_sandbox::json::{Value, json};

use super::GuardedMutation;
use super::bugs::bugs;
use crate::network::Request;

/// Who acts on a new template, as conditions say, and as they say with a deliberate bug.
const WHO: [&str; 2] = ["the built-in controller", "another controller"];

bugs! {
    /// A deliberate bug beside the built-in controller.
    BesideMutation:
    /// It does all that the built-in controller does, too (G20).
    ControlToo: Beside,
    /// Any strategy is treated as `OnDelete` (G18).
    IgnoreStrategy: Gate,
    /// The newest generation counts as observed (G19).
    TrustGeneration: Beside,
    /// Revisions are numbered by the time of their creation (G19).
    NumberByAge: Budget,
    /// A failed rollout is not rolled back, although it may be (G20).
    NeverRollBack: Beside,
    /// The attempt that was rolled back last is forgotten (G20).
    ForgetRollBack: Beside,
    /// `maxRemoved` is 100% (G42).
    PermitRemovals: Record,
    /// `maxRemoved` is one too high (G42).
    PermitRemoval: Record,
    /// The condition of a rollout that waits for the built-in controller does not say so (G19).
    StateAnother: Beside,
}

impl BesideMutation {
    /// How the replica runs.
    pub(super) const fn mode(self, mode: Mode) -> Mode {
        match (self, mode) {
            (Self::ControlToo, Mode::Beside { .. }) => Mode::Controller,
            (Self::NeverRollBack, Mode::Beside { .. }) => Mode::Beside { rolls_back: false },
            (_, mode) => mode,
        }
    }

    /// Changes an object as the replica receives it. Returns whether this bug does.
    pub(super) fn change(self, kind: &str, object: &mut Value) -> bool {
        match (self, kind) {
            (Self::IgnoreStrategy, "DaemonSet") => {
                object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
            }
            (Self::TrustGeneration, "DaemonSet") => {
                object["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
            }
            (Self::NumberByAge, "ControllerRevision") => {
                let created = object["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
                let digits = created.bytes().filter(u8::is_ascii_digit);
                let time = digits.fold(0, |time: i64, digit| time * 10 + i64::from(digit - b'0'));
                object["revision"] = json!(time);
            }
            (Self::PermitRemovals, _) => {
                return GuardedMutation::AllowRemovals.change(kind, object);
            }
            (Self::PermitRemoval, _) => {
                return GuardedMutation::LargerRemovals.change(kind, object);
            }
            (Self::StateAnother, "DaemonSet") => {
                let [right, wrong] = WHO;
                replace_in_messages(&mut object["status"], wrong, right);
            }
            (Self::ForgetRollBack, "DaemonSet") => {
                let annotations = object["metadata"]["annotations"].as_object_mut();
                annotations.into_iter().for_each(|all| drop(all.remove(ROLLED_BACK_ANNOTATION)));
            }
            _ => return false,
        }
        true
    }

    /// Changes a request before it is sent.
    pub(super) fn request(self, request: &mut Request) {
        if self == Self::StateAnother && request.path.ends_with("/status") {
            let [right, wrong] = WHO;
            request.change(|body| replace_in_messages(&mut body["status"], right, wrong));
        }
    }
}

/// Replaces a text in the messages of the conditions of a status.
fn replace_in_messages(status: &mut Value, from: &str, to: &str) {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if let Some(message) = condition["message"].as_str() {
            condition["message"] = json!(message.replace(from, to));
        }
    }
}
