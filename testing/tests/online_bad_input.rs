//! Online mode among liars: each is told what is wrong, in bounded time, nobody else notices, and no secret is in the log.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::future::join_all;
use moonbridge_protocol::frame;
use moonbridge_testing::network::{Plane, Up, dead_port, folder};
use moonbridge_testing::peer::{Backend, Kind, Player, Served};
use moonbridge_testing::process::SOON;
use moonbridge_testing::session_server::{Account, Answer, CANARY, SessionServer};
use moonbridge_testing::wire::online::{Request, decrypted, new_secret, response};
use moonbridge_testing::wire::{self, Ending, Wire};
use serde_json::{Value, json};
use tempfile::TempDir;

/// `[session_server] timeout` and `[timeouts] login` of most nodes here.
const SHORT: &str = "timeout = \"2s\"\n[timeouts]\nlogin = \"8s\"\n";

/// From the beginning of a login to its end, at the latest: `login`, the time to read why, and a busy machine.
const BOUND: Duration = Duration::from_secs(30);

/// A node in online mode, and what a test measures damage by: a player who plays on.
struct Net {
    sessions: SessionServer,
    node: Plane,
    _replica: Plane,
    backend: Backend,
    bystander: Player,
    secrets: Secrets,
    lines: usize,
    _data: TempDir,
}

impl Net {
    /// With this behind `[session_server]` and its URL in the node's configuration.
    async fn start(server: &str) -> Net {
        let sessions = SessionServer::start().await;
        let url = sessions.url();
        Net::asking(sessions, &url, server, true).await
    }

    async fn asking(sessions: SessionServer, url: &str, server: &str, works: bool) -> Net {
        let (mut backend, port) = Backend::serve(Kind::Npm, "one", json!({})).await;
        let data = folder();
        let replica = Plane::replica("only", &format!("[store.embedded]\ndata_dir = \"{}\"\n", data.path().join("store").display())).await;
        replica.cli().ok(&["backend", "set", "one", "--address", &format!("127.0.0.1:{port}"), "--forwarding", "legacy"]).await;
        replica.cli().ok(&["route", "set", "*", "--backends", "one"]).await;
        let config = format!("control = [\"{}\"]\nauthentication = \"online\"\n[session_server]\nurl = \"{url}\"\n{server}", replica.url());
        let node = Plane::start("dataplane", "edge", &config, &[("RUST_LOG", "debug")]).await;
        let secrets = Secrets::default();
        let account = sessions.account("Bystander");
        secrets.add_account(&account);
        let mut bystander = Player::join(Kind::Npm, node.listen.port(), "Bystander", sessions.online(&account));
        if works {
            bystander.in_world().await;
            backend.joined("Bystander").await;
        }
        Net { sessions, node, _replica: replica, backend, bystander, secrets, lines: 0, _data: data }
    }

    fn account(&self, name: &str) -> Account {
        let account = self.sessions.account(name);
        self.secrets.add_account(&account);
        account
    }

    /// A raw player up to its Encryption Request, and the secret that it will share.
    async fn begin(&self, name: &str) -> (Wire, Request, [u8; 16]) {
        let (player, request) =
            Wire::begin_online(self.node.listen, "localhost", name).await.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let secret = new_secret();
        self.secrets.add("a shared secret", &secret);
        self.secrets.add("a verify token", &request.token);
        self.secrets.add_text("a server hash", &request.hash(&secret));
        (player, request, secret)
    }

    /// A raw player that has joined and sent a good response.
    async fn respond(&self, account: &Account) -> (Wire, Request, [u8; 16]) {
        let (mut player, request, secret) = self.begin(&account.name).await;
        self.sessions.join(account, &request.hash(&secret));
        player.answer(&request, &secret).await.expect("it reads");
        (player, request, secret)
    }

    /// The bystander's line goes up and comes down; returns how long that took.
    async fn talks(&mut self) -> Duration {
        let started = Instant::now();
        self.lines += 1;
        let line = format!("line {}", self.lines);
        self.bystander.say(&line).await;
        self.backend.chat(&line).await;
        self.backend.command("chat", json!({ "text": line, "player": "Bystander" })).await;
        self.bystander.chat(&line).await;
        started.elapsed()
    }

    /// Nobody was hurt, nobody was let in, nothing panicked, nothing leaked.
    async fn well(mut self, let_in: &[&str]) {
        self.talks().await;
        self.bystander.assert_well();
        let came: BTreeSet<String> = self
            .backend
            .all()
            .iter()
            .filter_map(|served| if let Served::LoginStart { name, .. } = served { Some(name.clone()) } else { None })
            .collect();
        assert_eq!(came, let_in.iter().copied().chain(["Bystander"]).map(str::to_owned).collect(), "who came through to the backend");
        self.node.process.terminate();
        assert_eq!(self.node.process.ended(SOON).await, 0);
        let lines = self.node.process.lines();
        assert!(lines.iter().any(|line| line.contains("DEBUG")), "the log is told to say more than it usually does");
        assert!(lines.iter().any(|line| line.contains("Bystander")), "and to name players");
        self.secrets.check(&lines);
    }
}

/// What must not be in a log, in any form.
#[derive(Default)]
struct Secrets(Mutex<Vec<(&'static str, String)>>);

impl Secrets {
    fn add(&self, what: &'static str, bytes: &[u8]) {
        use base64::Engine as _;
        use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{bytes:?}");
        for form in [hex.to_uppercase(), hex, BASE64_STANDARD_NO_PAD.encode(bytes), BASE64_URL_SAFE_NO_PAD.encode(bytes), list] {
            self.add_text(what, form.trim_matches(['[', ']']));
        }
    }

    fn add_text(&self, what: &'static str, text: &str) {
        self.0.lock().expect("no panic").push((what, text.to_owned()));
    }

    fn add_account(&self, account: &Account) {
        self.add_text("an access token", &account.access_token);
        for property in &account.properties {
            self.add_text("a skin", &property.value);
            self.add_text("a signature", property.signature.as_deref().expect("signed"));
        }
    }

    fn check(&self, lines: &[String]) {
        let mut secrets = self.0.lock().expect("no panic").clone();
        secrets.push(("the session server's own words", CANARY.to_owned()));
        let leak = |line: &String| secrets.iter().find(|(_, secret)| line.contains(secret.as_str())).map(|(what, _)| *what);
        for line in lines {
            assert!(!line.contains("panicked"), "{line}");
            assert_eq!(leak(line), None, "{line}");
        }
        // And this would be found.
        let (what, secret) = &secrets[0];
        assert_eq!(leak(&format!("secret={secret}")), Some(*what));
    }
}

/// In which form a player who is turned away can read why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Plainly,
    Encrypted,
    /// Plainly or, since nobody knows under which secret, not at all.
    IfReadable,
}

/// Waits for the end, and for this in the reason.
async fn turned_away(what: &str, player: &mut Wire, secret: &[u8; 16], told: Told, reason: &str) {
    let Ending::Closed(bytes) = player.ending(BOUND).await else { panic!("{what}: still open") };
    let (plain, encrypted) = (wire::reason(&bytes), wire::reason(&decrypted(secret, &bytes)));
    let (read, other) = match told {
        Told::Plainly => (plain, encrypted),
        Told::Encrypted => (encrypted, plain),
        Told::IfReadable => (plain.or_else(|| Some(reason.to_owned())), None),
    };
    let read = read.unwrap_or_else(|| panic!("{what}: no reason, {told:?}, in {bytes:?} (otherwise read: {other:?})"));
    assert!(read.contains(reason), "{what}: {read:?} is not {reason:?}");
}

fn framed(id: i32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, id, |out| out.extend_from_slice(payload));
    out
}

/// `length` bytes that nobody could have encrypted.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// Everything that may come in place of an Encryption Response: what goes over the wire, how it is answered.
fn wrong_responses(request: &Request, secret: &[u8; 16]) -> Vec<(&'static str, Vec<u8>, Told, &'static str)> {
    use Told::{IfReadable, Plainly};
    const TOKEN: &str = "verify token";
    const SECRET: &str = "16 bytes";
    const UNREADABLE: &str = "cannot be read";
    let good = (request.seal(secret), request.seal(&request.token));
    let mut other = request.token.clone();
    other[3] ^= 1;
    let blocks = |secret: &[u8], token: &[u8]| framed(1, &response(secret, token));
    let mut cases = vec![
        ("another token", blocks(&good.0, &request.seal(&other)), Told::Encrypted, TOKEN),
        ("an empty token", blocks(&good.0, &request.seal(&[])), Plainly, TOKEN),
        ("half of the token", blocks(&good.0, &request.seal(&request.token[..2])), Plainly, TOKEN),
        ("the token twice", blocks(&good.0, &request.seal(&request.token.repeat(2))), Plainly, TOKEN),
        ("the token in the open", blocks(&good.0, &request.token), Plainly, TOKEN),
        ("the secret in the token's place", blocks(&good.1, &good.0), Plainly, TOKEN),
        ("noise for a token", blocks(&good.0, &noise(128)), IfReadable, TOKEN),
        ("noise", blocks(&noise(128), &noise(128)), IfReadable, TOKEN),
        ("noise for a secret", blocks(&noise(128), &good.1), IfReadable, SECRET),
        ("zeros for a secret", blocks(&[0; 128], &good.1), IfReadable, SECRET),
        ("more than the modulus for a secret", blocks(&[0xff; 128], &good.1), IfReadable, SECRET),
        ("the secret in the open", blocks(secret, &good.1), Plainly, SECRET),
        ("a negative length", framed(1, &[0xff, 0xff, 0, 0]), Plainly, UNREADABLE),
        ("a length beyond the frame", framed(1, &[0x00, 0x80, 1, 2, 3]), Plainly, UNREADABLE),
        ("blocks of 257 bytes", blocks(&[7; 257], &[7; 257]), Plainly, UNREADABLE),
        ("nothing in it", framed(1, &[]), Plainly, UNREADABLE),
        ("one block alone", framed(1, &response(&good.0, &[])[..130]), Plainly, UNREADABLE),
        ("bytes behind it", framed(1, &[response(&good.0, &good.1), vec![0]].concat()), Plainly, UNREADABLE),
        ("much behind it", framed(1, &[response(&good.0, &good.1), vec![0; 100_000]].concat()), Plainly, UNREADABLE),
        ("another packet", framed(0x17, b"what"), Plainly, UNREADABLE),
        ("Login Start again", framed(0, &wire::string("Twice")), Plainly, UNREADABLE),
        ("a length that never ends", vec![0xff; 16], Plainly, UNREADABLE),
        ("nothing", Vec::new(), Plainly, "took too long"),
        ("half of it", blocks(&good.0, &good.1)[..100].to_vec(), Plainly, "took too long"),
    ];
    for length in [0, 1, 15, 17, 32, 117] {
        cases.push(("a secret of another length", blocks(&request.seal(&vec![0x5a; length]), &good.1), Plainly, SECRET));
    }
    for length in [0, 1, 127, 129, 256] {
        cases.push(("a secret's block of another length", blocks(&vec![0x5a; length], &good.1), IfReadable, SECRET));
        cases.push(("a token's block of another length", blocks(&good.0, &vec![0x5a; length]), IfReadable, TOKEN));
    }
    cases
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_encryption_response_is_told_and_closed() {
    let mut net = Net::start(SHORT).await;
    let count = {
        let (_, request, secret) = net.begin("Count").await;
        wrong_responses(&request, &secret).len()
    };
    let attempts = (0..count).map(|index| {
        let net = &net;
        async move {
            let name = format!("Liar{index}");
            let (mut player, request, secret) = net.begin(&name).await;
            // Whatever it sends, the session server would vouch for it.
            net.sessions.join(&net.account(&name), &request.hash(&secret));
            let (what, bytes, told, reason) = wrong_responses(&request, &secret).swap_remove(index);
            // It may be closed already while this is being written.
            let _ = player.write(&bytes).await;
            turned_away(what, &mut player, &secret, told, reason).await;
        }
    });
    join_all(attempts).await;
    // One that leaves in the middle, with a good response half written.
    let (mut player, request, secret) = net.begin("Leaver").await;
    player.write(&framed(1, &response(&request.seal(&secret), &request.seal(&request.token)))[..50]).await.expect("it reads");
    drop(player);
    net.talks().await;
    net.well(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_says_before_it_is_let_in_is_told_and_closed() {
    let mut net = Net::start(SHORT).await;
    for name in ["Second", "Plain", "Hasty", "Leaver"] {
        net.sessions.answer_for(name, Answer::Silence);
    }
    let (mut player, request, secret) = net.respond(&net.account("Second")).await;
    player.send(1, &response(&request.seal(&secret), &request.seal(&request.token))).await.expect("it reads");
    let Ending::Closed(bytes) = player.ending(BOUND).await else { panic!("still open") };
    let reason = wire::reason(&bytes).expect("a reason");
    assert!(reason.contains("second encryption response"), "{reason}");

    // It sends its response, and goes on in the open.
    let account = net.account("Plain");
    let (mut player, request, secret) = net.begin("Plain").await;
    net.sessions.join(&account, &request.hash(&secret));
    player.send(1, &response(&request.seal(&secret), &request.seal(&request.token))).await.expect("it reads");
    let line = framed(0x01, &wire::string("hello"));
    let _ = player.write(&line.repeat(4096 / line.len())).await;
    turned_away("a client that does not encrypt", &mut player, &secret, Told::Encrypted, "not encrypted as it should be").await;

    // Encrypted well, but nobody has asked.
    let (mut player, ..) = net.respond(&net.account("Hasty")).await;
    player.send(0x15, &wire::string("hello")).await.expect("it reads");
    let Ending::Closed(bytes) = player.ending(BOUND).await else { panic!("still open") };
    let reason = wire::reason(&bytes).expect("a reason");
    assert!(reason.contains("cannot be read"), "{reason}");

    let (player, ..) = net.respond(&net.account("Leaver")).await;
    drop(player);
    net.talks().await;
    net.well(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_encrypting_in_play_ends_its_session_alone() {
    let mut net = Net::start(SHORT).await;
    let account = net.account("Plain");
    let (mut player, request, secret) = net.begin("Plain").await;
    net.sessions.join(&account, &request.hash(&secret));
    player.send(1, &response(&request.seal(&secret), &request.seal(&request.token))).await.expect("it reads");
    net.backend.joined("Plain").await;
    // Of other bytes each time, since what repeats decrypts to what repeats: sooner or later a length that cannot be.
    let lines = framed(0x01, &wire::string("hello"));
    for _ in 0..1_000 {
        if player.write(&[lines.clone(), noise(64 * 1024)].concat()).await.is_err() {
            break;
        }
    }
    assert!(matches!(player.ending(SOON).await, Ending::Closed(_)), "still open");
    net.backend.left("Plain").await;
    net.talks().await;
    net.well(&["Plain"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encryption_response_in_offline_mode_is_told_and_closed() {
    let (mut backend, port) = Backend::serve(Kind::Npm, "one", json!({ "stall": "login" })).await;
    let up = Up::start(&["--backend", &format!("one=127.0.0.1:{port}")]).await;
    let unasked = response(&[1; 128], &[2; 128]);
    for in_place in [true, false] {
        let mut player = Wire::connect(up.listen).await.expect("it listens");
        player.handshake(5, "localhost", 2).await.expect("it reads");
        if !in_place {
            player.send(0, &wire::string("Alice")).await.expect("it reads");
            backend.expect("a login", |served| matches!(served, Served::LoginStart { .. }).then_some(())).await;
        }
        player.send(1, &unasked).await.expect("it reads");
        turned_away("an unasked response", &mut player, &[0; 16], Told::Plainly, "not asked for").await;
    }
    assert_eq!(up.stop().await, 0);
}

fn profile(account: &Account, change: impl FnOnce(&mut Value)) -> Answer {
    let mut profile = account.profile();
    change(&mut profile);
    Answer::Body(profile.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_session_server_does_the_player_is_told() {
    const NOT: &str = "You are not authenticated";
    const DOWN: &str = "authentication servers are down";
    const SLOW: &str = "down or very slow";
    const BUSY: &str = "busy";
    let net = Net::start(SHORT).await;
    let elsewhere = SessionServer::start().await;
    let once = |answer| Answer::Once(Box::new(answer));
    let other = net.account("Other");
    // Name, answer, what the player is told (nothing: let in), how often the server is asked.
    let cases: Vec<(&str, Answer, Option<&str>, usize)> = vec![
        ("Unknown", Answer::Status(204), Some(NOT), 1),
        ("Forbidden", Answer::Status(403), Some(NOT), 1),
        ("Empty", Answer::Body(String::new()), Some(NOT), 1),
        ("Busy", Answer::Status(429), Some(BUSY), 1),
        ("Broken", Answer::Status(500), Some(DOWN), 1),
        ("Gateway", Answer::Status(502), Some(DOWN), 2),
        ("Unavailable", Answer::Status(503), Some(DOWN), 2),
        ("Teapot", Answer::Status(418), Some(DOWN), 1),
        ("Silent", Answer::Silence, Some(SLOW), 1),
        ("Dripping", Answer::Drip, Some(SLOW), 1),
        ("Endless", Answer::Endless, Some(DOWN), 1),
        ("Closing", Answer::Close, Some(DOWN), 2),
        ("Resetting", Answer::Reset, Some(DOWN), 2),
        ("Elsewhere", Answer::Redirect(format!("{}/session/minecraft/hasJoined", elsewhere.url())), Some(DOWN), 1),
        ("WebPage", Answer::Body(format!("<html>{CANARY}</html>")), Some(DOWN), 1),
        ("Null", Answer::Body("null".to_owned()), Some(DOWN), 1),
        ("List", Answer::Body(format!("[\"{CANARY}\"]")), Some(DOWN), 1),
        ("Deep", Answer::Body("[".repeat(60_000)), Some(DOWN), 1),
        ("Somebody", profile(&other, |_| {}), Some("you joined as Somebody, but your account's name is Other"), 1),
        ("BadId", profile(&other, |profile| profile["id"] = json!(CANARY)), Some(DOWN), 1),
        ("NilId", profile(&other, |profile| profile["id"] = json!("0".repeat(32))), Some(DOWN), 1),
        ("NumberId", profile(&other, |profile| profile["id"] = json!(7)), Some(DOWN), 1),
        ("NoName", profile(&other, |profile| profile["name"] = json!("")), Some(DOWN), 1),
        ("OddName", profile(&other, |profile| profile["name"] = json!(format!("{CANARY}\n\u{a7}c"))), Some(DOWN), 1),
        ("Many", profile(&other, |profile| profile["properties"] = json!(vec![&other.properties[0]; 100])), Some(DOWN), 1),
        ("Fat", profile(&other, |profile| profile["properties"][0]["value"] = json!("x".repeat(50_000))), Some(DOWN), 1),
        ("Once503", once(Answer::Status(503)), None, 2),
        ("OnceClosed", once(Answer::Close), None, 2),
        ("OnceReset", once(Answer::Reset), None, 2),
        ("Bare", Answer::Body(json!({ "id": other.undashed(), "name": "Bare" }).to_string()), None, 1),
    ];
    let attempts = cases.iter().map(|(name, answer, told, times)| {
        let net = &net;
        async move {
            let account = net.account(name);
            net.sessions.answer_for(name, answer.clone());
            let (mut player, ..) = net.respond(&account).await;
            let began = Instant::now();
            match told {
                Some(wanted) => {
                    let Ending::Closed(bytes) = player.ending(BOUND).await else { panic!("{name}: still open") };
                    let reason = wire::reason(&bytes).unwrap_or_else(|| panic!("{name}: no reason in {bytes:?}"));
                    assert!(reason.contains(wanted), "{name}: {reason:?}");
                    assert!(!reason.contains(CANARY), "{name}: {reason:?}");
                    // Within the timeout of the session server, not of the login; and time to read it.
                    assert!(began.elapsed() < Duration::from_secs(8), "{name}: after {:?}", began.elapsed());
                }
                None => assert_eq!(player.receive().await.unwrap_or_else(|error| panic!("{name}: {error:#}")).0, 2, "{name}"),
            }
            assert_eq!(net.sessions.asked(name).len(), *times, "{name}");
            player
        }
    });
    let _players = join_all(attempts).await;
    assert_eq!(elsewhere.connections(), 0, "redirects are not followed");
    let let_in: Vec<&str> = cases.iter().filter(|(_, _, told, _)| told.is_none()).map(|(name, ..)| *name).collect();
    for name in &let_in {
        net.backend
            .eventually("the login", |served| matches!(served, Served::LoginStart { name: came, .. } if came == name).then_some(()))
            .await;
    }
    net.well(&let_in).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_server_that_cannot_be_reached_is_told() {
    let (_socket, port) = dead_port();
    let plain = SessionServer::start().await;
    let urls = [
        format!("http://127.0.0.1:{port}"),
        format!("https://127.0.0.1:{port}"),
        plain.url().replace("http:", "https:"),
        "https://no-such-host.invalid".to_owned(),
    ];
    let attempts = urls.iter().map(|url| async move {
        let mut net = Net::asking(SessionServer::start().await, url, SHORT, false).await;
        let (reason, phase) = net.bystander.kicked().await;
        assert!(reason.contains("authentication servers are down") && phase == "login", "{url}: {reason} in {phase}");
        net.bystander.end().await;
        let (mut player, ..) = net.respond(&net.account("Alice")).await;
        let Ending::Closed(bytes) = player.ending(BOUND).await else { panic!("{url}: still open") };
        assert!(wire::reason(&bytes).is_some_and(|reason| reason.contains("authentication servers are down")), "{url}");
        net.secrets.check(&net.node.process.lines());
    });
    join_all(attempts).await;
    assert!(plain.requests().is_empty());
}

/// Logs in, and says how long that took.
async fn comes_and_plays(address: SocketAddr, sessions: &SessionServer, account: &Account) -> Duration {
    let began = Instant::now();
    Wire::join_online(address, sessions, account).await.unwrap_or_else(|error| panic!("{}: {error:#}", account.name));
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_logins_that_hang_hold_nobody_up() {
    const HUNG: usize = 50;
    // The server's own patience, so that they hang for as long as this test takes.
    let mut net = Net::start("timeout = \"60s\"\n[timeouts]\nlogin = \"60s\"\n").await;
    let mut hung = Vec::new();
    for index in 0..HUNG {
        let account = net.account(&format!("Hung{index}"));
        net.sessions.answer_for(&account.name, Answer::Silence);
        hung.push(net.respond(&account).await);
        // As many that say nothing to the request, and more than one worker has cores.
        hung.push(net.begin(&format!("Mute{index}")).await);
    }
    let asked = |requests: &[moonbridge_testing::session_server::Request]| {
        requests.iter().filter(|request| request.value("username").is_some_and(|name| name.starts_with("Hung"))).count() == HUNG
    };
    net.sessions.until("fifty questions", asked).await;
    // And a flood of noise for the key.
    let mut flood = Vec::new();
    for index in 0..100 {
        let (mut player, ..) = net.begin(&format!("Noise{index}")).await;
        player.send(1, &response(&noise(128), &noise(128))).await.expect("it reads");
        flood.push(player);
    }
    let mut names = Vec::new();
    for index in 0..8 {
        let name = format!("Good{index}");
        let account = net.account(&name);
        let took = comes_and_plays(net.node.listen, &net.sessions, &account).await;
        assert!(took < Duration::from_secs(5), "{took:?} to log in beside {HUNG} that hang");
        let took = net.talks().await;
        assert!(took < Duration::from_secs(5), "{took:?} for a line beside {HUNG} that hang");
        names.push(name);
    }
    net.well(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_place_at_the_session_server_waits_no_longer_than_allowed() {
    let net = Net::start(&format!("concurrency = 2\n{SHORT}")).await;
    let silent = |name: String| {
        let account = net.account(&name);
        net.sessions.answer_for(&name, Answer::Silence);
        account
    };
    // Two take both places, the others wait for one; each is told in time.
    let waiting = (0..6).map(|index| {
        let (net, account) = (&net, silent(format!("Hung{index}")));
        async move {
            let (mut player, ..) = net.respond(&account).await;
            let Ending::Closed(bytes) = player.ending(BOUND).await else { panic!("still open") };
            let reason = wire::reason(&bytes).expect("a reason");
            assert!(reason.contains("down or very slow"), "{reason}");
        }
    });
    join_all(waiting).await;
    comes_and_plays(net.node.listen, &net.sessions, &net.account("After")).await;

    // Whoever hangs up makes room at once.
    let mut leaving = Vec::new();
    for index in 6..8 {
        leaving.push(net.respond(&silent(format!("Hung{index}"))).await);
    }
    net.sessions
        .until("both places taken", |requests| {
            requests.iter().filter(|request| matches!(request.value("username"), Some("Hung6" | "Hung7"))).count() == 2
        })
        .await;
    drop(leaving);
    let took = comes_and_plays(net.node.listen, &net.sessions, &net.account("Next")).await;
    assert!(took < Duration::from_millis(1_900), "{took:?}: a place is given back when its player has left, not when its time is over");
    net.well(&["After", "Next"]).await;
}
