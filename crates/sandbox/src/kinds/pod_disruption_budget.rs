//! PodDisruptionBudgets, which evictions honour.

use crate::json::Value;
use crate::kind::columns::{self, AGE, NAME};
use crate::kind::defaults::Defaults;
use crate::kind::rules::{Causes, Field, Rules, go_json, int_or_percent, selector};
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, STATUS, named};

/// PodDisruptionBudgets.
pub static POD_DISRUPTION_BUDGET: Kind = Kind {
    short_names: &["pdb"],
    subresources: STATUS,
    counts_generations: true,
    columns: &[
        NAME,
        columns::of("Min Available", |budget| amount(budget, "/spec/minAvailable")),
        columns::of("Max Unavailable", |budget| amount(budget, "/spec/maxUnavailable")),
        columns::number("Allowed Disruptions", "/status/disruptionsAllowed"),
        AGE,
    ],
    defaults: Defaults { ..Defaults::KEPT },
    rules: Rules { each: &[("spec", spec)], ..Rules::NONE },
    strategy: Strategy { needs_resource_version: true, ..Strategy::PLAIN },
    ..named("policy", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
};

fn amount(object: &Value, path: &str) -> Value {
    match object.pointer(path) {
        None | Some(Value::Null) => "N/A".into(),
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

fn spec(spec: &Field, causes: &mut Causes) {
    let (available, unavailable) = (spec.child("minAvailable"), spec.child("maxUnavailable"));
    if available.is_set() && unavailable.is_set() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        // Upstream prints the internal Go struct, which has no JSON names.
        let json = |name: &str| go_json(spec.child(name).value());
        let value = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\
             \"UnhealthyPodEvictionPolicy\":{}}}",
            json("minAvailable"),
            json("selector"),
            json("maxUnavailable"),
            json("unhealthyPodEvictionPolicy")
        );
        causes.invalid_rendered(spec, value, detail);
    }
    for field in [&available, &unavailable] {
        int_or_percent::check(field, causes);
        int_or_percent::at_most_100_percent(field, causes);
    }
    selector::label_selector(&spec.child("selector"), causes);
    let policy = spec.child("unhealthyPodEvictionPolicy");
    causes.optional_choice(&policy, &["AlwaysAllow", "IfHealthyBudget"]);
}
