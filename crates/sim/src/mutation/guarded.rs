//! Deliberate bugs of guarded rollouts: what the replica reads of policies, records, orders and
//! nodes, and which records and conditions it writes.

mod in_place;
mod policy;

use everynode_core::api::{
    CheckAnswer, CheckVerdict, ORDER_ANNOTATION, POLICY_ANNOTATION, Position, RECORD_ANNOTATION,
    RecordReason, RolloutPhase, RolloutRecord,
};
use everynode_core::plan::{Plan, Write};
use everynode_sandbox::cluster::lifecycle::LIFECYCLE_ANNOTATION;
use everynode_sandbox::json::{Value, json};

use super::bugs::bugs;
use crate::network::Request;

/// A condition of nodes that leave.
const LEAVING: &str = "Drained";
/// The labels by which the first steps of policies select nodes.
const STEP_LABELS: [&str; 2] = ["pool", "kubernetes.io/hostname"];

bugs! {
    /// A deliberate bug of guarded rollouts.
    GuardedMutation:
    /// Policies are not read (G1).
    IgnorePolicy: Gate,
    /// All waves are open (G1).
    IgnorePosition: Gate,
    /// A record is written whatever its version (G9).
    IgnoreVersion: Record,
    /// A plan with a record holds another write (G9).
    WriteBesideRecord: Record,
    /// A number in `upTo` is one too high (G5).
    LargerWaves: Gate,
    /// A percentage in `upTo` is 100% (G5).
    WholeWaves: Gate,
    /// After a wave come all nodes (G11).
    SkipWaves: Record,
    /// The next wave is the first one again (G11).
    RepeatWaves: Record,
    /// `bake` is zero (G5).
    IgnoreBake: Record,
    /// A wave bakes since the attempt began (G5).
    BakeSinceBeginning: Record,
    /// `approval` is false (G5).
    IgnoreApproval: Record,
    /// A wave that bakes is approved (G10).
    ApproveUnasked: Record,
    /// `checks` of steps are not read (G5).
    IgnoreChecks: Record,
    /// A check that fails passes (G15).
    PassFailedChecks: Record,
    /// A check that says neither yes nor no fails (G15).
    FailUnknownChecks: Record,
    /// A check that fails says neither yes nor no (G15).
    IgnoreFailedChecks: Record,
    /// `initialDelay` is not read (G46).
    IgnoreInitialDelay: Check,
    /// `initialDelay` is a third of what the policy says (G46).
    ShorterInitialDelay: Check,
    /// `interval` is a fifth of what the policy says (G5).
    ShorterInterval: Check,
    /// A check may fail once more than the policy says (G15).
    ForgiveChecks: Record,
    /// `finally` is not read, and nothing is awaited (G45).
    IgnoreFinally: Record,
    /// `finally` is not read, and the end awaits what the last step does (G45).
    FinallyAsLastStep: Record,
    /// Without `finally` nothing is awaited (G45).
    NoDefault: Record,
    /// `approval` of `finally` is false (G45).
    IgnoreLastApproval: Record,
    /// `checks` of `finally` are not read (G45).
    IgnoreLastChecks: Record,
    /// Without `finally` the end of a rollout must be approved (G45).
    AwaitLastApproval: Record,
    /// An order about the last wave is read as one about the whole rollout (G45).
    PromoteInsteadOfFinally: Record,
    /// A rollout that was promoted in full awaits what others do (G45).
    PromotedStillWaits: Record,
    /// The policy's `maxUnavailable` is not read (G5).
    IgnorePolicyBudget: Budget,
    /// The policy's `maxUnavailable` is one too high (G5).
    LargerPolicyBudget: Budget,
    /// `maxUnavailablePer` is not read (G5).
    IgnoreGroupLimit: Budget,
    /// The limit of each group of nodes is one too high (G5).
    LargerGroupLimit: Budget,
    /// `podsPerMinute` is not read (G5).
    IgnorePace: Pace,
    /// `prepare` is not read (G55).
    IgnoreImages: Gate,
    /// `prepare.images.parallel` is one too high (G55).
    LargerParallel: Budget,
    /// `update` is `InPlaceIfPossible` where a policy does not have it (G56).
    ChangeUnasked: Gate,
    /// `InPlaceOnly` is not read (G56).
    IgnoreOnly: Gate,
    /// A pod that is being changed has been changed (G56).
    ChangedAtOnce: State,
    /// Its kubelet is done with it (G56).
    FinishEarly: Template,
    /// `podsPerMinute` is one too high (G5).
    LargerPace: Pace,
    /// `windows` is not read (G5).
    IgnoreWindows: Record,
    /// A window closes ten minutes late (G5).
    LateWindows: Record,
    /// A window is one by the clock of UTC (G5).
    WindowsInUtc: Record,
    /// New pods that are not ready count as ready (G14).
    CountStarting: Budget,
    /// Old pods that are not ready are treated as failed (G14).
    UnreadyIsFailed: Deletion,
    /// A failed rollout goes on (G15).
    FailedGoesOn: Gate,
    /// A failed rollout goes back although the policy does not say so (G15).
    GoBackUnasked: Gate,
    /// A failed rollout does not go back although the policy says so (G15).
    NeverGoBack: Budget,
    /// A rollout that goes back is paused (G11).
    PauseGoingBack: Budget,
    /// A pod of the base has a template generation (G16).
    BaseWithGeneration: Template,
    /// Nodes that are not ready count as ready (G33).
    IgnoreDownNodes: State,
    /// Those whose kubelet says so do, but for their taints (G33).
    IgnoreUnready: State,
    /// Those whose kubelet says so are treated as those whose kubelet does not answer (C58, G33).
    UnreadyIsUnreachable: Budget,
    /// Nodes that leave count as all others (G33).
    IgnoreLeaving: State,
    /// All nodes count as leaving (G33).
    AllNodesLeave: State,
    /// Steps do not select nodes that leave, so that their waves are empty (G39, G40).
    LeavingIsGone: Record,
    /// A node with a pod of the target that is no longer ready counts as done (G39).
    DisturbedIsDone: State,
    /// The same on half of the nodes, not on a tenth of them (G39).
    LargerTenth: State,
    /// Any number of nodes may fail after the rollout is complete (G40).
    LateNodesGoOn: Gate,
    /// A node on which the rollout begins after it is complete fails an hour later (G40).
    LateNodesNeverFail: State,
    /// A pod that has ended counts as one that restarts too often (G34).
    EndedIsBlamed: State,
    /// `readyWithin` is as short as it can be (G34).
    BlameEarly: State,
    /// `maxLost` is 100% (G15).
    IgnoreLost: Record,
    /// Old pods that are not available count as available (G14).
    IgnoreOutages: Budget,
    /// All nodes may be unavailable while a rollout goes back (G41).
    GoBackAtOnce: Budget,
    /// A rollout goes back on one node in a minute (G41).
    GoBackSlowly: Budget,
    /// `maxRemoved` is 100% (G42).
    AllowRemovals: Gate,
    /// `maxRemoved` is one too high (G42).
    LargerRemovals: Gate,
    /// `failure` is not read (G15).
    IgnoreFailures: Record,
    /// `maxRestarts` is not read (G15).
    IgnoreRestarts: State,
    /// A rollout fails for want of progress when its next wave begins (G15).
    GiveUp: Record,
    /// An invalid policy is treated as none (G7).
    InvalidIsNone: Gate,
    /// A record of a rollout that is under way is treated as that of a superseded one (G7, G11).
    UnderWayIsSuperseded: Record,
    /// The last order of a record is not read (G10).
    RepeatOrders: Record,
    /// An order to retry is read as one to promote (G10).
    PromoteInsteadOfRetry: Record,
    /// The steps of a record are never those of the policy (G11).
    ForgetSteps: Record,
    /// A rollout is complete when its last wave begins (G11).
    CompleteTooEarly: Record,
    /// A failed revision is treated as complete (G11).
    FailedIsComplete: Gate,
    /// A rollout that must wait begins (G38).
    BeginWhileHeld: Record,
    /// The revision that is in use is recorded as superseded, not as complete (G37).
    AdoptedIsSuperseded: Record,
    /// A record counts whatever revision it names (G44).
    TrustForeignRecords: Record,
    /// A record that cannot be read is treated as none (G44).
    UnreadableIsNone: Record,
    /// The condition of a rollout that awaits an approval states that it bakes (G21).
    StateBaking: Condition,
    /// The condition of a complete rollout states that it goes on (G21).
    StateUpdating: Condition,
}

impl GuardedMutation {
    /// Changes an object as the replica receives it. Returns whether this bug does.
    pub(super) fn change(self, kind: &str, object: &mut Value) -> bool {
        match kind {
            "DaemonSet" => {
                let annotations = &mut object["metadata"]["annotations"];
                self.change_annotations(annotations);
                self.change_going_back(object);
                self.change_complete(object);
                // The replica believes that it has stated the right reason.
                if let Some([right, wrong]) = self.reasons() {
                    replace_reason(&mut object["status"], wrong, right);
                }
            }
            "ControllerRevision" => {
                let uid = object["metadata"]["uid"].clone();
                let annotation = &mut object["metadata"]["annotations"][RECORD_ANNOTATION];
                let record = annotation.as_str().and_then(|text| serde_json::from_str(text).ok());
                let Some(mut record): Option<Value> = record else { return false };
                match self {
                    Self::TrustForeignRecords => record["revision"] = uid,
                    Self::UnreadableIsNone if record["phase"].is_null() => {
                        record = json!({"revision": "another", "phase": "Superseded",
                            "began": "2026-01-01T00:00:00Z", "since": "2026-01-01T00:00:00Z",
                            "steps": ""});
                    }
                    _ => self.change_record(&mut record),
                }
                *annotation = json!(record.to_string());
            }
            "Node" => self.change_node(object),
            "Pod" => self.change_pod(object),
            _ => return false,
        }
        true
    }

    /// The right reason of a condition, and the one that is stated instead.
    const fn reasons(self) -> Option<[&'static str; 2]> {
        match self {
            Self::StateBaking => Some(["AwaitingApproval", "Baking"]),
            Self::StateUpdating => Some(["Complete", "Updating"]),
            _ => None,
        }
    }

    fn change_annotations(self, annotations: &mut Value) {
        if self == Self::PromoteInsteadOfRetry
            && let Some(order) = annotations[ORDER_ANNOTATION].as_str()
        {
            annotations[ORDER_ANNOTATION] = json!(order.replace("retry", "promote-full"));
        }
        if self == Self::PromoteInsteadOfFinally
            && let Some(order) = annotations[ORDER_ANNOTATION].as_str()
            && order.contains(" finally ")
        {
            let order = order.replace("approve ", "promote-full ").replace(" finally ", " ");
            annotations[ORDER_ANNOTATION] = json!(order);
        }
        let is_valid = with_policy(annotations, |policy| self.change_policy(policy));
        if self == Self::IgnorePolicy || self == Self::InvalidIsNone && !is_valid {
            annotations.as_object_mut().map(|all| all.remove(POLICY_ANNOTATION));
        }
    }

    fn change_record(self, record: &mut Value) {
        let phase = record["phase"].as_str().unwrap_or_default().to_owned();
        match self {
            Self::IgnorePosition => {
                record.as_object_mut().map(|all| all.remove("wave"));
            }
            Self::BakeSinceBeginning if phase == "Baking" => {
                record["since"] = record["began"].clone();
            }
            Self::FailedGoesOn if phase == "Failed" => record["phase"] = json!("Updating"),
            Self::FailedIsComplete if phase == "Failed" => record["phase"] = json!("Complete"),
            Self::UnderWayIsSuperseded if phase == "Updating" || phase == "Baking" => {
                record["phase"] = json!("Superseded");
            }
            Self::PromotedStillWaits if record["reason"] == "PromotedInFull" => {
                record["reason"] = json!("Promoted");
            }
            Self::RepeatOrders => {
                record.as_object_mut().map(|all| all.remove("order"));
            }
            Self::ForgetSteps => record["steps"] = json!("none"),
            _ => {}
        }
    }

    /// True if the replica believes something wrong of pods. What it states of them is not judged,
    /// so that the checker of the property must find the bug.
    pub(super) const fn misleads(self) -> bool {
        matches!(self, Self::DisturbedIsDone | Self::LargerTenth | Self::IgnoreOutages)
    }

    fn change_node(self, node: &mut Value) {
        if self == Self::IgnoreLeaving
            && let Some(taints) = node["spec"]["taints"].as_array_mut()
        {
            taints.retain(|taint| taint["key"] == "t");
        }
        if self == Self::IgnoreDownNodes
            && let Some(taints) = node["spec"]["taints"].as_array_mut()
        {
            taints.retain(|taint| taint["key"] != "node.kubernetes.io/not-ready");
        }
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        if self == Self::LeavingIsGone
            && conditions.any(|it| it["type"] == LEAVING && it["status"] == "True")
            && let Some(labels) = node["metadata"]["labels"].as_object_mut()
        {
            labels.retain(|key, _| !STEP_LABELS.contains(&key.as_str()));
        }
        let Some(conditions) = node["status"]["conditions"].as_array_mut() else { return };
        let is_ready = |condition: &Value| condition["type"] == "Ready";
        let ready = conditions.iter_mut().find(|condition| is_ready(condition));
        match (self, ready) {
            (Self::IgnoreDownNodes, Some(ready)) => ready["status"] = json!("True"),
            (Self::IgnoreUnready, Some(ready)) if ready["status"] == "False" => {
                ready["status"] = json!("True");
            }
            (Self::UnreadyIsUnreachable, Some(ready)) if ready["status"] == "False" => {
                ready["status"] = json!("Unknown");
            }
            _ => {}
        }
        match self {
            Self::IgnoreLeaving => conditions.retain(is_ready),
            Self::AllNodesLeave => conditions.push(json!({"type": LEAVING, "status": "True"})),
            _ => {}
        }
    }

    /// Changes a DaemonSet whose rollout goes back, as its condition says, or an order.
    fn change_going_back(self, ds: &mut Value) {
        let mut conditions = ds["status"]["conditions"].as_array().into_iter().flatten();
        let order = ds["metadata"]["annotations"][ORDER_ANNOTATION].as_str().unwrap_or_default();
        let goes_back = order.starts_with("abort")
            || conditions.any(|condition| condition["reason"] == "RollingBack");
        if !goes_back {
            return;
        }
        let annotations = &mut ds["metadata"]["annotations"];
        match self {
            Self::GoBackAtOnce => {
                let is_valid = with_policy(annotations, |policy| {
                    policy.as_object_mut().map(|policy| policy.remove("maxUnavailable"));
                });
                if is_valid {
                    let all = json!({"maxSurge": 0, "maxUnavailable": "100%"});
                    ds["spec"]["updateStrategy"]["rollingUpdate"] = all;
                }
            }
            Self::GoBackSlowly => {
                with_policy(annotations, |policy| policy["podsPerMinute"] = json!(1));
            }
            _ => {}
        }
    }

    /// Changes a DaemonSet whose rollout is complete, as its condition says.
    fn change_complete(self, ds: &mut Value) {
        let changed = match self {
            Self::LateNodesGoOn => ("maxNodes", json!("100%")),
            Self::LateNodesNeverFail => ("readyWithin", json!("3600s")),
            _ => return,
        };
        let mut conditions = ds["status"]["conditions"].as_array().into_iter().flatten();
        let is_complete = conditions.any(|condition| condition["reason"] == "Complete");
        if is_complete {
            with_policy(&mut ds["metadata"]["annotations"], |policy| {
                if policy["failure"].is_object() {
                    policy["failure"][changed.0] = changed.1;
                }
            });
        }
    }

    fn change_pod(self, pod: &mut Value) {
        self.change_changing(pod);
        let is_disturbed = pod["metadata"]["annotations"][LIFECYCLE_ANNOTATION] == "never-ready";
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let is_tolerated = is_disturbed
            && (self == Self::DisturbedIsDone
                || self == Self::LargerTenth && node.ends_with(['1', '3', '5', '7', '9']));
        let is_new = pod["spec"]["containers"][0]["image"] != "image:1";
        if self == Self::EndedIsBlamed && pod["status"]["phase"] == "Failed" {
            pod["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": 100}]);
        }
        let all = pod["status"]["conditions"].as_array_mut().into_iter().flatten();
        for condition in all.filter(|condition| condition["type"] == "Ready") {
            match self {
                _ if is_new && is_tolerated => condition["status"] = json!("True"),
                Self::CountStarting if is_new => condition["status"] = json!("True"),
                Self::IgnoreOutages if !is_new => condition["status"] = json!("True"),
                Self::UnreadyIsFailed if !is_new && condition["status"] == "False" => {
                    pod["status"]["phase"] = json!("Failed");
                    return;
                }
                _ => {}
            }
        }
    }

    /// Changes the answer to a check as the replica receives it.
    pub(crate) fn answer(self, answer: &mut CheckAnswer) {
        match (self, answer.verdict) {
            (Self::PassFailedChecks, CheckVerdict::Failed) => answer.verdict = CheckVerdict::Passed,
            (Self::IgnoreFailedChecks, CheckVerdict::Failed) => {
                answer.verdict = CheckVerdict::Unknown;
            }
            (Self::FailUnknownChecks, CheckVerdict::Unknown) => {
                answer.verdict = CheckVerdict::Failed;
            }
            _ => {}
        }
    }

    /// Changes a plan before it is executed.
    pub(super) fn plan(self, plan: &mut Plan) {
        for write in &mut plan.writes {
            match (self, write) {
                (_, Write::WriteRecord { record, .. }) => {
                    let mut changed = RolloutRecord::clone(record);
                    self.change_written(&mut changed);
                    *record = changed.into();
                }
                (Self::BaseWithGeneration, Write::CreatePod(new)) if new.template.is_some() => {
                    new.template_generation = Some(1);
                }
                _ => {}
            }
        }
        let is_record = |write: &&Write| matches!(write, Write::WriteRecord { .. });
        if self == Self::WriteBesideRecord
            && let Some(record) = plan.writes.iter().find(is_record).cloned()
        {
            plan.writes.push(record);
        }
    }

    fn change_written(self, record: &mut RolloutRecord) {
        let is_wave = matches!(record.position, Position::Wave(_));
        match (self, record.phase, &mut record.position) {
            (Self::SkipWaves, RolloutPhase::Updating, position) => *position = Position::AllNodes,
            (Self::RepeatWaves, RolloutPhase::Updating, Position::Wave(wave)) => {
                wave.step = 0;
                wave.size = 0;
            }
            (Self::ApproveUnasked, RolloutPhase::Baking, _) => {
                record.approvals = ["canary", "gate", "zones/x"].map(Into::into).to_vec();
            }
            (Self::BeginWhileHeld, RolloutPhase::Pending, _) => {
                record.phase = RolloutPhase::Updating;
            }
            (Self::AdoptedIsSuperseded, RolloutPhase::Complete, _)
                if record.reason == Some(RecordReason::Adopted) =>
            {
                record.phase = RolloutPhase::Superseded;
            }
            (Self::GiveUp, RolloutPhase::Updating, _) => {
                record.phase = RolloutPhase::Failed;
                record.reason = Some(RecordReason::NoProgress);
            }
            (Self::CompleteTooEarly, RolloutPhase::Updating, _) if !is_wave => {
                record.phase = RolloutPhase::Complete;
            }
            _ => {}
        }
    }

    /// Changes a request before it is sent.
    pub(super) fn request(self, request: &mut Request) {
        let is_record = request.path.contains("/controllerrevisions/");
        let is_status = request.path.ends_with("/status");
        match self {
            Self::IgnoreVersion if is_record && request.method == http::Method::PATCH => {
                request.change(|body| {
                    let metadata = body["metadata"].as_object_mut();
                    metadata.map(|metadata| metadata.remove("resourceVersion"));
                });
            }
            Self::StateBaking | Self::StateUpdating if is_status => {
                if let Some([right, wrong]) = self.reasons() {
                    request.change(|body| replace_reason(&mut body["status"], right, wrong));
                }
            }
            _ => {}
        }
    }
}

/// Changes the policy in the annotations of a DaemonSet. Returns whether there is a valid one.
pub(super) fn with_policy(annotations: &mut Value, change: impl FnOnce(&mut Value)) -> bool {
    let policy = annotations[POLICY_ANNOTATION].as_str();
    let policy = policy.and_then(|text| serde_json::from_str(text).ok());
    let policy = policy.filter(|policy: &Value| policy.is_object() && policy["unknown"].is_null());
    let is_valid = policy.is_some();
    if let Some(mut policy) = policy {
        change(&mut policy);
        annotations[POLICY_ANNOTATION] = json!(policy.to_string());
    }
    is_valid
}

/// Replaces a reason in the conditions of a status, if the message is that of a rollout that awaits
/// an approval or is complete.
fn replace_reason(status: &mut Value, from: &str, to: &str) {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let message = condition["message"].as_str().unwrap_or_default();
        let is_it = message.contains("must be approved") || message.contains("is complete");
        if is_it && condition["reason"] == from {
            condition["reason"] = json!(to);
        }
    }
}
