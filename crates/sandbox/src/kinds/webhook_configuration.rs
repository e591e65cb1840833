//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

use crate::format;
use crate::kind::columns::{AGE, Cell, Column, NAME};
use crate::kind::defaults::Literal::{self, Int, Struct, Text};
use crate::kind::defaults::{Defaults, default};
use crate::kind::rules::{Causes, Field, Rules, selector};
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
                ("webhooks[].sideEffects", "must specify one of None, NoneOnDryRun"),
                ("webhooks[].admissionReviewVersions", "must specify one of v1, v1beta1"),
            ],
            choices: &[
                ("webhooks[].failurePolicy", &["Fail", "Ignore"]),
                ("webhooks[].matchPolicy", &["Equivalent", "Exact"]),
                ("webhooks[].rules[].scope", &["*", "Cluster", "Namespaced"]),
            ],
            more: |object, causes| {
                object.child("webhooks").items().for_each(|it| webhook(&it, causes))
            },
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

fn webhook(webhook: &Field, causes: &mut Causes) {
    let name = webhook.child("name");
    if name.text().is_empty() {
        causes.required(&name, "");
    } else if name.text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        causes.invalid(&name, detail);
    } else {
        causes.invalid_each(&name, format::dns_subdomain(name.text()));
    }
    let seconds = webhook.child("timeoutSeconds");
    if seconds.int() < 1 || seconds.int() > 30 {
        causes.invalid(&seconds, "the timeout value must be between 1 and 30 seconds");
    }
    let client = webhook.child("clientConfig");
    if client.child("service").is_set() == client.child("url").is_set() {
        causes.required(&client, "exactly one of url or service is required");
    }
    for name in ["namespaceSelector", "objectSelector"] {
        selector::label_selector(&webhook.child(name), causes);
    }
}
