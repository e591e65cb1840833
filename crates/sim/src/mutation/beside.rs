//! Deliberate bugs of a replica that guards rollouts beside the built-in controller.

use everynode_core::daemon_set::Mode;
use everynode_sandbox::json::{Value, json};

use crate::checker::Property;

const ROLLED_BACK: &str = "everynode.dev/rolled-back";

/// A deliberate bug beside the built-in controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideMutation {
    /// It does all that the built-in controller does, too (G20).
    ControlToo,
    /// Any strategy is treated as `OnDelete` (G18).
    IgnoreStrategy,
    /// The newest generation counts as observed (G19).
    TrustGeneration,
    /// Revisions are numbered by the time of their creation (G19).
    NumberByAge,
    /// A failed rollout is not rolled back, although it may be (G20).
    NeverRollBack,
    /// The attempt that was rolled back last is forgotten (G20).
    ForgetRollBack,
}

impl BesideMutation {
    /// Every bug, with the property that it violates.
    pub const ALL: [(Self, Property); 6] = [
        (Self::ControlToo, Property::Beside),
        (Self::IgnoreStrategy, Property::Gate),
        (Self::TrustGeneration, Property::Beside),
        (Self::NumberByAge, Property::Budget),
        (Self::NeverRollBack, Property::Beside),
        (Self::ForgetRollBack, Property::Beside),
    ];

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
            (Self::ForgetRollBack, "DaemonSet") => {
                let annotations = object["metadata"]["annotations"].as_object_mut();
                annotations.into_iter().for_each(|all| drop(all.remove(ROLLED_BACK)));
            }
            _ => return false,
        }
        true
    }
}
