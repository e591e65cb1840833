//! The orders that people give of a rollout (G10), and who gives them and why (G49).

use std::borrow::Cow;
use std::fmt::Display;

use everynode_core::api::{Attribution, Order, OrderVerb};
use serde::{Deserialize, Serialize};

/// Who gave an order, and why. Other fields are left for later versions.
#[derive(Deserialize, Serialize)]
struct WireAttribution<'a> {
    /// The text of the order: a later one that comes without an attribution has none.
    order: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'a, str>>,
}

/// Decodes an order: `VERB HASH [WAVE] TIME`.
///
/// # Errors
/// What is wrong with it.
pub fn rollout_order(text: &str) -> Result<Order, String> {
    let words: Vec<&str> = text.split(' ').collect();
    let (verb, revision) = match words[..] {
        ["approve", hash, wave, _] => (OrderVerb::Approve(wave.into()), hash),
        ["promote", hash, wave, _] => (OrderVerb::Promote(wave.into()), hash),
        ["promote-full", hash, _] => (OrderVerb::PromoteFull, hash),
        ["abort", hash, _] => (OrderVerb::Abort, hash),
        ["retry", hash, _] => (OrderVerb::Retry, hash),
        _ => {
            return Err(format!(
                "{text:?} is none of \"approve HASH WAVE TIME\", \"promote HASH WAVE TIME\", \
                 \"promote-full HASH TIME\", \"abort HASH TIME\" and \"retry HASH TIME\""
            ));
        }
    };
    let attribution = Attribution::default();
    Ok(Order { verb, revision: revision.into(), text: text.into(), attribution })
}

/// Decodes the text of an order, or of a pause, and who gave it and why; `None` if it is malformed.
pub fn attribution(annotation: &str) -> Option<(String, Attribution)> {
    let WireAttribution { order, user, reason } = serde_json::from_str(annotation).ok()?;
    let [user, reason] = [user, reason].map(Option::unwrap_or_default);
    Some((order.into_owned(), Attribution::new(&user, &reason)))
}

/// The value of the annotation that states who gives the order with this text, and why; `None` if
/// neither is known.
pub fn attribution_text(order: &str, attribution: &Attribution) -> Option<String> {
    let Attribution { user, reason } = attribution;
    let wire = WireAttribution {
        order: order.into(),
        user: user.as_deref().map(Into::into),
        reason: reason.as_deref().map(Into::into),
    };
    let is_stated = user.is_some() || reason.is_some();
    is_stated.then(|| serde_json::to_string(&wire).expect("all keys are strings"))
}

/// The text of an order that was given at this time.
pub fn rollout_order_text(verb: &OrderVerb, revision: &str, time: &dyn Display) -> String {
    match verb {
        OrderVerb::Approve(wave) => format!("approve {revision} {wave} {time}"),
        OrderVerb::Promote(wave) => format!("promote {revision} {wave} {time}"),
        OrderVerb::PromoteFull => format!("promote-full {revision} {time}"),
        OrderVerb::Abort => format!("abort {revision} {time}"),
        OrderVerb::Retry => format!("retry {revision} {time}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G10: an order is read as it is written; anything else is an error.
    #[test]
    fn an_order_is_read_as_it_is_written() {
        for verb in [
            OrderVerb::Approve("zones/1:10%".into()),
            OrderVerb::Promote("canary".into()),
            OrderVerb::PromoteFull,
            OrderVerb::Abort,
            OrderVerb::Retry,
        ] {
            let text = rollout_order_text(&verb, "5d4f", &"2026-01-01T00:00:00Z");
            let order = rollout_order(&text).expect("an order");
            assert_eq!((order.verb, order.revision.as_str()), (verb, "5d4f"));
            assert_eq!(&*order.text, text);
        }
        for bad in ["", "approve", "aprove 5d4f canary now", "abort 5d4f", "abort 5d4f canary now"]
        {
            let error = rollout_order(bad).expect_err(bad);
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }

    /// G49: who gave an order and why is read as it is written, and bounded; anything else is
    /// nobody's.
    #[test]
    fn an_attribution_is_read_as_it_is_written() {
        for (user, reason) in [("alice", "a \"b\" c"), ("DOMAIN\\bob", ""), ("", "why")] {
            let given = Attribution::new(user, reason);
            let text = attribution_text("abort 5d4f now", &given).expect("something is stated");
            assert_eq!(attribution(&text), Some(("abort 5d4f now".to_owned(), given)), "{text}");
        }
        assert_eq!(attribution_text("abort 5d4f now", &Attribution::default()), None);
        let long = format!("{{\"order\":\"o\",\"later\":1,\"reason\":\"{}\"}}", "x".repeat(9_000));
        let (_, read) = attribution(&long).expect("it is well-formed");
        assert!(read.reason.is_some_and(|reason| reason.chars().count() < 300));
        for bad in ["", "alice", "{}", "[]", "{\"order\":1}", "{\"order\":\"o\",\"user\":[]}"] {
            assert_eq!(attribution(bad), None, "{bad}");
        }
    }
}
