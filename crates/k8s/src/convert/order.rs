//! The orders that people give of a rollout (G10).

use std::fmt::Display;

use everynode_core::api::{Order, OrderVerb};

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
    Ok(Order { verb, revision: revision.into(), text: text.into() })
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
}
