//! The licences, versions and sources of dependencies, compared with deny.toml, which `cargo deny`
//! reads too. Cargo lists the dependencies; nothing is read from elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::cargo_metadata::{self, Package};

#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
struct Skip {
    /// `syn@2.0.119`
    #[serde(rename = "crate")]
    krate: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// Returns one line for each dependency that deny.toml does not allow, and for each exception that
/// is not needed any more.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let rules = std::fs::read_to_string(root.join("deny.toml"))?;
    let rules: Rules = toml::from_str(&rules).context("deny.toml")?;
    let metadata = cargo_metadata::read(root, &["--all-features"])?;
    Ok(problems(&rules, &metadata.packages))
}

fn problems(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut problems: Vec<String> =
        packages.iter().flat_map(|package| of_package(rules, package)).collect();
    problems.extend(versions(&rules.bans.skip, packages));
    problems
}

fn of_package(rules: &Rules, package: &Package) -> Vec<String> {
    let Package { name, version, license, source, .. } = package;
    let mut problems = Vec::new();
    let Some(source) = source else { return problems };
    let known = |registry: &String| *source == format!("registry+{registry}");
    if !rules.sources.allow_registry.iter().any(known) {
        problems.push(format!("{name} {version} comes from {source}"));
    }
    let license = license.as_deref().unwrap_or_default();
    match Expression::parse_mode(license, ParseMode::LAX) {
        Ok(expression) => {
            let is_allowed = |required: &spdx::LicenseReq| {
                rules.licenses.allow.iter().any(|allowed| *allowed == required.to_string())
            };
            if !expression.evaluate(is_allowed) {
                problems.push(format!("{name} {version} has the licence {license}"));
            }
        }
        Err(_) => problems
            .push(format!("{name} {version} has no licence that can be read: \"{license}\"")),
    }
    problems
}

/// If a crate has several versions, all but one must be listed with a reason.
fn versions(skip: &[Skip], packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Package { name, version, .. } in packages {
        versions.entry(name).or_default().push(format!("{name}@{version}"));
    }
    let is_skipped = |version: &String| {
        skip.iter().any(|skip| skip.krate == *version && !skip.reason.is_empty())
    };
    let several = versions.values().filter(|versions| versions.len() > 1);
    let mut problems: Vec<String> = several
        .clone()
        .map(|versions| versions.iter().filter(|version| !is_skipped(version)).collect::<Vec<_>>())
        .filter(|versions| versions.len() > 1)
        .map(|versions| format!("several versions of one crate: {versions:?}"))
        .collect();
    let needed: Vec<&String> = several.flatten().collect();
    let unneeded = skip.iter().filter(|skip| !needed.contains(&&skip.krate));
    problems.extend(unneeded.map(|skip| format!("deny.toml: {} is skipped in vain", skip.krate)));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

    fn package(name: &str, version: &str, license: &str, source: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some(license.to_owned()),
            source: Some(source.to_owned()),
            targets: Vec::new(),
        }
    }

    #[test]
    fn each_licence_version_and_source_that_is_not_allowed_is_reported() {
        let rules = "
            licenses.allow = ['MIT', 'ISC']
            bans.skip = [{ crate = 'a@1.0.0', reason = 'r' }, { crate = 'z@1.0.0', reason = 'r' }]
            sources.allow-registry = ['https://github.com/rust-lang/crates.io-index']
        ";
        let rules: Rules = toml::from_str(rules).unwrap();
        let packages = [
            package("a", "1.0.0", "MIT", CRATES_IO),
            package("a", "2.0.0", "MIT/Apache-2.0", CRATES_IO),
            package("b", "1.0.0", "MIT AND GPL-3.0-only", CRATES_IO),
            package("b", "2.0.0", "MIT AND ISC", CRATES_IO),
            package("c", "1.0.0", "MIT", "git+https://example.dev/c"),
            package("d", "1.0.0", "", CRATES_IO),
        ];
        assert_eq!(
            problems(&rules, &packages),
            [
                "b 1.0.0 has the licence MIT AND GPL-3.0-only",
                "c 1.0.0 comes from git+https://example.dev/c",
                "d 1.0.0 has no licence that can be read: \"\"",
                "several versions of one crate: [\"b@1.0.0\", \"b@2.0.0\"]",
                "deny.toml: z@1.0.0 is skipped in vain",
            ]
        );
    }
}
