//! Names for pods, generated like those that an API server generates for `generateName` (C35).
//! Sans-IO: the seed is an argument.
//!
//! Because the controller chooses the name, it can repeat a creation without a second pod.

use std::sync::{Mutex, PoisonError};

use everynode_core::api::{DaemonSetName, PodName};
use everynode_k8s::pod_template;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The alphabet of an API server: without vowels and similar digits, so that no words result.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// Generates the pod names of an executor.
#[derive(Debug)]
pub struct PodNames(Mutex<StdRng>);

impl PodNames {
    /// A generator. The same seed gives the same names.
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// A new name for a pod of this DaemonSet.
    pub(super) fn generate(&self, daemon_set: &DaemonSetName) -> PodName {
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

    /// C35: a name is the base and five characters of the API server's alphabet, all of which
    /// occur; the same seed gives the same names.
    #[test]
    fn names_are_generated_as_in_an_api_server() {
        let (names, same) = (PodNames::seeded(1), PodNames::seeded(1));
        let mut used = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let name = names.generate(&"fluentd".into());
            assert_eq!(name, same.generate(&"fluentd".into()));
            let suffix = name.as_str().strip_prefix("fluentd-").unwrap();
            assert_eq!(suffix.len(), 5, "{name}");
            used.extend(suffix.bytes());
        }
        assert!(used.iter().eq(std::collections::BTreeSet::from(*ALPHABET).iter()), "{used:?}");
        assert_ne!(names.generate(&"a".into()), PodNames::seeded(2).generate(&"a".into()));
        assert_eq!(names.generate(&"a".repeat(253).as_str().into()).as_str().len(), 63);
    }
}
