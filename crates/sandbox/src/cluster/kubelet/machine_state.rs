//! The state of a machine and its kubelet (S23). Pure.

use everynode_core::api::Timestamp;

/// The time that a shutdown leaves to the pods (upstream's `shutdownGracePeriod`).
const SHUTDOWN_MS: i64 = 10_000;

/// The state of a machine and its kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineState {
    Up,
    /// The kubelet does nothing, and the containers run on.
    Down,
    /// The kubelet ends its pods and admits no others. The machine is off from this time on.
    ShuttingDown {
        off_at: Timestamp,
    },
    Off,
}

/// The state that the annotations of the node ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedState {
    Up,
    Down,
    Off,
}

/// A change of the state that concerns the pods of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineChange {
    /// The kubelet starts or reports again.
    KubeletStarts,
    /// The machine starts, and none of its containers runs any more.
    Boots,
    ShutsDown {
        off_at: Timestamp,
    },
}

impl MachineState {
    /// True if the kubelet works.
    pub(super) fn has_kubelet(self) -> bool {
        matches!(self, Self::Up | Self::ShuttingDown { .. })
    }

    /// Changes to the state that the annotations ask for. A machine that shuts down does not see
    /// that its kubelet should be down, too.
    pub(super) fn follow(&mut self, wanted: WantedState, now: Timestamp) -> Option<MachineChange> {
        let (next, change) = match (*self, wanted) {
            (Self::Up, WantedState::Up)
            | (Self::ShuttingDown { .. } | Self::Off, WantedState::Down | WantedState::Off) => {
                (*self, None)
            }
            (Self::Up, WantedState::Off) => {
                let off_at = Timestamp(now.0 + SHUTDOWN_MS);
                (Self::ShuttingDown { off_at }, Some(MachineChange::ShutsDown { off_at }))
            }
            (Self::Up | Self::Down, WantedState::Down) => (Self::Down, None),
            (Self::Down, WantedState::Off) => (Self::Off, None),
            (Self::Down, WantedState::Up) => (Self::Up, Some(MachineChange::KubeletStarts)),
            (Self::ShuttingDown { .. } | Self::Off, WantedState::Up) => {
                (Self::Up, Some(MachineChange::Boots))
            }
        };
        *self = next;
        change
    }

    /// Switches the machine off if its shutdown is over.
    pub(super) fn finish_shutdown(&mut self, now: Timestamp) {
        if matches!(self, Self::ShuttingDown { off_at } if *off_at <= now) {
            *self = Self::Off;
        }
    }
}
