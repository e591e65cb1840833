//! What simulated containers do with their lives (S22), read from YAML.
//!
//! Only data: which stage takes how long and how it ends. The [kubelet](super::kubelet) lives it.

mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::object::Labels;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

/// The annotation by which a pod chooses its lifecycle.
pub const LIFECYCLE_ANNOTATION: &str = "sandbox.everynode.dev/lifecycle";

const BUILT_IN: &str = include_str!("lifecycles.yaml");
const DEFAULT: &str = "default";

/// Why a file of lifecycles can't be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("lifecycles: {0}")]
    Syntax(String),
    #[error("lifecycle {name}: the stage {stage} is listed twice")]
    DuplicateStage { name: String, stage: &'static str },
    #[error("choose: there is no lifecycle {0}")]
    UnknownLifecycle(String),
}

/// A container's whole life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    pub admit: Admission,
    pub pull: Pull,
    pub start: Start,
    pub ready: Readiness,
    pub run: Run,
    pub stop: Stop,
}

/// Whether the kubelet takes the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    Admit,
    Reject { reason: String, message: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    pub time: JitteredDelay,
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub time: JitteredDelay,
    pub failure: Option<Failure>,
}

/// A stage that fails, always or the first few times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: Option<String>,
    pub times: Option<u32>,
}

impl Failure {
    /// Whether the attempt after `attempts` earlier ones fails.
    pub fn fails(&self, attempts: u32) -> bool {
        self.times.is_none_or(|times| attempts < times)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    After(JitteredDelay),
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    Forever,
    Exit { after: JitteredDelay, exit_code: i32, reason: String, times: Option<u32> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    After(JitteredDelay),
    /// Runs on until the grace period is over and it is killed.
    Ignores,
}

/// A time and the most that chance adds to it, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitteredDelay {
    pub delay_ms: i64,
    pub jitter_ms: i64,
}

impl JitteredDelay {
    pub fn draw(self, rng: &mut Pcg64Mcg) -> i64 {
        match self.jitter_ms {
            0 => self.delay_ms,
            jitter => self.delay_ms + rng.random_range(0..=jitter),
        }
    }
}

/// All lifecycles and the rules that choose among them.
#[derive(Clone, Debug)]
pub struct Lifecycles {
    by_name: BTreeMap<String, Arc<Lifecycle>>,
    rules: Vec<SelectionRule>,
    default: Arc<Lifecycle>,
    /// Lifecycles that pods spelt out in their annotation; bounded.
    inline: BTreeMap<String, Result<Arc<Lifecycle>, String>>,
}

const INLINE_MAX: usize = 1000;

#[derive(Clone, Debug)]
struct SelectionRule {
    image: Option<String>,
    node_labels: BTreeMap<String, String>,
    lifecycle: Arc<Lifecycle>,
}

impl Lifecycles {
    /// The built-in lifecycles.
    pub fn built_in() -> Self {
        Self::with(None).expect("the built-in lifecycles are right, a test reads them")
    }

    /// The built-in lifecycles under those of `text`, whose rules go first.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::with(Some(text))
    }

    fn with(text: Option<&str>) -> Result<Self, Error> {
        let built_in: wire::File = read(BUILT_IN)?;
        let own: wire::File = text.map_or(Ok(wire::File::default()), read)?;
        let mut by_name: BTreeMap<String, Arc<Lifecycle>> = BTreeMap::new();
        for listed in built_in.lifecycles.into_iter().chain(own.lifecycles) {
            let base = by_name.get(&listed.name).or_else(|| by_name.get(DEFAULT)).cloned();
            let lifecycle = listed.with_defaults_of(base.as_deref())?;
            by_name.insert(listed.name, Arc::new(lifecycle));
        }
        let mut rules = Vec::new();
        for rule in own.choose.into_iter().chain(built_in.choose) {
            let Some(lifecycle) = by_name.get(&rule.lifecycle) else {
                return Err(Error::UnknownLifecycle(rule.lifecycle));
            };
            rules.push(SelectionRule {
                image: rule.image,
                node_labels: rule.node_labels,
                lifecycle: lifecycle.clone(),
            });
        }
        let default = by_name[DEFAULT].clone();
        Ok(Self { by_name, rules, default, inline: BTreeMap::new() })
    }

    /// The lifecycle of a container; an error if the pod's annotation names none.
    pub fn choose(
        &mut self,
        annotation: Option<&str>,
        image: &str,
        node_labels: &Labels,
    ) -> Result<Arc<Lifecycle>, String> {
        if let Some(text) = annotation {
            return self.named_or_inline(text);
        }
        let chosen = self.rules.iter().find(|rule| rule.fits(image, node_labels));
        Ok(chosen.map_or(&self.default, |rule| &rule.lifecycle).clone())
    }

    fn named_or_inline(&mut self, text: &str) -> Result<Arc<Lifecycle>, String> {
        if let Some(lifecycle) = self.by_name.get(text) {
            return Ok(lifecycle.clone());
        }
        if let Some(known) = self.inline.get(text) {
            return known.clone();
        }
        let read = self.inline(text);
        if self.inline.len() >= INLINE_MAX {
            self.inline.pop_first();
        }
        self.inline.insert(text.to_owned(), read.clone());
        read
    }

    fn inline(&self, text: &str) -> Result<Arc<Lifecycle>, String> {
        if !text.trim_start().starts_with(['[', '-']) {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            return Err(format!("there is no lifecycle {text:?}; there are {}", names.join(", ")));
        }
        let stages = serde_saphyr::from_str(text).map_err(|error| one_line(&error))?;
        let listed = wire::Lifecycle { name: "in the annotation".to_owned(), stages };
        listed
            .with_defaults_of(Some(&self.default))
            .map(Arc::new)
            .map_err(|error| error.to_string())
    }
}

impl SelectionRule {
    fn fits(&self, image: &str, node_labels: &Labels) -> bool {
        let label = |key: &str| node_labels.get(key).map(|value| &**value);
        self.image.as_ref().is_none_or(|pattern| matches(pattern, image))
            && self.node_labels.iter().all(|(key, value)| label(key) == Some(value.as_str()))
    }
}

/// Whether a pattern, in which `*` stands for anything, matches all of the text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Error> {
    serde_saphyr::from_str(text).map_err(|error| Error::Syntax(one_line(&error)))
}

fn one_line(error: &serde_saphyr::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

impl Lifecycle {
    const IDLE: Self = Self {
        admit: Admission::Admit,
        pull: Pull { time: JitteredDelay { delay_ms: 0, jitter_ms: 0 }, failure: None },
        start: Start { time: JitteredDelay { delay_ms: 0, jitter_ms: 0 }, failure: None },
        ready: Readiness::After(JitteredDelay { delay_ms: 0, jitter_ms: 0 }),
        run: Run::Forever,
        stop: Stop::After(JitteredDelay { delay_ms: 0, jitter_ms: 0 }),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(lifecycles: &mut Lifecycles, annotation: Option<&str>, image: &str) -> Lifecycle {
        let lifecycle = lifecycles.choose(annotation, image, &Labels::default()).unwrap();
        Lifecycle::clone(&lifecycle)
    }

    /// S22: the built-in lifecycles parse, and take from `default` what they don't say.
    #[test]
    fn built_in_lifecycles_build_on_the_default_one() {
        let mut lifecycles = Lifecycles::built_in();
        let default = chosen(&mut lifecycles, None, "nginx");
        let never = chosen(&mut lifecycles, Some("never-ready"), "nginx");
        assert_eq!(never.ready, Readiness::Never);
        assert_eq!(never.pull, default.pull);
        let slowest = default.pull.time.delay_ms
            + default.pull.time.jitter_ms
            + default.start.time.delay_ms
            + default.start.time.jitter_ms;
        assert!(slowest < 200, "pods of a demo are up at once");
    }

    /// S22: annotation, image and node label choose, in this order.
    #[test]
    fn annotation_goes_before_image_and_node_label() {
        let own = "
lifecycles:
- {name: late, stages: [{stage: ready, delay: 1.5s, jitter: 2m}]}
choose:
- {image: 'registry/*:broken', lifecycle: pull-failure}
- {nodeLabels: {speed: slow}, lifecycle: late}
";
        let mut lifecycles = Lifecycles::parse(own).unwrap();
        let labels = &Labels::from_iter([("speed", "slow")]);
        let ready = |lifecycle: Arc<Lifecycle>| lifecycle.ready.clone();
        let late = Readiness::After(JitteredDelay { delay_ms: 1500, jitter_ms: 120_000 });
        assert_eq!(ready(lifecycles.choose(None, "nginx", labels).unwrap()), late);
        let broken = lifecycles.choose(None, "registry/a:broken", labels).unwrap();
        assert!(broken.pull.failure.is_some());
        let never = lifecycles.choose(Some("never-ready"), "registry/a:broken", labels).unwrap();
        assert_eq!(ready(never), Readiness::Never);
        assert!(chosen(&mut lifecycles, None, "x/does-not-exist:1").pull.failure.is_some());
    }

    /// S22: an annotation may spell its stages out.
    #[test]
    fn an_annotation_may_spell_its_stages_out() {
        let mut lifecycles = Lifecycles::built_in();
        let none = Labels::default();
        let text = "[{stage: ready, delay: 30s}, {stage: stop, outcome: ignores}]";
        let lifecycle = chosen(&mut lifecycles, Some(text), "nginx");
        assert_eq!(
            lifecycle.ready,
            Readiness::After(JitteredDelay { delay_ms: 30_000, jitter_ms: 0 })
        );
        assert_eq!(lifecycle.stop, Stop::Ignores);
        let unknown = lifecycles.choose(Some("no-such"), "nginx", &none).unwrap_err();
        assert!(unknown.starts_with("there is no lifecycle \"no-such\"; there are "), "{unknown}");
        assert!(lifecycles.choose(Some("[{stage: dance}]"), "nginx", &none).is_err());
    }

    /// S22: what is wrong with a file is said.
    #[test]
    fn a_wrong_file_is_refused() {
        for (text, expected) in [
            ("choose: [{lifecycle: nope}]", "choose: there is no lifecycle nope"),
            (
                "lifecycles: [{name: a, stages: [{stage: stop}, {stage: stop}]}]",
                "lifecycle a: the stage stop is listed twice",
            ),
        ] {
            assert_eq!(Lifecycles::parse(text).unwrap_err().to_string(), expected);
        }
        for text in [
            "lifecycles: [{name: a, stages: [{stage: ready, delay: soon}]}]",
            "lifecycles: [{name: a, stages: [{stage: ready, colour: red}]}]",
            "lifecycle: []",
            "[",
        ] {
            assert!(matches!(Lifecycles::parse(text), Err(Error::Syntax(_))), "{text}");
        }
    }

    /// S22: `*` stands for anything.
    #[test]
    fn patterns_match_whole_images() {
        for (pattern, text, expected) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1", false),
            ("nginx*", "nginx:1", true),
            ("*", "", true),
            ("*:bad", "a/b:bad", true),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
