//! TLS on the control protocol, with certificates from files: who has none from the right authority gets no word.

use moonbridge_testing::certificates::Authority;
use moonbridge_testing::network::{Cli, Plane, folder};
use moonbridge_testing::peer::{Backend, Kind, Player};
use moonbridge_testing::process::{Process, SOON};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_admins_show_certificates() {
    let files = folder();
    let authority = Authority::new(files.path(), "authority");
    let stranger = Authority::new(files.path(), "stranger");
    let (server, node, admin, fake) = (authority.sign("server"), authority.sign("node"), authority.sign("admin"), stranger.sign("fake"));
    let token = files.path().join("token");
    std::fs::write(&token, "a-long-secret\n").expect("a file");
    let (mut one, port) = Backend::serve(Kind::Npm, "one", json!({})).await;

    let config = format!(
        "token_file = {token:?}\n[tls]\ncert = {:?}\nkey = {:?}\nclient_ca = {:?}\n[store.embedded]\ndata_dir = {:?}\n",
        server.cert,
        server.key,
        authority.ca,
        files.path().join("store"),
    );
    let replica = Plane::replica("r1", &config).await;
    let url = format!("https://{}", replica.listen);
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    let state = folder();
    let with = |ca: &std::path::Path, cert: &std::path::Path, key: &std::path::Path| {
        Cli::to(state.path(), &url)
            .env("MOONBRIDGE_TOKEN_FILE", &path(&token))
            .env("MOONBRIDGE_CONTROL_CA", &path(ca))
            .env("MOONBRIDGE_CONTROL_CERT", &path(cert))
            .env("MOONBRIDGE_CONTROL_KEY", &path(key))
    };
    let cli = with(&authority.ca, &admin.cert, &admin.key);
    cli.ok(&["backend", "set", "one", "--address", &format!("127.0.0.1:{port}")]).await;
    cli.ok(&["route", "set", "*", "--backends", "one"]).await;

    // No certificate; one of another authority; a server of another authority; plaintext; a wrong token.
    let bare = Cli::to(state.path(), &url).env("MOONBRIDGE_TOKEN_FILE", &path(&token)).env("MOONBRIDGE_CONTROL_CA", &path(&authority.ca));
    for (who, cli) in [
        ("no certificate", bare),
        ("a stranger's certificate", with(&authority.ca, &fake.cert, &fake.key)),
        ("a stranger's authority", with(&stranger.ca, &admin.cert, &admin.key)),
        ("plaintext", Cli::to(state.path(), &format!("http://{}", replica.listen)).env("MOONBRIDGE_TOKEN_FILE", &path(&token))),
    ] {
        let ran = cli.run(&["node", "list"]).await;
        assert_eq!(ran.code, 3, "{who}: {ran:?}");
    }
    let wrong = files.path().join("wrong");
    std::fs::write(&wrong, "guess\n").expect("a file");
    let ran = with(&authority.ca, &admin.cert, &admin.key).env("MOONBRIDGE_TOKEN_FILE", &path(&wrong)).run(&["node", "list"]).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!ran.said().contains("a-long-secret"));

    let config = format!(
        "control = [\"{url}\"]\ntoken_file = {token:?}\n[control_tls]\nca = {:?}\ncert = {:?}\nkey = {:?}\n",
        authority.ca, node.cert, node.key
    );
    let edge = Plane::node("edge", &config).await;
    cli.until(&["node", "list"], |rows| rows.len() == 1).await;
    let mut player = Player::join(Kind::Npm, edge.listen.port(), "Alice", json!({}));
    player.in_world().await;
    one.joined("Alice").await;
    cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    for process in [&replica.process, &edge.process] {
        assert!(!process.lines().iter().any(|line| line.contains("a-long-secret")), "secrets are never logged");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_is_for_loopback_only_unless_allowed() {
    let files = folder();
    let store = format!("[store.embedded]\ndata_dir = {:?}\n", files.path().join("store"));
    let file = files.path().join("config.toml");
    let start = |config: String| {
        std::fs::write(&file, config).expect("a file");
        let mut command = moonbridge_testing::network::command(files.path());
        command.args(["controlplane", "--config"]).arg(&file);
        Process::start("controlplane", command)
    };
    let mut refused = start(format!("listen = \"0.0.0.0:0\"\n{store}"));
    assert_eq!(refused.ended(SOON).await, 2, "{}", refused.log());
    assert!(refused.log().contains("allow_insecure_control"), "{}", refused.log());
    let allowed = start(format!("listen = \"0.0.0.0:0\"\nallow_insecure_control = true\n{store}"));
    allowed.line("its address", |line| line.contains("connect to").then_some(())).await;
}
