//! Names for pods, drawn as an API server draws them from `generateName` (C35): sans-IO, the seed is an argument.
//!
//! Whoever draws the name itself can send a creation again without making a second pod.

use std::sync::{Mutex, PoisonError};

use everynode_core::api::{DaemonSetName, PodName};
use everynode_k8s::pod_template;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// An API server's alphabet: no vowels, and no digits that look like them, so that no words come out.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// The generator of an executor's names.
#[derive(Debug)]
pub struct PodNames(Mutex<StdRng>);

impl PodNames {
    /// The same seed gives the same names.
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// A name for a pod of this DaemonSet.
    pub(super) fn draw(&self, daemon_set: &DaemonSetName) -> PodName {
        let mut rng = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut name = pod_template::name_base(daemon_set.as_str());
        let letters = (0..SUFFIX_LENGTH).map(|_| ALPHABET[rng.random_range(0..ALPHABET.len())]);
        name.extend(letters.map(char::from));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C35: five characters of the API server's alphabet behind the base, all of them in use, and the same ones for the
    /// same seed.
    #[test]
    fn names_are_drawn_as_an_api_server_draws_them() {
        let (names, same) = (PodNames::seeded(1), PodNames::seeded(1));
        let mut used = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let name = names.draw(&"fluentd".into());
            assert_eq!(name, same.draw(&"fluentd".into()));
            let suffix = name.as_str().strip_prefix("fluentd-").unwrap();
            assert_eq!(suffix.len(), 5, "{name}");
            used.extend(suffix.bytes());
        }
        assert!(used.iter().eq(std::collections::BTreeSet::from(*ALPHABET).iter()), "{used:?}");
        assert_ne!(names.draw(&"a".into()), PodNames::seeded(2).draw(&"a".into()));
        assert_eq!(names.draw(&"a".repeat(253).as_str().into()).as_str().len(), 63);
    }
}
