//! Replaces text that differs from run to run by its kind.

use std::sync::LazyLock;

use regex::Regex;

static RULES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let rule = |pattern: &str, sort: &'static str| {
        (Regex::new(pattern).expect("the pattern is a constant that every run uses"), sort)
    };
    vec![
        rule(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        rule(r"https?://127\.0\.0\.1:\d+", "<server>"),
        rule(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        rule(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        rule(r#"resourceVersion: "?\d+"?"#, "resourceVersion: <number>"),
        rule(r#""resourceVersion": "\d+""#, r#""resourceVersion": "<number>""#),
        rule(r"/tmp/[A-Za-z0-9._/-]*?(LIVE|MERGED|kubectl-edit)-?\d*", "<file $1>"),
        rule(r"\b10\.64\.\d+\.\d+\b", "<ip>"),
        rule(r"containerd://[0-9a-f]{12,}", "<container>"),
        rule(r"@sha256:[0-9a-f]{64}", "@<digest>"),
        rule(r"\bv1\.\d+\.\d+(-[a-z]+\.\d+)?\b", "<version>"),
        // Generated names: the hash of a revision, the suffix of a pod.
        rule(r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "-<hash>"),
        rule(r"=[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "=<hash>"),
        rule(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-<name>"),
        rule(r"\b(\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)?(ms|µs|s)\b", "<age>"),
        rule(r"<invalid>", "<age>"),
        rule(r"(\S)  +", "$1  "),
        rule(r" +\n", "\n"),
        // Newer versions of kubectl name the namespace.
        rule(r#"" deleted from NAMESPACE namespace"#, r#"" deleted"#),
        // The rule under a table's heading has the width of the column.
        rule(r"-{4,}", "----"),
    ]
});

/// An output in which the test's namespace is called NAMESPACE.
pub(crate) fn answer(text: &str, namespace: &str) -> String {
    let mut text = text.replace(namespace, "NAMESPACE");
    for (pattern, sort) in RULES.iter() {
        text = pattern.replace_all(&text, *sort).into_owned();
    }
    let text = text.trim_end();
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}
