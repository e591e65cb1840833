//! ConfigMaps and Secrets that pods read: they are no part of a revision (G53).

use everynode_core::api::{StoredConfig, Template, unrestored};

use super::{Risk, RiskKind, everywhere};

/// The number of names in the message.
const NAMES_MAX: usize = 5;

/// The risk that the template names configuration whose name stays when its content changes.
pub(super) fn outside_of_revision(template: &Template, live: Option<&Template>) -> Option<Risk> {
    let config = template.config.as_deref().filter(|config| !config.objects.is_empty())?;
    let changed = live.map(|live| template.unrestored_by(live)).unwrap_or_default();
    Some(match unrestored(&changed) {
        Some(statement) => {
            let message = format!("{statement}: a checksum changes, and the names stay");
            everywhere(RiskKind::ConfigurationChanges, message)
        }
        None => everywhere(RiskKind::ConfigurationOutside, outside(config)),
    })
}

fn outside(config: &StoredConfig) -> String {
    let more = config.objects.len().saturating_sub(NAMES_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    let names = config.objects.iter().take(NAMES_MAX).map(ToString::to_string);
    let shown: Vec<String> = names.chain(more).collect();
    let effect = match config.checksums.is_empty() {
        false => "going back to an older revision does not bring back their content",
        true => {
            "a change of their content replaces no pod, and going back to an older revision does \
             not bring it back"
        }
    };
    format!("configuration outside of the revision: {}: {effect}", shown.join(", "))
}
