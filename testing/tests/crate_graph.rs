//! The arrows between our crates, as docs/architecture.md draws them: no others, and none missing from the drawing.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Who may build on whom. The two planes meet in moonbridge-proto, never in each other.
const ARROWS: &[(&str, &[&str])] = &[
    ("moonbridge-crypto", &[]),
    ("moonbridge-permissions", &[]),
    // The snapshot has the groups as they are resolved: parsed once, at the edge.
    ("moonbridge-proto", &["moonbridge-permissions"]),
    ("moonbridge-protocol", &[]),
    ("moonbridge-dataplane", &["moonbridge-crypto", "moonbridge-permissions", "moonbridge-proto", "moonbridge-protocol"]),
    ("moonbridge-controlplane", &["moonbridge-permissions", "moonbridge-proto"]),
    // Both planes for `up`; the protocol for `probe` and `status`; permissions for the files of `import` and `export`.
    (
        "moonbridge-cli",
        &["moonbridge-controlplane", "moonbridge-dataplane", "moonbridge-permissions", "moonbridge-proto", "moonbridge-protocol"],
    ),
    (
        "moonbridge-counts",
        &["moonbridge-crypto", "moonbridge-dataplane", "moonbridge-permissions", "moonbridge-proto", "moonbridge-protocol"],
    ),
    (
        "moonbridge-testing",
        &[
            "moonbridge-controlplane",
            "moonbridge-crypto",
            "moonbridge-dataplane",
            "moonbridge-permissions",
            "moonbridge-proto",
            "moonbridge-protocol",
        ],
    ),
];

/// Crates that do I/O, or belong to it, and that the pure ones must not see.
const IMPURE: &[&str] = &["tokio", "tokio-util", "tonic", "socket2", "mio", "rustix", "tracing", "futures"];

/// Ours that are pure: no I/O, no clock.
const PURE: &[&str] = &["moonbridge-crypto", "moonbridge-permissions", "moonbridge-protocol"];

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let metadata =
        MetadataCommand::new().manifest_path(manifest).no_deps().other_options(["--offline".to_owned()]).exec().expect("cargo metadata");
    let normal = |package: &cargo_metadata::Package| {
        let dependencies = package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
        dependencies.map(|dependency| dependency.name.clone()).collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), normal(package))).collect()
}

#[test]
fn our_crates_build_on_each_other_as_drawn() {
    let drawn: BTreeMap<_, _> =
        ARROWS.iter().map(|(from, to)| (from.to_string(), to.iter().map(|to| to.to_string()).collect::<BTreeSet<_>>())).collect();
    let ours = |all: BTreeSet<String>| all.into_iter().filter(|name| name.starts_with("moonbridge-")).collect::<BTreeSet<_>>();
    let found: BTreeMap<_, _> = dependencies().into_iter().map(|(name, all)| (name, ours(all))).collect();
    assert_eq!(found, drawn, "left: Cargo.toml files; right: ARROWS in this test");
}

#[test]
fn nothing_of_ours_builds_on_the_tests() {
    for (name, all) in dependencies() {
        for tests in ["moonbridge-testing", "moonbridge-counts"] {
            assert!(!all.contains(tests), "{name} depends on {tests}");
        }
    }
}

#[test]
fn pure_crates_see_no_io() {
    let all = dependencies();
    for name in PURE {
        let found: Vec<_> = all[*name].iter().filter(|dependency| IMPURE.contains(&dependency.as_str())).collect();
        assert!(found.is_empty(), "{name} depends on {found:?}");
    }
}
