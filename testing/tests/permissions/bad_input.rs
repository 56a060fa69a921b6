//! Files and names that nobody should import or type: each is refused in words, and nothing of it is there afterwards.

use std::path::Path;
use std::process::{Command, Stdio};

use moonbridge_testing::network::{Plane, Ran, folder};
use moonbridge_testing::process::SOON;
use serde_json::json;
use tempfile::TempDir;
use tonic::Code;

use crate::support::{Client, node, refused, set};

const ADA: &str = "6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11";

struct Alone {
    replica: Plane,
    client: Client,
    folder: TempDir,
}

impl Alone {
    async fn start() -> Alone {
        let folder = folder();
        let replica = Plane::replica("alone", &format!("[store.embedded]\ndata_dir = {:?}\n", folder.path().join("store"))).await;
        let client = Client::at(&replica).await;
        Alone { replica, client, folder }
    }

    /// Imports a file of these bytes.
    async fn import(&self, bytes: &[u8], more: &[&str]) -> Ran {
        let file = self.folder.path().join("file");
        std::fs::write(&file, bytes).expect("a file in a new folder");
        let file = file.to_str().expect("a plain path");
        self.replica.cli().run(&[&["permission", "import", file], more].concat()).await
    }

    /// A file that is refused whole, with these words on stderr, and nothing of it is there.
    async fn refuses(&self, what: &str, bytes: &[u8], words: &[&str]) {
        let before = self.client.export().await;
        let ran = self.import(bytes, &[]).await;
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        for word in words {
            assert!(ran.stderr.to_lowercase().contains(word), "{what} does not say {word:?}: {ran:?}");
        }
        assert!(!ran.stderr.contains("panicked"), "{what}: {ran:?}");
        assert_eq!(self.client.export().await, before, "{what}");
    }
}

/// Compressed by Debian's own.
fn gzip(folder: &Path, bytes: &[u8]) -> Vec<u8> {
    let file = folder.join("plain");
    std::fs::write(&file, bytes).expect("a file in a new folder");
    let packed = Command::new("gzip").arg("-c").arg(&file).output().expect("gzip is part of every Debian");
    assert!(packed.status.success());
    packed.stdout
}

/// So many zeroes, compressed.
fn bomb(bytes: &str) -> Vec<u8> {
    let mut zeroes = Command::new("head").args(["-c", bytes, "/dev/zero"]).stdout(Stdio::piped()).spawn().expect("head");
    let packed = Command::new("gzip").args(["-1", "-c"]).stdin(zeroes.stdout.take().expect("piped")).output().expect("gzip");
    assert!(zeroes.wait().expect("it ends").success() && packed.status.success());
    packed.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_is_refused_whole() {
    let alone = Alone::start().await;
    let good = json!({ "users": { ADA: { "nodes": [{ "key": "a.b", "value": true }] } } }).to_string().into_bytes();
    let packed = gzip(alone.folder.path(), &good);
    // Any byte; the checksum notices those that leave good JSON.
    for at in 10..packed.len() {
        let mut corrupt = packed.clone();
        corrupt[at] ^= 0x5a;
        let words: &[&str] = if at + 8 >= packed.len() { &["gzip"] } else { &[] };
        if at % 8 == 0 || !words.is_empty() {
            alone.refuses("corrupt gzip", &corrupt, words).await;
        }
    }
    alone.refuses("cut-off gzip", &packed[..packed.len() - 9], &["compressed", "too soon"]).await;
    alone.refuses("a gzip bomb", &bomb("600M"), &["unpack"]).await;
    alone.refuses("cut-off JSON", &good[..good.len() - 4], &["line 1"]).await;
    alone.refuses("nothing", b"", &[]).await;
    alone.refuses("something else", b"<html></html>", &[]).await;
    let twice = format!("{{\"users\":{{\"{ADA}\":{{\"nodes\":[]}},\"{}\":{{\"nodes\":[]}}}}}}", ADA.to_uppercase());
    alone.refuses("a user twice", twice.as_bytes(), &["6f1f6b0e", "twice"]).await;
    alone.refuses("a group twice", br#"{"groups":{"mod":{"nodes":[]},"Mod":{"nodes":[]}}}"#, &["mod", "twice"]).await;
    let missing = alone.replica.cli().run(&["permission", "import", "/nowhere/file.json"]).await.ended(1);
    assert!(missing.stderr.contains("/nowhere/file.json"), "{missing:?}");
    // The same, unbroken, is taken.
    alone.import(&packed, &[]).await.ended(0);
    assert_eq!(alone.client.check(ADA, &["a.b"]).await.answers, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_over_is_named_and_the_rest_is_taken() {
    let alone = Alone::start().await;
    let file = json!({
        "groups": { "mod": { "nodes": [{ "key": "kept.mod", "value": true }] }, "with space": { "nodes": [] } },
        "users": { ADA: { "username": "Ada", "nodes": [
            { "key": "r=(unclosed", "value": true },
            { "key": "r=(?=ahead)x", "value": true },
            { "key": "x".repeat(201), "value": true },
            { "key": "r=(a+)+b", "value": true },
            { "key": "group.mod", "value": true },
            { "key": "over.long.ago", "value": true, "expiry": 1_000_000_000 },
        ] } },
    });
    let file = file.to_string();
    let dry = alone.import(file.as_bytes(), &["--dry-run"]).await.ended(0);
    for word in ["(unclosed", "(?=ahead)", "with space"] {
        assert!(dry.stderr.contains(word), "{word}: {dry:?}");
    }
    assert!(dry.stdout.contains("group mod") && dry.stdout.contains(ADA), "{dry:?}");
    let empty = alone.client.export().await;
    assert!(!format!("{empty:?}").contains("kept.mod"), "a dry run writes nothing: {empty:?}");

    alone.import(file.as_bytes(), &[]).await.ended(0);
    let began = std::time::Instant::now();
    // What would take an engine that backtracks longer than there is time.
    let evil = "a".repeat(150);
    let answers = alone.client.check("Ada", &["kept.mod", "over.long.ago", "aaab", &evil, "ahead"]).await.answers;
    assert_eq!(answers, [1, 3, 1, 3, 3]);
    assert!(began.elapsed() < SOON / 3, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn circles_unknown_groups_and_bad_names_are_refused_in_words() {
    let alone = Alone::start().await;
    let cli = alone.replica.cli();
    for group in ["a", "b", "c"] {
        cli.ok(&["permission", "group", "create", group]).await;
    }
    cli.ok(&["permission", "group", "parent", "add", "a", "b"]).await;
    cli.ok(&["permission", "group", "parent", "add", "b", "c"]).await;
    for (group, parent) in [("c", "a"), ("a", "a")] {
        let ran = cli.run(&["permission", "group", "parent", "add", group, parent]).await.ended(1);
        assert!(ran.stderr.contains(group) && ran.stderr.contains(parent), "{ran:?}");
    }
    refused(alone.client.change_user(ADA, vec![set(node("group.nowhere", true))], None).await, Code::FailedPrecondition);
    let ran = cli.run(&["permission", "user", ADA, "parent", "add", "nowhere"]).await.ended(1);
    assert!(ran.stderr.contains("nowhere"), "{ran:?}");
    let ran = cli.run(&["permission", "user", "NeverSeen", "info"]).await.ended(1);
    assert!(ran.stderr.contains("UUID"), "{ran:?}");
    for name in ["with space", "", "x/y", &"long".repeat(10)] {
        let ran = cli.run(&["permission", "group", "create", name]).await;
        assert!([1, 2].contains(&ran.code) && !ran.stderr.contains("panicked"), "{name:?}: {ran:?}");
    }
    let ran = cli.run(&["permission", "group", "delete", "default"]).await.ended(1);
    assert!(ran.stderr.contains("default"), "{ran:?}");
    refused(alone.client.change_user(ADA, vec![set(node("r=(unclosed", true))], None).await, Code::InvalidArgument);
    refused(alone.client.change_user(ADA, vec![set(node("", true))], None).await, Code::InvalidArgument);

    // Odd, and good.
    for group in ["v1.2", "größe", "管理"] {
        cli.ok(&["permission", "group", "create", group]).await;
        cli.ok(&["permission", "group", "set", group, &format!("node.of.{group}")]).await;
        cli.ok(&["permission", "user", ADA, "parent", "add", group]).await;
        assert_eq!(alone.client.check(ADA, &[&format!("node.of.{group}")]).await.answers, [1], "{group}");
    }
    cli.ok(&["permission", "user", ADA, "meta", "set", "greeting", "Grüß Gott. Dots, and spaces."]).await;
    cli.ok(&["permission", "user", ADA, "meta", "add-prefix", "10", "&a[V.I.P] "]).await;
    let checked = alone.client.check(ADA, &["any"]).await;
    assert_eq!(checked.meta["greeting"], "Grüß Gott. Dots, and spaces.");
    assert_eq!(checked.prefix, "&a[V.I.P] ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_bytes_that_stand_for_millions_are_refused_where_they_come_in() {
    let alone = Alone::start().await;
    let shorthand = |start: &str, count: usize| (0..count).map(|n| json!({"key": format!("{start}{n}")})).collect::<Vec<_>>();
    // In a file: a holder that has more than any needs loses the rest by name, a file that has is refused.
    let file = json!({"users": {ADA: {"nodes": shorthand("{1-250}.", 210)}}}).to_string();
    let ran = alone.import(file.as_bytes(), &[]).await.ended(0);
    assert!(ran.stdout.contains("NOT taken over: 10") && ran.stderr.contains("nodes[200]"), "{ran:?}");
    assert_eq!(alone.client.check(ADA, &["250.199", "1.200"]).await.answers, [1, 3]);
    let bomb = json!({"groups": {"a": {"nodes": shorthand("{0-9}{0-9}{0-9}", 3_000)}}}).to_string();
    alone.refuses("shorthand", bomb.as_bytes(), &["more than 2000000 permissions"]).await;
    let aliases =
        format!("a: &a [{}]\npermissions:\n{}", "x, ".repeat(10_000), (0..1_000).map(|n| format!("  g{n}: *a\n")).collect::<String>());
    alone.refuses("aliases", aliases.as_bytes(), &["aliases repeat"]).await;
    // In calls, at once and little by little.
    let edits = |from: usize, to: usize| (from..to).map(|n| set(node(&format!("{{1-250}}.{n}"), true))).collect::<Vec<_>>();
    refused(alone.client.change_user(ADA, edits(200, 201), None).await, Code::InvalidArgument);
    let other = "6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c12";
    refused(alone.client.change_user(other, edits(0, 201), None).await, Code::InvalidArgument);
    alone.client.change_user(other, edits(0, 200), None).await.expect("as much as may be");
    // Two halves that are each fine.
    let half = json!({"users": {other: {"nodes": shorthand("{1-250}.more.", 100)}}}).to_string();
    alone.refuses("two halves", half.as_bytes(), &["more than 50000 permissions"]).await;
    assert_eq!(alone.client.check(other, &["1.199", "1.more.1"]).await.answers, [1, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_ten_thousand_nodes_is_imported_changed_and_asked() {
    let alone = Alone::start().await;
    let nodes: Vec<_> = (0..10_000).map(|nth| json!({ "key": format!("plot.{nth}.build"), "value": nth % 2 == 0 })).collect();
    let file = json!({ "users": { ADA: { "username": "Ada", "nodes": nodes } } }).to_string();
    alone.import(file.as_bytes(), &[]).await.ended(0);
    alone.client.set("Ada", node("plot.10000.build", true)).await;
    let answers = alone.client.check("Ada", &["plot.0.build", "plot.9999.build", "plot.10000.build", "plot.10001.build"]).await.answers;
    assert_eq!(answers, [1, 2, 1, 3]);
    assert_eq!(alone.client.user("Ada").await.user.expect("stored").nodes.len(), 10_001);
    let ran = alone.replica.cli().ok(&["permission", "check", "Ada", "plot.9998.build"]).await;
    assert!(ran.stdout.contains("true"), "{ran:?}");
}
