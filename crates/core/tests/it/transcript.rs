//! The format of the transcripts: blocks of commands, one per line, then `----` and their output.

mod config_map;
mod policy;
mod pullers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{
    Agree, Attribution, ChangeState, CheckAnswer, CheckKind, CheckVerdict, ConfigMapRule,
    ConfigObject, ConfigRequirement, ConfigRule, DaemonSet, Days, FailureRule, GroupLimit,
    HASH_LABEL, ImagePuller, IntOrPercent, JobPresence, LabelOperator, LabelRequirement,
    LabelSelector, Labels, Node, NodeOverride, NodeReadiness, OVERRIDE_LABEL, Order, OrderVerb,
    OverriddenNodes, Overrides, Placement, Pod, PodPhase, PodTrouble, PolicySource, PrepareImages,
    Problem, PullState, Readiness, RecordState, Replacement, Revision, RolloutCheck, RolloutPolicy,
    RolloutStep, StoredConfig, TEMPLATE_GENERATION_LABEL, Taint, TaintEffect, Template, TimeOfDay,
    Timestamp, UpdateMethod, UpdateStrategy, Wait, Window, Windows,
};
use everynode_core::daemon_set::{Config, Mode, UnreachableNodes};
use everynode_core::plan::{Outcome, Plan, ScheduleBy};
use everynode_core::revisions::revision_hash;

use crate::support::{Fault, Kind, World, daemon_set, node, pod, revision, with_label};
use config_map::{config_maps, describe_copies, edit_config_maps};
use policy::policy;
use pullers::{describe_pullers, pull};

/// Runs the commands of a transcript, and returns it with their output.
pub(crate) fn run(transcript: &str) -> String {
    let mut world = World::with_config(config(transcript), daemon_set());
    let mut output = String::new();
    let mut block = Vec::new();
    let mut lines = transcript.lines();
    while let Some(line) = lines.next() {
        writeln!(output, "{line}").expect("a string grows");
        if line == "----" {
            for command in block.drain(..) {
                output.push_str(&execute(&mut world, command));
            }
            output.push('\n');
            for _ in lines.by_ref().take_while(|line| !line.is_empty()) {}
        } else if !line.is_empty() && !line.starts_with('#') {
            block.push(line);
        }
    }
    assert!(block.is_empty(), "commands without ----: {block:?}");
    output.truncate(output.trim_end().len());
    output + "\n"
}

/// The settings in comments: `# burst-replicas N`, `# schedule-by controller`,
/// `# unreachable-nodes wait` and `# mode beside`, whose built-in controller acts in `settle` and
/// `built-in`.
fn config(transcript: &str) -> Config {
    let setting = |name: &str| {
        transcript
            .lines()
            .find_map(|line| line.strip_prefix("# ")?.strip_prefix(name)?.strip_prefix(' '))
    };
    Config {
        mode: match setting("mode") {
            Some("beside") => Mode::Beside { rolls_back: false },
            Some("beside, rolls back") => Mode::Beside { rolls_back: true },
            Some(other) => panic!("mode {other}"),
            None => Mode::Controller,
        },
        burst_replicas: setting("burst-replicas").map_or(250, |n| n.parse().expect("a number")),
        schedule_by: match setting("schedule-by") {
            Some("controller") => ScheduleBy::Controller,
            Some(other) => panic!("schedule-by {other}"),
            None => ScheduleBy::Scheduler,
        },
        unreachable_nodes: match setting("unreachable-nodes") {
            Some("wait") => UnreachableNodes::Wait,
            Some(other) => panic!("unreachable-nodes {other}"),
            None => UnreachableNodes::Skip,
        },
        ..Config::default()
    }
}

fn execute(world: &mut World, command: &str) -> String {
    let mut words = command.split_whitespace();
    let verb = words.next().expect("not empty");
    let words: Vec<&str> = words.collect();
    let mut out = String::new();
    match verb {
        "node" => world.apply_node(parse_node(&words)),
        "node-gone" => words.iter().for_each(|name| world.delete_node(name)),
        "daemonset" => {
            world.change(|ds| words.iter().for_each(|word| edit_daemon_set(ds, word)));
        }
        "policy" => world.change(|ds| ds.policy = policy(&words)),
        "answer" => answer(world, &words),
        "order" => {
            let order = order(world, &words);
            world.change(|ds| ds.order = Some(Box::new(order)));
        }
        "pod" => out = edit(world, &words),
        "pull" => out = pull(world, words[0], words[1]),
        "lists-images" => world.server.pullers.listed.extend(words.iter().map(|it| (*it).into())),
        "config-map" | "config-map-gone" | "refuse-config-maps" | "delay-config-maps"
        | "allow-config-maps" => {
            edit_config_maps(world, verb, &words);
        }
        "copies" => out = describe_copies(world),
        "pod-gone" => words.iter().for_each(|name| world.remove_pod(&(*name).into())),
        "revision" => {
            let known = world.server.revisions.get(words[0]).cloned();
            let start = known.unwrap_or_else(|| revision(words[0], "?", 0));
            world.put_revision(words[1..].iter().fold(start, edit_revision));
        }
        "revision-gone" => words.iter().for_each(|name| world.remove_revision(&(*name).into())),
        "namespace-node-selector" => {
            let selector: Labels = words.iter().map(|word| pair(word, '=')).collect();
            world.state.apply_namespace_node_selector(selector.into(), &world.nodes);
        }
        "advance" => world.advance(duration(words[0])),
        "wall-clock" => world.wall_ahead_ms = 1_000 * words[0].parse::<i64>().expect("seconds"),
        "delay" => world.delay(kind(words[0])),
        "deliver" => world.deliver_delayed(),
        "relist" => world.relist(),
        "webhook" => {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let change = move |pod| words.iter().fold(pod, |pod, word| edit_pod(pod, &&**word));
            world.webhook = Some(Box::new(change));
        }
        "no-webhook" => world.webhook = None,
        "next" => world.faults.push_back(fault(&words)),
        "built-in" => {
            world.built_in();
        }
        "kubelets" => {
            world.kubelets();
        }
        "restart" => world.restart(world.server.daemon_set.clone()),
        "sync" => out = describe(&world.sync(), world),
        "settle" => {
            out = world.settle().iter().map(|plan| describe(plan, world) + "--\n").collect()
        }
        "pods" => out = describe_pods(world),
        "pullers" => out = describe_pullers(world),
        "revisions" => out = describe_revisions(world),
        "records" => out = describe_records(world),
        "course" => out = describe_course(world),
        "counts" => writeln!(out, "{:?}", world.state.counts()).expect("a string grows"),
        "why" => out = describe_reasons(world, words[0]),
        other => panic!("unknown command {other}"),
    }
    out
}

fn describe(plan: &Plan, world: &World) -> String {
    let mut text = plan.to_string();
    if let Some(at) = plan.requeue_at.filter(|_| plan.writes.is_empty()) {
        writeln!(text, "again in {:?}", at.since(world.now)).expect("a string grows");
    }
    if text.is_empty() { "nothing\n".to_owned() } else { text }
}

fn describe_pods(world: &World) -> String {
    let mut text = String::new();
    for pod in world.server.pods.values() {
        let node = pod.target_node_name().map_or("nowhere", |node| node.as_str());
        let hash = pod.revision_hash().map_or_else(|| "-".to_owned(), |hash| hash.to_string());
        let terminating = if pod.terminating { " terminating" } else { "" };
        let orphan = if pod.controller.is_none() { " orphan" } else { "" };
        let ready = if pod.readiness.is_ready() { " ready" } else { "" };
        let phase = pod.phase;
        let name = &pod.name;
        let of_node = pod.tag().map(|tag| format!(" with {tag}")).unwrap_or_default();
        write!(text, "{name} on {node} of {hash}{of_node} {phase:?}{ready}{terminating}{orphan}")
            .expect("a string grows");
        if let Some(Replacement { replacing, is_agreed, replaced, .. }) = pod.replacement.as_deref()
        {
            let replacing = replacing.as_ref().map(|hash| format!(" replacing={hash}"));
            let replaced = replaced.as_ref().map(|hash| format!(" replaced={hash}"));
            text.extend(replacing.into_iter().chain(replaced));
            text += if *is_agreed { " agreed" } else { "" };
        }
        if let Some(change) = &pod.change {
            let tag = change.to.tag.as_ref().map(|tag| format!(" with {tag}")).unwrap_or_default();
            write!(text, " changing to {}{tag}: {:?}", change.to.hash, change.state)
                .expect("it grows");
        }
        text.push('\n');
    }
    text
}

fn describe_revisions(world: &World) -> String {
    let mut text = String::new();
    for revision in world.server.revisions.values() {
        let hash = revision.hash().map_or_else(|| "-".to_owned(), |hash| hash.to_string());
        let template = revision.template.as_ref().map_or("malformed", |t| &*t.canonical);
        let orphan = if revision.controller.is_none() { " orphan" } else { "" };
        let (name, number) = (&revision.name, revision.number);
        writeln!(text, "{name} number {number} template {template} hash {hash}{orphan}")
            .expect("a string grows");
    }
    text
}

fn describe_records(world: &World) -> String {
    let mut text = String::new();
    for revision in world.server.revisions.values() {
        let template = revision.template.as_ref().map_or("malformed", |t| &*t.canonical);
        if let Some(record) = revision.record.stored() {
            writeln!(text, "template {template}: {record}").expect("a string grows");
        }
    }
    text
}

/// The courses in the records, without the times.
fn describe_course(world: &World) -> String {
    let mut text = String::new();
    let records = world.server.revisions.values().filter_map(|it| Some((it, it.record.stored()?)));
    for (revision, record) in records {
        let template = revision.template.as_ref().map_or("malformed", |t| &*t.canonical);
        for event in &record.course.events {
            let (kind, wave) = (event.kind, event.wave.as_ref());
            let wave = wave.map(|wave| format!(" {wave}")).unwrap_or_default();
            writeln!(text, "template {template}: {kind:?}{wave}{}", event.attribution)
                .expect("a string grows");
        }
    }
    text
}

fn describe_reasons(world: &World, name: &str) -> String {
    let id = world.nodes.id(&name.into()).expect("a known node");
    let reasons = world.state.reasons_against(id, &world.nodes);
    reasons.iter().map(|reason| format!("{reason}\n")).collect()
}

fn parse_node(words: &[&str]) -> Node {
    let mut node = node(words[0]);
    for word in &words[1..] {
        let (key, value) = pair(word, '=');
        match key {
            "taint" => node.taints.push(parse_taint(value)),
            "down-since" => node.readiness = NodeReadiness::NotReady { since: seconds(value) },
            "unreachable-since" => {
                node.readiness = NodeReadiness::Unreachable { since: seconds(value) };
            }
            "created" => node.created = seconds(value),
            "condition" => {
                let all = node.conditions.iter().cloned().chain([value.into()]);
                node.conditions = all.collect();
            }
            "boot-id" => node.boot_id = value.into(),
            _ => node.labels = with_label(&node.labels, key, value),
        }
    }
    node
}

fn parse_taint(text: &str) -> Taint {
    let (taint, effect) = text.rsplit_once(':').expect("key[=value]:effect");
    let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        other => panic!("effect {other}"),
    };
    Taint { key: key.into(), value: value.into(), effect }
}

fn edit_daemon_set(ds: &mut DaemonSet, word: &str) {
    let (key, value) = pair(word, '=');
    match key {
        "template" => ds.template.canonical = value.into(),
        "node-selector" => {
            let mut placement = (*ds.template.placement).clone();
            let selector = Some(value).filter(|value| !value.is_empty());
            placement.node_selector = selector.map(|value| pair(value, '=')).into_iter().collect();
            ds.template = Template::new(ds.template.canonical.clone(), placement);
        }
        // A ConfigMap, and the checksum of its content.
        "config" => {
            let (name, checksum) = pair(value, ':');
            ds.template.config = Some(Arc::new(StoredConfig {
                objects: BTreeSet::from([ConfigObject::ConfigMap(name.into())]),
                checksums: BTreeMap::from([("checksum/config".into(), checksum.into())]),
                ..StoredConfig::default()
            }));
        }
        "config-maps" => ds.template.config = Some(config_maps(value)),
        // What a running pod cannot be changed in.
        "fixed" => ds.template.fixed_parts = value.parse().ok(),
        "template-generation" => ds.template_generation = value.parse().ok(),
        "max-unavailable" => {
            ds.update_strategy = UpdateStrategy::RollingUpdate {
                max_unavailable: int_or_percent(value),
                max_surge: IntOrPercent::Int(0),
            };
        }
        "max-surge" => {
            ds.update_strategy = UpdateStrategy::RollingUpdate {
                max_unavailable: IntOrPercent::Int(0),
                max_surge: int_or_percent(value),
            };
        }
        "paused" => ds.paused = true,
        "resumed" => ds.paused = false,
        // As a tool leaves it that replaces the object.
        "not-rolled-back" => ds.rolled_back = None,
        "retry" => ds.retry = Some(value.into()),
        "on-delete" => ds.update_strategy = UpdateStrategy::OnDelete,
        "min-ready-seconds" => ds.min_ready_seconds = value.parse().expect("a number"),
        "revision-history-limit" => ds.revision_history_limit = value.parse().expect("a number"),
        "selector" if value == "everything" => ds.selector = Some(LabelSelector::default()),
        "selector" if value == "malformed" => ds.selector = None,
        "unreadable" => ds.problems.push(Problem::Template { message: value.into() }),
        "readable" => ds.problems.clear(),
        "terminating" => ds.terminating = true,
        "observed" => ds.status.observed_generation = value.parse().expect("a number"),
        "collision-count" => ds.status.collision_count = value.parse().ok(),
        other => panic!("daemonset has no {other}"),
    }
}

/// Changes a pod, or adds one that has a place.
fn edit(world: &mut World, words: &[&str]) -> String {
    let known = world.server.pods.get(words[0]).cloned();
    let edited = words[1..].iter().fold(known.unwrap_or_else(|| pod(words[0], "")), edit_pod);
    if edited.target_node_name().is_some_and(|node| node.as_str().is_empty()) {
        return format!("no such pod: {}\n", words[0]);
    }
    world.put_pod(edited);
    String::new()
}

/// The answer to a check from now on: `CHECK VERDICT TEXT`, and for a Job `exists` or `gone`
/// before the text; `CHECK nothing` lets it have no answer.
fn answer(world: &mut World, words: &[&str]) {
    let (name, words) = words.split_first().expect("the name of a check");
    let (verdict, text) = words.split_first().expect("a verdict");
    let verdict = match *verdict {
        "nothing" => {
            world.answers.remove(*name);
            return;
        }
        text => CheckVerdict::ALL.into_iter().find(|it| it.as_str() == text).expect("a verdict"),
    };
    let (job, text) = match text {
        ["exists", text @ ..] => (JobPresence::Exists, text),
        ["gone", text @ ..] => (JobPresence::Gone, text),
        text => (JobPresence::Unknown, text),
    };
    let answer = CheckAnswer::new(verdict, &text.join(" ")).with_job(job);
    world.answers.insert((*name).to_owned(), answer);
}

/// An order about the current template: `VERB [WAVE]`, or `VERB [WAVE] of TEMPLATE`, then perhaps
/// `by USER because REASON`.
fn order(world: &World, words: &[&str]) -> Order {
    let (words, attribution) = match words.iter().position(|word| *word == "by") {
        None => (words, Attribution::default()),
        Some(by) => {
            let reason = words.get(by + 3..).unwrap_or_default().join(" ");
            (&words[..by], Attribution::new(words[by + 1], &reason))
        }
    };
    let (words, template) = match words {
        [words @ .., "of", template] => (words, (*template).to_owned()),
        _ => (words, world.server.daemon_set.template.canonical.to_string()),
    };
    let verb = match words {
        ["approve", wave] => OrderVerb::Approve((*wave).into()),
        ["promote", wave] => OrderVerb::Promote((*wave).into()),
        ["promote-full"] => OrderVerb::PromoteFull,
        ["abort"] => OrderVerb::Abort,
        ["retry"] => OrderVerb::Retry,
        other => panic!("order {other:?}"),
    };
    let revision = revision_hash(&template, None);
    Order {
        verb,
        revision,
        text: format!("{} at {}", words.join(" "), world.server.version).into(),
        attribution,
    }
}

fn has_label(key: &str, operator: LabelOperator) -> LabelSelector {
    LabelSelector { requirements: vec![LabelRequirement { key: key.into(), operator }] }
}

fn edit_pod(mut pod: Pod, word: &&str) -> Pod {
    let (key, value) = pair(word, '=');
    match key {
        "on" => pod.node_name = Some(value.into()),
        "pinned-to" => pod.affinity_node_name = Some(value.into()),
        "nowhere" => pod.affinity_node_name = None,
        "phase" => {
            pod.phase = match value {
                "Pending" => PodPhase::Pending,
                "Running" => PodPhase::Running,
                "Succeeded" => PodPhase::Succeeded,
                "Failed" => PodPhase::Failed,
                other => panic!("phase {other}"),
            }
        }
        "ready" if value.is_empty() => pod.readiness = Readiness::Ready,
        "ready" => pod.readiness = Readiness::ReadySince(seconds(value)),
        "unready" => pod.readiness = Readiness::NotReady,
        "agreed" => pod.replacement.get_or_insert_default().is_agreed = true,
        "hash" => pod.labels = with_label(&pod.labels, HASH_LABEL, value),
        "generation" => pod.labels = with_label(&pod.labels, TEMPLATE_GENERATION_LABEL, value),
        "override" => pod.labels = with_label(&pod.labels, OVERRIDE_LABEL, value),
        "no-override" => pod.labels = pod.labels.without(OVERRIDE_LABEL),
        "no-labels" => pod.labels = Labels::default(),
        "app" => pod.labels = with_label(&pod.labels, "app", value),
        "owner" => pod.controller = (value != "none").then(|| value.into()),
        "former" => {
            pod.controller = Some("former".into());
            pod.controller_name = Some("ds".into());
        }
        "terminating" => pod.terminating = true,
        "deleted" => (pod.terminating, pod.deleted_at) = (true, Some(seconds(value))),
        "created" => pod.creation_timestamp = seconds(value),
        "unschedulable" => pod.unschedulable = true,
        "restarts" => pod.restarts = value.parse().expect("a number"),
        "trouble" => pod.trouble = PodTrouble::from_reason(value),
        "change" => {
            pod.change.as_mut().expect("it is being changed").state = match value {
                "under-way" => ChangeState::UnderWay,
                "deferred" => ChangeState::ResizeDeferred { since: Timestamp(0) },
                "fails" => ChangeState::ResizeFails { since: Timestamp(0) },
                "infeasible" => ChangeState::ResizeInfeasible,
                "done" => ChangeState::Done,
                other => panic!("change {other}"),
            }
        }
        "uid" => pod.uid = value.into(),
        other => panic!("pod has no {other}"),
    }
    pod
}

fn edit_revision(mut revision: Revision, word: &&str) -> Revision {
    let (key, value) = pair(word, '=');
    match key {
        "template" => revision.template = Ok(Template::new(value, Placement::default())),
        "malformed" => revision.template = Err("not JSON".into()),
        "number" => revision.number = value.parse().expect("a number"),
        "generation" => revision.template_generation = value.parse().ok(),
        "hash" => revision.labels = with_label(&revision.labels, HASH_LABEL, value),
        "unlabelled" => revision.labels = Labels::from_iter([("app", "ds")]),
        "app" => revision.labels = with_label(&revision.labels, "app", value),
        "owner" => revision.controller = (value != "none").then(|| value.into()),
        "record" => {
            revision.record = match value {
                "none" => RecordState::None,
                "malformed" => RecordState::Malformed("unknown phase".into()),
                "foreign" => RecordState::Foreign,
                other => panic!("record {other}"),
            }
        }
        other => panic!("revision has no {other}"),
    }
    revision
}

/// Parses the outcome of a future write, such as `create pod on a fails`.
fn fault(words: &[&str]) -> Fault {
    let (write, outcome) = words.split_at(words.len() - 1);
    let impossible =
        || Outcome::CannotChange { message: "it is too old".to_owned(), written: None };
    let unknown = || Outcome::Unknown { message: "no answer".to_owned() };
    let (outcome, takes_effect) = match outcome[0] {
        "fails" => (Outcome::Failed { message: "refused".to_owned() }, false),
        "skipped" => (Outcome::Skipped, false),
        "impossible" => (impossible(), false),
        "partly" => (impossible(), true),
        "gone" => (Outcome::Gone, false),
        "terminating" => (Outcome::NamespaceTerminating, false),
        // There is no response to either: the first has no effect, the second takes effect.
        "request-lost" => (unknown(), false),
        "response-lost" => (unknown(), true),
        other => panic!("outcome {other}"),
    };
    Fault { write: write.join(" "), outcome, takes_effect }
}

fn kind(word: &str) -> Kind {
    match word {
        "pods" => Kind::Pods,
        "revisions" => Kind::Revisions,
        "daemonsets" => Kind::DaemonSets,
        other => panic!("kind {other}"),
    }
}

fn int_or_percent(text: &str) -> IntOrPercent {
    match text.strip_suffix('%') {
        Some(percent) => IntOrPercent::Percent(percent.parse().expect("a percentage")),
        None => IntOrPercent::Int(text.parse().expect("a number")),
    }
}

/// Parses a duration such as `90s` or `5m`.
fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let number = number.parse().expect("a number");
    match unit {
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(60 * number),
        "h" => Duration::from_secs(3600 * number),
        other => panic!("unit {other}"),
    }
}

fn seconds(text: &str) -> Timestamp {
    Timestamp::from_seconds(text.parse().expect("seconds"))
}

fn pair(word: &str, separator: char) -> (&str, &str) {
    word.split_once(separator).unwrap_or((word, ""))
}
