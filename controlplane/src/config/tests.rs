use super::*;

fn mistakes(text: &str) -> Vec<String> {
    Config::parse(text).map_err(|errors| errors.0.iter().map(ToString::to_string).collect()).expect_err("a mistake")
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = Config::parse("").expect("valid");
    assert_eq!(config.listen.to_string(), "127.0.0.1:25590");
    assert_eq!(config.lease, Duration::from_secs(10));
    assert_eq!(config.store, StoreConfig::Embedded { data_dir: "/var/lib/moonbridge".into() });
    assert!(!config.name.is_empty() && config.token.is_none() && config.settings.is_none());
}

#[test]
fn every_field_is_read() {
    let text = r#"
        name = "cp-1"
        listen = "0.0.0.0:25590"
        tls = { cert = "c.pem", key = "k.pem", client_ca = "ca.pem" }
        token_file = "/etc/moonbridge/token"
        lease = "15s"

        [store.etcd]
        endpoints = ["https://a:2379", "https://b:2379"]
        prefix = "/games/"
        tls = { ca = "etcd-ca.pem" }
        user = "moonbridge"
        password_file = "/etc/moonbridge/etcd-password"

        [settings]
        motd = "Hi"
        max_players = 7
        favicon = "icon.png"
        duplicate_login = "refuse"

        [telemetry]
        otlp_endpoint = "http://127.0.0.1:4317"
    "#;
    let config = Config::parse(text).expect("valid");
    assert_eq!((config.name.as_str(), config.listen.port(), config.lease), ("cp-1", 25590, Duration::from_secs(15)));
    assert_eq!(config.tls.and_then(|tls| tls.client_ca), Some("ca.pem".into()));
    assert_eq!(config.token_file, Some("/etc/moonbridge/token".into()));
    let endpoints = vec!["https://a:2379".to_owned(), "https://b:2379".to_owned()];
    assert_eq!(config.store, StoreConfig::Etcd { endpoints, prefix: "/games/".to_owned() });
    assert_eq!(config.etcd.user.as_deref(), Some("moonbridge"));
    assert_eq!(config.etcd.tls.and_then(|tls| tls.ca), Some("etcd-ca.pem".into()));
    let settings = config.settings.expect("settings");
    assert_eq!((settings.motd.as_deref(), settings.max_players, settings.favicon), (Some("Hi"), Some(7), Some("icon.png".into())));
    assert_eq!(settings.duplicate_login, Some(moonbridge_proto::snapshot::DuplicateLogin::Refuse));
    assert_eq!(config.telemetry.otlp_endpoint.as_deref(), Some("http://127.0.0.1:4317"));
}

#[test]
fn every_mistake_is_reported_at_once_with_its_field() {
    let text = r#"
        lisen = "127.0.0.1:1"
        lease = "1s"
        token = "never in a file"
        [store]
        embedded = { data_dir = "/x" }
        etcd = { endpoints = ["a:2379", "https://b:2"], user = "u" }
        [settings]
        max_players = -1
        duplicate_login = "oldest"
    "#;
    let mistakes = mistakes(text);
    for field in [
        "lisen: unknown field; did you mean \"listen\"?",
        "lease: expected",
        "token: unknown field",
        "store.etcd: expected either",
        "store.etcd.endpoints[0]: expected a URL",
        "store.etcd.endpoints[1]: https://b:2 needs",
        "store.etcd.password_file: missing",
        "settings.max_players: expected",
        "settings.duplicate_login: expected",
    ] {
        assert!(mistakes.iter().any(|mistake| mistake.starts_with(field)), "{field} not in {mistakes:#?}");
    }
    assert_eq!(mistakes.len(), 9, "{mistakes:#?}");
}

#[test]
fn a_store_table_must_name_a_store_and_plaintext_is_for_loopback_only() {
    assert_eq!(mistakes("[store]").len(), 1);
    assert!(mistakes("listen = \"0.0.0.0:1\"")[0].starts_with("listen: "));
    assert!(Config::parse("listen = \"0.0.0.0:1\"\nallow_insecure_control = true").is_ok());
}

#[test]
fn plaintext_to_etcd_is_for_loopback_only_and_nonsense_is_no_url() {
    let with = |urls: &str, more: &str| format!("{more}\n[store]\netcd = {{ endpoints = [{urls}] }}");
    for url in ["http://127.0.0.1:2379", "http://[::1]:2379", "http://localhost:2379"] {
        assert!(Config::parse(&with(&format!("{url:?}"), "")).is_ok(), "{url}");
    }
    let far = with("\"http://127.0.0.1:2379\", \"http://10.0.0.11:2379\", \"http://etcd:2379\"", "");
    let found = mistakes(&far);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("store.etcd.endpoints[1]: http://10.0.0.11:2379 is plaintext"), "{found:?}");
    assert!(found[0].contains("allow_insecure_control = true"), "{found:?}");
    assert!(Config::parse(&far.replacen('\n', "allow_insecure_control = true\n", 1)).is_ok());
    for url in ["http://:::", "http://a b:1", "http://", "a:1", "http://h", "http://h:1/x", "ftp://h:1", "http://h:99999"] {
        let found = mistakes(&with(&format!("{url:?}"), "allow_insecure_control = true"));
        assert!(found.len() == 1 && found[0].starts_with("store.etcd.endpoints[0]: expected a URL"), "{url}: {found:?}");
    }
}

#[test]
fn every_file_that_cannot_be_used_is_reported_at_once_with_its_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let tls = ServerTls { cert: file("cert", b"no PEM"), key: folder.path().join("missing"), client_ca: None };
    let icon = SettingsConfig { favicon: Some(file("icon", b"no PNG")), ..SettingsConfig::default() };
    let config = Config {
        token_file: Some(file("token", b" ")),
        tls: Some(tls),
        store: StoreConfig::Embedded { data_dir: file("data", b"") },
        etcd: EtcdAccess { tls: Some(ClientTls::default()), password_file: Some(folder.path().join("gone")), ..EtcdAccess::default() },
        settings: Some(icon),
        ..Config::default()
    };
    let found: Vec<_> = config.check_files().expect_err("mistakes").0.iter().map(ToString::to_string).collect();
    for (field, word) in [
        ("token_file: ", "is empty"),
        ("tls.cert: ", "CERTIFICATE"),
        ("tls.key: ", "cannot be read"),
        ("store.embedded.data_dir: ", "expected a folder"),
        ("store.etcd.password_file: ", "cannot be read"),
        ("store.etcd.tls: ", "give ca"),
        ("settings.favicon: ", "expected a PNG"),
    ] {
        assert!(found.iter().any(|mistake| mistake.starts_with(field) && mistake.contains(word)), "{field} not in {found:#?}");
    }
    assert_eq!(found.len(), 7, "{found:#?}");
    // A folder that is yet to be made is none.
    let new = StoreConfig::Embedded { data_dir: folder.path().join("new/store") };
    assert!(Config { store: new, ..Config::default() }.check_files().is_ok());
}
