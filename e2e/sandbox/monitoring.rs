//! Alerts and dashboard refer only to metrics that a running controller serves, and docs/metrics.md
//! lists every alert. `EVERYNODE_UPDATE=replace` writes the reasons of the alerts on rollouts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use everynode_core::api::{ReasonClass, RolloutReason};
use kube::api::PostParams;
use regex::Regex;
use serde_json::{Value, json};

use super::leader;
use super::separate_process::bare;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::process::get;
use crate::world::{World, eventually};

const ALERTS: &str = include_str!("../../deploy/components/monitoring/alerts.yaml");
const ALERTS_TEST: &str = include_str!("../../deploy/components/monitoring/alerts-test.yaml");
const DASHBOARD: &str = include_str!("../../deploy/components/monitoring/dashboard.json");
const PAGE: &str = include_str!("../../docs/metrics.md");

/// The names of the labels of each sample.
type Samples = BTreeMap<String, BTreeSet<String>>;

#[tokio::test]
async fn alerts_and_dashboard_name_what_a_controller_serves() -> Result<()> {
    let world = bare(2).await?;
    let samples = scrape(&world).await?;
    let alerts = alerts()?;
    let expressions: Vec<Expression> = alerts
        .iter()
        .map(|rule| Expression {
            text: text(rule, "expr"),
            annotations: rule["annotations"].to_string(),
        })
        .chain(panels()?)
        .collect();
    ensure!(expressions.len() > alerts.len(), "the dashboard has no expressions");
    for expression in &expressions {
        expression.check(&samples)?;
    }
    Ok(())
}

#[test]
fn the_page_about_metrics_lists_every_alert() -> Result<()> {
    let names: BTreeSet<String> = alerts()?.iter().map(|rule| text(rule, "alert")).collect();
    let listed: BTreeSet<String> = matches(r"`(Everynode[A-Za-z]+)`", PAGE).collect();
    ensure!(names == listed, "the rules have {names:?}, docs/metrics.md {listed:?}");
    Ok(())
}

/// An alert on rollouts selects the reasons of certain classes.
#[test]
fn an_alert_names_each_reason_of_its_classes() -> Result<()> {
    const START: &str = "    - alert: ";
    let selected = Regex::new(r#"reason=~?"[^"]*""#)?;
    let mut unnamed: BTreeSet<&str> =
        RolloutReason::ALL.into_iter().flat_map(alerts_on).copied().collect();
    let rules = ALERTS.split(START).map(|rule| {
        let alert = rule.lines().next().unwrap_or_default();
        if !unnamed.remove(alert) {
            return Ok(rule.to_owned());
        }
        let reasons = RolloutReason::ALL.into_iter();
        let reasons = reasons.filter(|reason| alerts_on(*reason).contains(&alert));
        let reasons: Vec<&str> = reasons.map(RolloutReason::as_str).collect();
        let operator = if reasons.len() == 1 { "=" } else { "=~" };
        ensure!(selected.is_match(rule), "{alert} selects no reason");
        let selector = format!("reason{operator}\"{}\"", reasons.join("|"));
        Ok(selected.replace(rule, selector).into_owned())
    });
    let expected = rules.collect::<Result<Vec<_>>>()?.join(START);
    ensure!(unnamed.is_empty(), "there are no such alerts: {unnamed:?}");
    if std::env::var_os("EVERYNODE_UPDATE").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/components/monitoring");
        std::fs::write(folder.join("alerts.yaml"), expected)?;
    } else {
        ensure!(ALERTS == expected, "out of date: run this with EVERYNODE_UPDATE=replace");
    }
    Ok(())
}

/// The alerts on rollouts with this reason, which follow from its class.
fn alerts_on(reason: RolloutReason) -> &'static [&'static str] {
    match reason.class() {
        ReasonClass::NotGuarded if reason == RolloutReason::Paused => &["EverynodeRolloutIsPaused"],
        ReasonClass::WaitsForNodes | ReasonClass::Stuck => &["EverynodeRolloutIsStuck"],
        ReasonClass::WaitsForChecks => &["EverynodeRolloutAwaitsChecks"],
        ReasonClass::WaitsForApproval | ReasonClass::WaitsForPerson => {
            &["EverynodeRolloutAwaitsApproval"]
        }
        ReasonClass::RollsBack => &["EverynodeRolloutFailed", "EverynodeRolloutIsStuck"],
        ReasonClass::Invalid => &["EverynodeRolloutPolicyIsInvalid"],
        ReasonClass::Failed => &["EverynodeRolloutFailed"],
        ReasonClass::NotGuarded
        | ReasonClass::WaitsForTime
        | ReasonClass::WaitsForWindow
        | ReasonClass::Complete => &[],
    }
}

/// With `maxSurge` and with OnDelete, a rollout that does not continue leaves every pod available.
#[test]
fn an_alert_compares_each_count_with_the_desired_one() -> Result<()> {
    let compared: BTreeSet<String> = alerts()?
        .iter()
        .map(|rule| text(rule, "expr"))
        .filter(|expression| expression.contains("everynode_daemonset_desired"))
        .flat_map(|expression| {
            let behind = r"everynode_daemonset_desired\{[^}]*\}\)\s*- [^>]*?(everynode_[a-z_]+)";
            matches(behind, &expression).collect::<Vec<_>>()
        })
        .collect();
    let expected = ["everynode_daemonset_available", "everynode_daemonset_updated"];
    ensure!(compared == expected.map(str::to_owned).into(), "{compared:?}");
    Ok(())
}

/// The alerts on fleets that need nobody, and where a person must act.
#[test]
fn no_alert_fires_unless_a_person_must_act() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let document: Value = serde_saphyr::from_str(ALERTS)?;
    // JSON is YAML, too.
    std::fs::write(folder.path().join("rules.yaml"), document["spec"].to_string())?;
    std::fs::write(folder.path().join("alerts-test.yaml"), ALERTS_TEST)?;
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules", "alerts-test.yaml"]).current_dir(folder.path());
    let output = match promtool.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("LEFT OUT: this test needs promtool, of Prometheus");
            return Ok(());
        }
        output => output?,
    };
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

fn alerts() -> Result<Vec<Value>> {
    let document: Value = serde_saphyr::from_str(ALERTS)?;
    let groups = document["spec"]["groups"].as_array().context("no groups")?;
    Ok(groups.iter().filter_map(|group| group["rules"].as_array()).flatten().cloned().collect())
}

fn panels() -> Result<Vec<Expression>> {
    let document: Value = serde_json::from_str(DASHBOARD)?;
    let panels = document["panels"].as_array().context("no panels")?;
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let expression = |target: &Value| Expression {
        text: text(target, "expr"),
        annotations: text(target, "legendFormat"),
    };
    Ok(targets.map(expression).collect())
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// A PromQL expression, and the template that displays its result.
#[derive(Debug)]
struct Expression {
    text: String,
    annotations: String,
}

impl Expression {
    fn check(&self, samples: &Samples) -> Result<()> {
        // The labels that Prometheus adds to every sample.
        let mut known: BTreeSet<String> = ["job", "instance", "le"].map(str::to_owned).into();
        let named =
            Regex::new(r"\b((?:everynode|workqueue|rest_client|process)_[a-z_]+)(?:\{([^}]*)\})?")?;
        let mut is_about_us = false;
        for found in named.captures_iter(&self.text) {
            let labels = samples.get(&found[1]);
            let labels = labels.with_context(|| format!("no sample {} for {self:?}", &found[1]))?;
            known.extend(labels.iter().cloned());
            is_about_us = true;
            for selected in matches(
                r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*""#,
                found.get(2).map_or("", |all| all.as_str()),
            ) {
                ensure!(
                    selected == "job" || labels.contains(&selected),
                    "{} has no label {selected}: {self:?}",
                    &found[1]
                );
            }
        }
        ensure!(is_about_us, "no metric of ours in {self:?}");
        let grouped = matches(r"\bby \(([^)]*)\)", &self.text);
        let grouped =
            grouped.flat_map(|list| list.split(", ").map(str::to_owned).collect::<Vec<_>>());
        let shown = matches(r"\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}", &self.annotations);
        for label in grouped.chain(shown) {
            ensure!(known.contains(&label), "no metric has the label {label}: {self:?}");
        }
        Ok(())
    }
}

/// The first group of every match.
fn matches<'a>(pattern: &str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let pattern = Regex::new(pattern).expect("a constant pattern");
    let found: Vec<String> = pattern.captures_iter(text).map(|found| found[1].to_owned()).collect();
    found.into_iter()
}

/// The metrics that a controller serves after a rollout, and after it has read a malformed object.
async fn scrape(world: &World) -> Result<Samples> {
    // An orphan that the DaemonSet adopts, and that contains no template.
    let metadata = json!({"name": "a-malformed", "labels": {"app": "a"}});
    let malformed = json!({"metadata": metadata, "data": {}, "revision": 1});
    world.revisions().create(&PostParams::default(), &serde_json::from_value(malformed)?).await?;
    let (_controller, address) = leader::serving(world).await?;
    // The host is not allowed, which is an answer as well.
    let policy = json!({"steps": [{"name": "all", "checks": ["gate"]}],
        "checks": [{"name": "gate", "http": {"url": "http://gate.example"}}]});
    let annotations = json!({"everynode.dev/rollout-policy": policy.to_string()});
    let policy = json!({"metadata": {"annotations": annotations}});
    world.create_daemon_set(&with(daemon_set("a"), policy)).await?;
    world.reaches("a", "Complete").await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    eventually("the controller has reported problems", async || {
        let (_, answer) = get(&address, "/metrics").await?;
        for expected in [
            "everynode_problems_total{",
            "everynode_daemonset_updated{",
            "everynode_writes_total{",
            "everynode_rollout_waves_done{",
            "everynode_rollout_check_answers_total{",
            "rest_client_requests_total{code=\"200\",",
        ] {
            ensure!(answer.contains(expected), "no {expected} in\n{answer}");
        }
        samples(&answer)
    })
    .await
}

fn samples(exposition: &str) -> Result<Samples> {
    let line =
        Regex::new(r"(?m)^((?:everynode|workqueue|rest_client|process)_[a-z_]+)(?:\{(.*)\})? ")?;
    let mut samples = Samples::new();
    for found in line.captures_iter(exposition) {
        let labels = found.get(2).map_or("", |all| all.as_str());
        samples.entry(found[1].to_owned()).or_default().extend(matches(r#"([a-z_]+)=""#, labels));
    }
    Ok(samples)
}
