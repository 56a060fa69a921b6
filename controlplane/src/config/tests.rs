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
        etcd = { endpoints = ["a:2379", "https://b"], user = "u" }
        [settings]
        max_players = -1
    "#;
    let mistakes = mistakes(text);
    for field in [
        "lisen: unknown field; did you mean \"listen\"?",
        "lease: expected",
        "token: unknown field",
        "store.etcd: expected either",
        "store.etcd.endpoints[0]: expected a URL",
        "store.etcd.endpoints[1]: https://b needs",
        "store.etcd.password_file: missing",
        "settings.max_players: expected",
    ] {
        assert!(mistakes.iter().any(|mistake| mistake.starts_with(field)), "{field} not in {mistakes:#?}");
    }
    assert_eq!(mistakes.len(), 8, "{mistakes:#?}");
}

#[test]
fn a_store_table_must_name_a_store_and_plaintext_is_for_loopback_only() {
    assert_eq!(mistakes("[store]").len(), 1);
    assert!(mistakes("listen = \"0.0.0.0:1\"")[0].starts_with("listen: "));
    assert!(Config::parse("listen = \"0.0.0.0:1\"\nallow_insecure_control = true").is_ok());
}
