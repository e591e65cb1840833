//! The lifecycles of simulated containers (S22), read from YAML.
//!
//! A lifecycle is data: the duration and the outcome of each stage. The kubelets carry it out.

mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::Labels;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

/// The annotation with which a pod selects its lifecycle, and a node that of all its containers.
pub const LIFECYCLE_ANNOTATION: &str = "sandbox.everynode.dev/lifecycle";

const BUILT_IN: &str = include_str!("lifecycles.yaml");
const DEFAULT: &str = "default";

/// An error in a file of lifecycles.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The text is not YAML of the expected form.
    #[error("lifecycles: {0}")]
    Syntax(String),
    /// A lifecycle lists a stage twice.
    #[error("lifecycle {name}: the stage {stage} is listed twice")]
    DuplicateStage {
        /// The name of the lifecycle.
        name: String,
        /// The name of the stage.
        stage: &'static str,
    },
    /// A rule refers to a lifecycle that is not defined.
    #[error("choose: unknown lifecycle {0}")]
    UnknownLifecycle(String),
}

/// The lifecycle of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// The kubelet's decision about the pod.
    pub admit: Admission,
    /// The pull of the image.
    pub pull: Attempt,
    /// The start of the container.
    pub start: Attempt,
    /// When the container becomes ready.
    pub ready: Readiness,
    /// The run of the container: for ever, or until it exits.
    pub run: Run,
    /// The reaction to the stop signal.
    pub stop: Stop,
    /// The kubelet's answer to a resize of the running container.
    pub resize: Resize,
}

/// The kubelet's decision about the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The kubelet admits the pod.
    Admit,
    /// The kubelet rejects the pod.
    Reject {
        /// The reason in the pod's status.
        reason: String,
        /// The message in the pod's status.
        message: String,
    },
}

/// The pull of an image, or the start of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The time that it takes.
    pub time: JitteredDelay,
    /// Its failure; `None` if it succeeds.
    pub failure: Option<Failure>,
}

/// A stage that fails, always or for the first attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error message; `None` for a default.
    pub message: Option<String>,
    /// The number of attempts that fail; `None` for all.
    pub times: Option<u32>,
}

impl Failure {
    /// True if an attempt fails after a number of earlier ones.
    pub fn fails(&self, attempts: u32) -> bool {
        self.times.is_none_or(|times| attempts < times)
    }
}

/// When a container becomes ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Ready a time after the start.
    After(JitteredDelay),
    /// Never ready.
    Never,
}

/// The run of a container: for ever, or until it exits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// It runs until it is stopped.
    Forever,
    /// It exits after a time, and may be restarted.
    Exit {
        /// The time from the start to the exit.
        after: JitteredDelay,
        /// The exit code.
        exit_code: i32,
        /// The reason in the container's status.
        reason: String,
        /// The number of exits, after which the container keeps running; `None` for no limit.
        times: Option<u32>,
    },
}

/// The reaction of a container to the stop signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It exits after a time, with exit code 0.
    After(JitteredDelay),
    /// It runs until the grace period is over, and is killed.
    Ignores,
}

/// The kubelet's answer to a resize, where it does not only depend on the node's room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resize {
    /// It is done after a time, once the node has room.
    After(JitteredDelay),
    /// It cannot be done on the node, with a message.
    Infeasible(String),
    /// It cannot be done now, with a message.
    Deferred(String),
}

/// A delay with a random addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitteredDelay {
    /// The fixed part in milliseconds.
    pub delay_ms: i64,
    /// The maximum of the random part in milliseconds.
    pub jitter_ms: i64,
}

impl JitteredDelay {
    const NONE: Self = Self { delay_ms: 0, jitter_ms: 0 };

    /// Draws a delay in milliseconds.
    pub fn draw(self, rng: &mut Pcg64Mcg) -> i64 {
        match self.jitter_ms {
            0 => self.delay_ms,
            jitter => self.delay_ms + rng.random_range(0..=jitter),
        }
    }
}

/// All lifecycles, and the rules that select one for a container.
#[derive(Clone, Debug)]
pub struct Lifecycles {
    by_name: BTreeMap<String, Arc<Lifecycle>>,
    rules: Vec<SelectionRule>,
    default: Arc<Lifecycle>,
    /// Parsed lifecycles from annotations; limited to [`INLINE_MAX`].
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
    /// The built-in lifecycles and rules.
    pub fn built_in() -> Self {
        Self::with(None).expect("a test parses the built-in lifecycles")
    }

    /// The built-in lifecycles and rules, with those in `text` added before them.
    ///
    /// # Errors
    ///
    /// The text has another form, a stage is listed twice, or a rule names an unknown lifecycle.
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

    /// The lifecycle of a container.
    ///
    /// # Errors
    ///
    /// The annotation names an unknown lifecycle, or its inline stages are invalid.
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

    /// The lifecycle that an annotation names or lists.
    ///
    /// # Errors
    ///
    /// It names an unknown lifecycle, or its inline stages are invalid.
    pub fn named_or_inline(&mut self, text: &str) -> Result<Arc<Lifecycle>, String> {
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
            return Err(format!("unknown lifecycle {text:?}; known are {}", names.join(", ")));
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

/// True if a pattern matches the whole text; `*` matches any text.
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
        pull: Attempt { time: JitteredDelay::NONE, failure: None },
        start: Attempt { time: JitteredDelay::NONE, failure: None },
        ready: Readiness::After(JitteredDelay::NONE),
        run: Run::Forever,
        stop: Stop::After(JitteredDelay::NONE),
        resize: Resize::After(JitteredDelay::NONE),
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selected(lifecycles: &mut Lifecycles, annotation: Option<&str>, image: &str) -> Lifecycle {
        let lifecycle = lifecycles.choose(annotation, image, &Labels::default()).unwrap();
        Lifecycle::clone(&lifecycle)
    }

    /// S22: the built-in lifecycles parse, and inherit from `default`.
    #[test]
    fn built_in_lifecycles_extend_the_default_one() {
        let mut lifecycles = Lifecycles::built_in();
        let default = selected(&mut lifecycles, None, "nginx");
        let never = selected(&mut lifecycles, Some("never-ready"), "nginx");
        assert_eq!(never.ready, Readiness::Never);
        assert_eq!(never.pull, default.pull);
        let slowest = default.pull.time.delay_ms
            + default.pull.time.jitter_ms
            + default.start.time.delay_ms
            + default.start.time.jitter_ms;
        assert!(slowest < 200, "pods of a demo are up at once");
    }

    /// S22: the annotation takes precedence over the image, and the image over the node label.
    #[test]
    fn the_annotation_takes_precedence_over_image_and_node_label() {
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
        assert!(selected(&mut lifecycles, None, "x/does-not-exist:1").pull.failure.is_some());
    }

    /// S22: an annotation can define its stages inline.
    #[test]
    fn an_annotation_may_list_the_stages() {
        let mut lifecycles = Lifecycles::built_in();
        let none = Labels::default();
        let text = "[{stage: ready, delay: 30s}, {stage: stop, outcome: ignores}]";
        let lifecycle = selected(&mut lifecycles, Some(text), "nginx");
        assert_eq!(
            lifecycle.ready,
            Readiness::After(JitteredDelay { delay_ms: 30_000, jitter_ms: 0 })
        );
        assert_eq!(lifecycle.stop, Stop::Ignores);
        let unknown = lifecycles.choose(Some("no-such"), "nginx", &none).unwrap_err();
        assert!(unknown.starts_with("unknown lifecycle \"no-such\"; known are "), "{unknown}");
        assert!(lifecycles.choose(Some("[{stage: dance}]"), "nginx", &none).is_err());
    }

    /// S22: errors in a file are reported.
    #[test]
    fn an_invalid_file_is_refused() {
        for (text, expected) in [
            ("choose: [{lifecycle: nope}]", "choose: unknown lifecycle nope"),
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

    /// S22: `*` matches any text.
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

    proptest! {
        #[test]
        fn any_stages_are_a_lifecycle_or_an_error(
            stage in "admit|pull|start|ready|run|stop|resize|[a-z]{0,4}",
            value in r"[a-z0-9:{}\[\], -]{0,24}|\PC{0,12}",
            text in r"\PC{0,30}",
        ) {
            let mut lifecycles = Lifecycles::built_in();
            for text in [text, format!("[{{stage: {stage}, {value}}}]"), format!("- {value}")] {
                let _ = Lifecycles::parse(&text);
                let _ = lifecycles.named_or_inline(&text);
            }
        }
    }
}
