//! docs/examples/permissions.py against a real replica: what authors of plugins are shown works.

use std::path::{Path, PathBuf};

use moonbridge_testing::network::{Cli, Plane, Ran, folder};
use moonbridge_testing::process::{Process, SOON, testing_dir};
use tokio::process::Command;

const ADA: &str = "6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11";

/// The example, its stubs made as its first lines say.
struct Example {
    stubs: PathBuf,
    control: String,
}

impl Example {
    async fn prepare(stubs: PathBuf, control: String) -> Example {
        std::fs::create_dir(&stubs).expect("a new folder");
        let mut protoc = python();
        protoc.args(["-m", "grpc_tools.protoc", "-I"]).arg(repository().join("proto"));
        protoc.arg(format!("--python_out={}", stubs.display())).arg(format!("--grpc_python_out={}", stubs.display()));
        protoc.args(["moonbridge/v1/permissions.proto", "moonbridge/v1/resources.proto"]);
        let made = protoc.output().await.expect("python starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Example { stubs, control }
    }

    fn command(&self, token: Option<&Path>, arguments: &[&str]) -> Command {
        let mut command = python();
        command.env("PYTHONPATH", &self.stubs).arg(repository().join("docs/examples/permissions.py")).args(["--control", &self.control]);
        if let Some(token) = token {
            command.arg("--token-file").arg(token);
        }
        command.args(arguments);
        command
    }

    async fn run(&self, token: Option<&Path>, arguments: &[&str]) -> Ran {
        let output = tokio::time::timeout(SOON, self.command(token, arguments).kill_on_drop(true).output()).await;
        let output = output.unwrap_or_else(|_| panic!("{arguments:?} does not end")).expect("python starts");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

fn python() -> Command {
    let mut command = Command::new(testing_dir().join(".venv/bin/python"));
    command.arg("-B").env_remove("GRPC_TRACE");
    command
}

fn repository() -> PathBuf {
    testing_dir().parent().expect("testing/ is in it").to_owned()
}

/// A token of this role, in a file, as the documentation has it made.
async fn token(cli: &Cli, folder: &Path, name: &str, role: &str) -> PathBuf {
    let file = folder.join(name);
    let made = cli.ok(&["token", "create", name, "--role", role]).await;
    std::fs::write(&file, made.stdout).expect("a file in a new folder");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_checks_explains_changes_and_watches() {
    let folder = folder();
    let configured = folder.path().join("configured");
    std::fs::write(&configured, "the-token-of-the-configuration").expect("a file in a new folder");
    let store = folder.path().join("store");
    let mut replica = Plane::replica("alone", &format!("token_file = {configured:?}\n[store.embedded]\ndata_dir = {store:?}\n")).await;
    let cli = replica.cli().env("MOONBRIDGE_TOKEN_FILE", configured.to_str().expect("a plain path"));
    let viewer = token(&cli, folder.path(), "plugins", "viewer").await;
    let admin = token(&cli, folder.path(), "panel", "admin").await;
    let example = Example::prepare(folder.path().join("stubs"), replica.listen.to_string()).await;

    let ran = example.run(Some(&viewer), &["check", ADA, "moonbridge.server.vip", "a.b"]).await.ended(0);
    assert_eq!(ran.stdout, "moonbridge.server.vip: undefined\na.b: undefined\nprimary group default, prefix ''\n");
    let watch = Process::start("permissions.py watch", example.command(Some(&viewer), &["watch"]));
    let mut seen = 0;
    let told = async |seen: &mut usize, words: &str| {
        watch.line_from(seen, SOON, words, |line| line.contains(words).then_some(())).await;
    };
    told(&mut seen, "the watch stands").await;

    // Roles are as documented, and refusals are no answers.
    let ran = example.run(Some(&viewer), &["set", ADA, "moonbridge.server.vip"]).await.ended(1);
    assert!(ran.stderr.contains("PERMISSION_DENIED"), "{ran:?}");
    let ran = example.run(None, &["check", ADA, "a.b"]).await.ended(1);
    assert!(ran.stderr.contains("UNAUTHENTICATED") && ran.stdout.is_empty(), "{ran:?}");
    let ran = example.run(Some(&viewer), &["check", "NeverSeen", "a.b"]).await.ended(1);
    assert!(ran.stderr.contains("NOT_FOUND") && ran.stderr.contains("UUID") && ran.stdout.is_empty(), "{ran:?}");

    let ran = example.run(Some(&admin), &["set", ADA, "moonbridge.server.vip"]).await.ended(0);
    assert!(ran.stdout.contains("revision ") && ran.stdout.contains("moonbridge.server.vip = true"), "{ran:?}");
    told(&mut seen, &format!("user {ADA} : moonbridge.server.vip = true")).await;
    example.run(Some(&admin), &["set", ADA, "a.b", "false", "--context", "world=lobby", "--seconds", "3600"]).await.ended(0);
    told(&mut seen, "a.b = false (world=lobby) until ").await;
    let ran = example.run(Some(&viewer), &["check", ADA, "moonbridge.server.vip", "a.b", "--context", "world=lobby"]).await.ended(0);
    assert!(ran.stdout.starts_with("moonbridge.server.vip: true\na.b: false\n"), "{ran:?}");
    let ran = example.run(Some(&viewer), &["explain", ADA, "moonbridge.server.vip"]).await.ended(0);
    assert!(ran.stdout.starts_with("moonbridge.server.vip: true, by exact\n"), "{ran:?}");
    assert!(ran.stdout.contains(ADA) && ran.stdout.contains(": moonbridge.server.vip = true\n"), "{ran:?}");

    // A watch outlives its replica.
    replica.restart().await;
    told(&mut seen, "lost (").await;
    told(&mut seen, "the watch stands").await;
    cli.ok(&["permission", "group", "create", "mod"]).await;
    told(&mut seen, "group mod: no nodes").await;
    cli.ok(&["permission", "group", "delete", "mod"]).await;
    told(&mut seen, "group mod: removed").await;
    // Its token is asked for at every call: once it is revoked, there is no next watch.
    cli.ok(&["token", "revoke", "plugins"]).await;
    let ran = example.run(Some(&viewer), &["check", ADA, "a.b"]).await.ended(1);
    assert!(ran.stderr.contains("UNAUTHENTICATED"), "{ran:?}");
}
