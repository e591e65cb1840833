//! `everynode rollout approve`, `promote`, `abort` and `retry`: orders, as an annotation of the
//! DaemonSet (G10).

use std::process::ExitCode;

use anyhow::bail;
use everynode_core::api::{
    ORDER_ANNOTATION, ORDER_REASON_ANNOTATION, OrderVerb, RolloutPhase, RolloutPolicy,
    RolloutReason, RolloutRecord, Uid,
};
use everynode_insight::program;
use everynode_k8s::convert::{attribution_text, rollout_order_text};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{ACKNOWLEDGEMENT_TIMEOUT, EXIT_NOT_ACKNOWLEDGED, Guarded, POLL_INTERVAL, attribution};
use crate::args::{DaemonSetName, RolloutTarget};
use crate::cluster::{Cluster, DryRun, Resource};
use crate::output;

/// The order that a person gives.
#[derive(Clone, Debug)]
pub(crate) enum OrderKind {
    /// Approve this wave, or the one that the rollout is at.
    Approve {
        wave: Option<String>,
    },
    Promote,
    PromoteFull,
    Abort,
    Retry,
}

/// Gives the order, and waits until the controller has carried it out.
pub(super) async fn give(target: RolloutTarget, kind: OrderKind) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&target.connection).await?;
    let name = &target.daemon_set;
    let order = PreparedOrder::of(&cluster, name, kind).await?;
    order.problems.iter().for_each(output::note);
    if !order.give(&cluster, name, target.reason.as_deref()).await? {
        output::note(not_carried_out());
        return Ok(ExitCode::from(EXIT_NOT_ACKNOWLEDGED));
    }
    output::print(&format!("daemonset.apps/{name} {}\n", order.done()))?;
    Ok(ExitCode::SUCCESS)
}

/// That no controller acts on an order.
pub(crate) fn not_carried_out() -> String {
    format!(
        "no controller has carried out the order within {} s: everynode does not run, or not for \
         this cluster; the order stands",
        ACKNOWLEDGEMENT_TIMEOUT.as_secs()
    )
}

/// An order that has an effect on the rollout as it was read.
pub(crate) struct PreparedOrder {
    uid: Uid,
    pub verb: OrderVerb,
    /// The hash of the current revision.
    hash: String,
    /// `None` if it cannot be read: then the order ends it.
    record: Option<RolloutRecord>,
    /// Objects that could not be read.
    pub problems: Vec<String>,
}

impl PreparedOrder {
    /// Reads the rollout.
    ///
    /// # Errors
    /// If the order would have no effect, or the rollout can't be read.
    pub(crate) async fn of(
        cluster: &Cluster,
        name: &DaemonSetName,
        kind: OrderKind,
    ) -> anyhow::Result<Self> {
        let Guarded { daemon_set, revisions, problems } = super::read(cluster, name).await?;
        let Some(entry) = revisions.iter().rev().find(|entry| entry.current) else {
            bail!("no revision of its template is stored yet")
        };
        let policy = match daemon_set.policy.valid() {
            Some(policy) => PolicyRead::Valid(policy),
            None if problems.is_empty() => PolicyRead::None,
            None => PolicyRead::Unread,
        };
        let stated = daemon_set.status.rollout.as_ref().map(|rollout| rollout.reason);
        let verb = match entry.rollout.as_deref() {
            Some(record) => verb(kind, record, policy),
            None if stated == Some(RolloutReason::InvalidRecord) => verb_without_record(kind),
            None => Err(anyhow::anyhow!(
                "the current revision has no record of a guarded rollout: no policy guards it, or \
                 no controller has begun it yet"
            )),
        };
        let verb = verb.map_err(|error| match problems.is_empty() {
            true => error,
            false => anyhow::anyhow!("{error}; {}", problems.join("; ")),
        })?;
        let Some(hash) = entry.hash.clone() else {
            bail!("revision {} has no hash label yet", entry.name)
        };
        let record = entry.rollout.as_deref().cloned();
        Ok(Self { uid: daemon_set.uid, verb, hash, record, problems })
    }

    /// Gives the order, and states who gives it and why. Returns whether a controller has carried
    /// it out in time.
    ///
    /// # Errors
    /// If the order can't be written, or has had no effect.
    pub(crate) async fn give(
        &self,
        cluster: &Cluster,
        name: &DaemonSetName,
        reason: Option<&str>,
    ) -> anyhow::Result<bool> {
        let text = rollout_order_text(&self.verb, &self.hash, &Timestamp::now());
        let given = attribution::now(cluster, reason).await;
        let patch = json!({ "metadata": {
            "uid": self.uid.to_string(),
            "annotations": {
                ORDER_ANNOTATION: text,
                ORDER_REASON_ANNOTATION: attribution_text(&text, &given),
            },
        } });
        let namespace = Some(cluster.namespace());
        cluster.patch(Resource::DaemonSets, namespace, name.as_str(), &patch, DryRun::No).await?;
        let Some(after) = carried_out(cluster, name, &text).await? else { return Ok(false) };
        let has_no_effect = self.record.as_ref().is_some_and(|record| {
            let ordered = RolloutRecord { order: after.order.clone(), ..record.clone() };
            let repeats_approval =
                matches!(&self.verb, OrderVerb::Approve(wave) if record.approvals.contains(wave));
            after == ordered && !repeats_approval
        });
        if has_no_effect {
            let get = program::command("rollout get");
            bail!(
                "the order had no effect; an event RolloutOrderIgnored of the DaemonSet says why; \
                 see {get}"
            );
        }
        Ok(true)
    }

    /// The effect of the order.
    pub(crate) fn done(&self) -> String {
        done(&self.verb)
    }

    /// The state on which the order depends: the DaemonSet, its revision, and where its rollout is.
    pub(crate) fn basis(&self) -> String {
        format!("{} {} {}", self.uid, self.hash, self.done())
    }
}

/// The policy that guards the rollout, as far as the user may read it.
#[derive(Clone, Copy)]
enum PolicyRead<'a> {
    Valid(&'a RolloutPolicy),
    /// There is no valid one.
    None,
    /// Not all policies could be read: one of them may guard it.
    Unread,
}

impl<'a> PolicyRead<'a> {
    fn valid(self) -> anyhow::Result<&'a RolloutPolicy> {
        match self {
            Self::Valid(policy) => Ok(policy),
            Self::None => {
                bail!("there is no valid rollout policy; see {}", program::command("rollout get"))
            }
            Self::Unread => bail!(
                "the policy cannot be read; to approve a wave without reading it, add --wave and \
                 the name that {} states",
                program::command("status")
            ),
        }
    }
}

/// The order that ends a record that cannot be read (G44).
fn verb_without_record(kind: OrderKind) -> anyhow::Result<OrderVerb> {
    match kind {
        OrderKind::Retry => Ok(OrderVerb::Retry),
        OrderKind::PromoteFull => Ok(OrderVerb::PromoteFull),
        OrderKind::Approve { .. } | OrderKind::Promote | OrderKind::Abort => bail!(
            "the record of the rollout cannot be read: to begin anew, {}; to go on to all nodes, \
             {}",
            program::command("rollout retry"),
            program::command("rollout promote --full")
        ),
    }
}

/// The order, unless the record shows that it would have no effect.
fn verb(
    kind: OrderKind,
    record: &RolloutRecord,
    policy: PolicyRead<'_>,
) -> anyhow::Result<OrderVerb> {
    let phase = record.phase.as_str();
    let at_wave = || match record.has_begun() {
        true => Ok(policy.valid()?.order_name(&record.position)),
        false if record.phase == RolloutPhase::Failed => bail!(
            "the rollout is at no wave: its phase is {phase}; to begin again, {}; to go on to all \
             nodes, {}; to go back, {}",
            program::command("rollout retry"),
            program::command("rollout promote --full"),
            program::command("undo")
        ),
        false => bail!("the rollout is at no wave: its phase is {phase}"),
    };
    Ok(match (kind, policy) {
        // The controller knows at which wave the rollout is.
        (OrderKind::Approve { wave: Some(named) }, PolicyRead::Unread) => {
            OrderVerb::Approve((&*named).into())
        }
        (OrderKind::Retry, PolicyRead::Unread) if record.phase == RolloutPhase::Failed => {
            OrderVerb::Retry
        }
        (OrderKind::Approve { wave: named }, _) => {
            let wave = at_wave()?;
            if !policy.valid()?.wait(&record.position).approval {
                bail!("the rollout is at wave {wave}, which nobody must approve");
            }
            match named {
                Some(named) if named != wave.as_str() => {
                    bail!("the rollout is at wave {wave}, not {named}")
                }
                // Else a second person approves the next wave, which nobody has seen.
                None if !awaits_approval(record, policy.valid()?) => bail!(
                    "wave {wave} does not await an approval; to approve it beforehand, add --wave \
                     {wave}"
                ),
                Some(_) | None => OrderVerb::Approve(wave),
            }
        }
        (OrderKind::Promote, _) if record.is_promoted_in_full() => {
            bail!("the rollout is promoted to all nodes already")
        }
        (OrderKind::Promote, _) => OrderVerb::Promote(at_wave()?),
        (OrderKind::PromoteFull, _) if record.phase == RolloutPhase::Complete => {
            bail!("the rollout is complete")
        }
        (OrderKind::PromoteFull, _) => OrderVerb::PromoteFull,
        (OrderKind::Abort, _) if !record.phase.is_under_way() => {
            bail!("the rollout is not under way: its phase is {phase}")
        }
        (OrderKind::Abort, _) => OrderVerb::Abort,
        (OrderKind::Retry, _) if record.phase != RolloutPhase::Failed => {
            bail!("the rollout has not failed: its phase is {phase}")
        }
        (OrderKind::Retry, _) => policy.valid().map(|_| OrderVerb::Retry)?,
    })
}

/// Returns whether the nodes of the rollout's wave have the template, and it goes on only with an
/// approval.
fn awaits_approval(record: &RolloutRecord, policy: &RolloutPolicy) -> bool {
    record.phase == RolloutPhase::Baking && policy.wait(&record.position).approval
}

/// Waits until the record states the order; `None` if that takes too long.
async fn carried_out(
    cluster: &Cluster,
    name: &DaemonSetName,
    text: &str,
) -> anyhow::Result<Option<RolloutRecord>> {
    let deadline = Instant::now() + ACKNOWLEDGEMENT_TIMEOUT;
    loop {
        let revisions = super::revisions(cluster, name).await?;
        let records = revisions.into_iter().filter_map(|entry| entry.rollout);
        let mut found = records.filter(|record| record.order.as_deref() == Some(text));
        if let Some(record) = found.next() {
            return Ok(Some((*record).clone()));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn done(verb: &OrderVerb) -> String {
    match verb {
        OrderVerb::Approve(wave) => format!("wave {wave} approved"),
        OrderVerb::Promote(wave) => format!("promoted past wave {wave}"),
        OrderVerb::PromoteFull => "promoted to all nodes".to_owned(),
        OrderVerb::Abort => "rollout aborted".to_owned(),
        OrderVerb::Retry => "rollout begins again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_core::api::{GroupValue, Position, Timestamp, WavePosition};
    use everynode_k8s::convert;

    fn policy() -> RolloutPolicy {
        let policy = "{steps: [{name: canary, upTo: [1], approval: true}, {name: half, upTo: \
                      [50%]}]}";
        let annotations = json!({ "everynode.dev/rollout-policy": policy });
        let metadata = json!({ "name": "agent", "namespace": "infra", "uid": "u",
            "annotations": annotations });
        let json = json!({ "metadata": metadata }).to_string();
        let daemon_set = convert::daemon_set(json.as_bytes(), None).unwrap().daemon_set;
        (**daemon_set.policy.valid().unwrap()).clone()
    }

    fn record(phase: RolloutPhase, step: usize) -> RolloutRecord {
        let position = WavePosition { step, group: GroupValue::Unlabelled, size: 0 };
        RolloutRecord {
            phase,
            position: Position::Wave(position),
            began: Timestamp::from_seconds(0),
            since: Timestamp::from_seconds(0),
            approvals: Vec::new(),
            steps_hash: "".into(),
            order: None,
            reason: None,
            is_rolled_back: false,
            base: None,
            course: Default::default(),
        }
    }

    #[test]
    fn only_a_wave_that_awaits_its_approval_is_approved_without_its_name() {
        let approve = |phase, step, wave: Option<&str>| {
            let kind = OrderKind::Approve { wave: wave.map(str::to_owned) };
            let policy = policy();
            verb(kind, &record(phase, step), PolicyRead::Valid(&policy)).map(|it| done(&it))
        };
        let refused = |phase, step| approve(phase, step, None).unwrap_err().to_string();
        assert_eq!(approve(RolloutPhase::Baking, 0, None).unwrap(), "wave canary approved");
        let canary = "wave canary does not await an approval; to approve it beforehand, add --wave \
                      canary";
        assert_eq!(refused(RolloutPhase::Updating, 0), canary);
        let none = "the rollout is at wave half, which nobody must approve";
        assert_eq!(refused(RolloutPhase::Baking, 1), none);
        let beforehand = approve(RolloutPhase::Updating, 1, Some("half")).unwrap_err();
        assert_eq!(beforehand.to_string(), none);
        let beforehand = approve(RolloutPhase::Updating, 0, Some("canary"));
        assert_eq!(beforehand.unwrap(), "wave canary approved");
    }

    #[test]
    fn who_may_not_read_the_policy_approves_a_wave_by_its_name() {
        let order = |kind, phase| verb(kind, &record(phase, 0), PolicyRead::Unread);
        let approve = |wave: Option<&str>| OrderKind::Approve { wave: wave.map(str::to_owned) };
        let named = order(approve(Some("canary")), RolloutPhase::Baking).unwrap();
        assert_eq!(done(&named), "wave canary approved");
        let unnamed = order(approve(None), RolloutPhase::Baking).unwrap_err().to_string();
        assert!(unnamed.contains("cannot be read") && unnamed.contains("--wave"), "{unnamed}");
        assert!(order(OrderKind::Retry, RolloutPhase::Failed).is_ok());
        assert!(order(OrderKind::Retry, RolloutPhase::Baking).is_err());
    }
}
