//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

use crate::kind::columns::{AGE, Cell, Column, NAME};
use crate::kind::defaults::Literal::{self, Int, Struct, Text};
use crate::kind::defaults::{Defaults, default};
use crate::kind::rules::Rules;
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, kept};

/// ValidatingWebhookConfigurations.
pub(super) static VALIDATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    defaults: Defaults { values: DEFAULTS, ..Defaults::KEPT },
    ..webhooks(
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
    )
};

/// MutatingWebhookConfigurations.
pub(super) static MUTATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    defaults: Defaults {
        each: &[("webhooks[]", |webhook| default(webhook, "reinvocationPolicy", "Never"))],
        values: DEFAULTS,
        ..Defaults::KEPT
    },
    ..webhooks(
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
    )
};

const fn webhooks(kind: &'static str, plural: &'static str, singular: &'static str) -> Kind {
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        counts_generations: true,
        columns: COLUMNS,
        rules: Rules {
            required: &[
                ("webhooks[].name", ""),
                ("webhooks[].sideEffects", "must specify one of None, NoneOnDryRun"),
                ("webhooks[].admissionReviewVersions", "must specify one of v1, v1beta1"),
            ],
            choices: &[
                ("webhooks[].failurePolicy", &["Fail", "Ignore"]),
                ("webhooks[].matchPolicy", &["Equivalent", "Exact"]),
                ("webhooks[].rules[].scope", &["*", "Cluster", "Namespaced"]),
            ],
            ..Rules::NONE
        },
        strategy: Strategy { needs_resource_version: true, ..Strategy::PLAIN },
        ..kept("admissionregistration.k8s.io", kind, plural, singular)
    }
}

const COLUMNS: &[Column] =
    &[NAME, Column::new("Webhooks", Cell::Count("/webhooks")).integer(), AGE];

const DEFAULTS: &[(&str, Literal)] = &[
    ("webhooks[].failurePolicy", Text("Fail")),
    ("webhooks[].matchPolicy", Text("Equivalent")),
    ("webhooks[].namespaceSelector", Struct),
    ("webhooks[].objectSelector", Struct),
    ("webhooks[].timeoutSeconds", Int(10)),
    ("webhooks[].rules[].scope", Text("*")),
    ("webhooks[].clientConfig.service?.port", Int(443)),
];
