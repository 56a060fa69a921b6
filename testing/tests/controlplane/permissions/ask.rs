//! Asking, searching, watching, and what nodes are sent.

use moonbridge_proto::v1::control_message::Message as Down;
use moonbridge_proto::v1::watch_response::Change;
use moonbridge_proto::v1::{self, CommandState, PermissionAnswer};
use tempfile::tempdir;
use tonic::{Code, Streaming};

use super::{
    ADA, BOB, change_group, change_user, check, client, context, create_group, in_world, node, on_both_stores, set, set_track, track, unset,
};
use crate::support::{Hello, Replica, eventually, refused, session, soon};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_with_its_way_its_contexts_and_its_end() {
    on_both_stores(async |mut one, mut two| {
        for name in ["mod", "base"] {
            create_group(&mut one, name).await;
        }
        let later = 4_000_000_000;
        let base = [set(node("a.*", true)), set(node("prefix.5.base ", true)), set(node("meta.home.3", true))];
        one.change_group(change_group("base", base)).await.expect("changed");
        let parent = v1::PermissionNode { expiry: later, ..node("group.base", true) };
        one.change_group(change_group("mod", [set(parent), set(in_world(node("a.b", false), "games"))])).await.expect("changed");
        one.change_user(change_user(ADA, [set(node("group.mod", true))])).await.expect("changed");

        let ask = |contexts, exact_contexts| v1::CheckRequest {
            player: ADA.to_owned(),
            permissions: vec!["a.b".to_owned(), "c".to_owned()],
            contexts,
            exact_contexts,
        };
        let answer = two.check(ask(vec![context("World", "Lobby")], false)).await.expect("an answer").into_inner();
        assert_eq!(answer.answers().collect::<Vec<_>>(), [PermissionAnswer::True, PermissionAnswer::Undefined]);
        assert_eq!(answer.contexts, [context("server", "proxy"), context("world", "lobby")]);
        assert_eq!((answer.valid_until, answer.primary_group.as_str()), (later, "mod"));
        assert_eq!((answer.prefix.as_str(), answer.meta.get("home").map(String::as_str)), ("base ", Some("3")));
        let exact = two.check(ask(vec![context("world", "games")], true)).await.expect("an answer").into_inner();
        assert_eq!((exact.answers().next(), exact.contexts), (Some(PermissionAnswer::False), vec![context("world", "games")]));
        assert!(two.check(ask(Vec::new(), true)).await.expect("an answer").into_inner().contexts.is_empty());

        let question = v1::ExplainRequest { player: ADA.to_owned(), permission: "a.b".to_owned(), contexts: vec![], exact_contexts: false };
        let explained = two.explain(question).await.expect("an answer").into_inner();
        assert_eq!((explained.answer(), explained.matched_by.as_str()), (PermissionAnswer::True, "wildcard"));
        assert_eq!(explained.node, Some(node("a.*", true)));
        assert_eq!(explained.path, [format!("user {ADA}"), "group mod".to_owned(), "group base".to_owned()]);
        assert_eq!(
            (explained.others[0].why.as_str(), explained.others[0].node.clone()),
            ("context", Some(in_world(node("a.b", false), "games")))
        );
        assert_eq!(explained.holders[..3], [format!("user {ADA}"), "group mod".to_owned(), "group base".to_owned()]);

        let none = v1::CheckRequest { player: ADA.to_owned(), ..v1::CheckRequest::default() };
        refused(two.check(none).await, Code::InvalidArgument, &["permissions"]);
        let long = |bytes: usize| v1::CheckRequest { permissions: vec!["a".to_owned(), "x".repeat(bytes)], ..ask(Vec::new(), false) };
        two.check(long(256)).await.expect("an answer");
        refused(two.check(long(257)).await, Code::InvalidArgument, &["permissions[1]", "256"]);
        // More than one piece of work.
        let many = (0..250).map(|index| if index == 217 { "a.b" } else { "none" }.to_owned()).collect();
        let many = v1::CheckRequest { permissions: many, ..ask(Vec::new(), false) };
        let answers: Vec<_> = two.check(many).await.expect("an answer").into_inner().answers().collect();
        assert_eq!((answers.len(), answers.iter().position(|answer| *answer == PermissionAnswer::True)), (250, Some(217)));
        let mut settings = one.get_permission_settings(v1::GetPermissionSettingsRequest {}).await.expect("settings").into_inner();
        settings.apply_wildcards = Some(false);
        one.set_permission_settings(v1::SetPermissionSettingsRequest { settings: Some(settings.clone()), expected: None })
            .await
            .expect("set");
        assert_eq!(check(&mut two, ADA, "a.b", vec![]).await, PermissionAnswer::Undefined);
        assert_eq!(two.get_permission_settings(v1::GetPermissionSettingsRequest {}).await.expect("settings").into_inner(), settings);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_finds_all_who_have_a_say_of_their_own() {
    on_both_stores(async |mut one, mut two| {
        create_group(&mut one, "mod").await;
        one.change_group(change_group("mod", [set(node("a.*", true)), set(node("b", true))])).await.expect("changed");
        one.change_user(change_user(ADA, [set(in_world(node("a.b", false), "x")), set(node("group.mod", true))])).await.expect("changed");
        one.change_user(change_user(BOB, [set(node(r"r=a\.[bc]", true)), set(node("a", true))])).await.expect("changed");
        let result = |holder: &str, key: &str, by: &str| (holder.to_owned(), key.to_owned(), by.to_owned());
        let expected = [
            result("group mod", "a.*", "wildcard"),
            result(&format!("user {ADA}"), "a.b", "exact"),
            result(&format!("user {BOB}"), r"r=a\.[bc]", "regex"),
        ];
        assert_eq!(search(&mut two, "A.b").await, expected);
        // What everybody has without a node of their own is nobody's own.
        assert_eq!(search(&mut two, "group.default").await, [result(&format!("user {ADA}"), "group.default", "exact")]);
        let many = (0..150).map(|index| set(in_world(node("c.*", true), &format!("w{index}"))));
        one.change_group(change_group("mod", many)).await.expect("changed");
        assert_eq!(search(&mut two, "c.d").await.len(), 150);
    })
    .await;
}

async fn search(client: &mut super::Client, permission: &str) -> Vec<(String, String, String)> {
    let mut stream = client.search(v1::SearchRequest { permission: permission.to_owned() }).await.expect("a search").into_inner();
    let mut found = Vec::new();
    while let Some(result) = soon("a result", stream.message()).await.expect("no error") {
        found.push((result.holder, result.node.expect("a node").key, result.matched_by));
    }
    found
}

async fn next(watch: &mut Streaming<v1::WatchResponse>) -> Change {
    let response = soon("a change", watch.message()).await.expect("no error").expect("a change");
    assert!(response.revision > 0);
    response.change.expect("a change")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_every_change_in_order_until_it_ends() {
    on_both_stores(async |mut one, mut two| {
        let mut all = two.watch(v1::WatchRequest::default()).await.expect("a watch").into_inner();
        let mut bob = two.watch(v1::WatchRequest { players: vec![BOB.to_owned()] }).await.expect("a watch").into_inner();
        assert!(matches!(next(&mut all).await, Change::Stands(_)) && matches!(next(&mut bob).await, Change::Stands(_)));
        create_group(&mut one, "mod").await;
        assert!(matches!(next(&mut all).await, Change::Group(group) if group.name == "mod"));
        set_track(&mut one, "staff", &["mod"]).await;
        assert!(matches!(next(&mut all).await, Change::Track(seen) if seen == track("staff", &["mod"])));
        one.change_user(change_user(ADA, [set(node("a", true))])).await.expect("changed");
        assert!(matches!(next(&mut all).await, Change::User(user) if user.uuid == ADA && user.nodes == [node("a", true)]));
        one.change_user(change_user(ADA, [unset("a")])).await.expect("changed");
        assert!(matches!(next(&mut all).await, Change::RemovedUser(uuid) if uuid == ADA));
        one.change_user(change_user(BOB, [set(node("b", true))])).await.expect("changed");
        assert!(matches!(next(&mut all).await, Change::User(user) if user.uuid == BOB));
        one.delete_group(v1::DeleteGroupRequest { name: "mod".to_owned(), expected_revision: None }).await.expect("deleted");
        // Both in one revision.
        let both = [next(&mut all).await, next(&mut all).await];
        assert!(both.iter().any(|change| matches!(change, Change::RemovedGroup(name) if name == "mod")), "{both:?}");
        assert!(both.iter().any(|change| matches!(change, Change::Track(seen) if seen.groups.is_empty())), "{both:?}");
        let header = v1::import_request::Part::Header(v1::ImportHeader { replace: true, ..v1::ImportHeader::default() });
        one.import(tokio_stream::iter([v1::ImportRequest { part: Some(header) }])).await.expect("imported");
        assert!(matches!(next(&mut all).await, Change::Imported(_)));
        // Changes of the new generation are told, too.
        one.change_user(change_user(BOB, [set(node("c", true))])).await.expect("changed");
        assert!(matches!(next(&mut all).await, Change::User(user) if user.nodes == [node("c", true)]));
        // Who watches one user is told of it, and of all groups and tracks.
        let mut users = Vec::new();
        while users.len() < 2 {
            match next(&mut bob).await {
                Change::User(user) => users.push(user),
                Change::RemovedUser(uuid) => panic!("{uuid} is not watched"),
                _ => {}
            }
        }
        assert!(users.iter().all(|user| user.uuid == BOB), "{users:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_sent_groups_and_not_what_an_import_is_still_writing() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut client = client(&replica).await;
    create_group(&mut client, "mod").await;
    let mut edge = Hello::new("edge").attach(&replica).await;
    let Down::Snapshot(snapshot) = edge.push().await else { panic!("a snapshot") };
    assert_eq!(snapshot.permission_groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["mod"]);
    edge.send(v1::node_message::Message::Ack(snapshot.revision.clone().expect("a revision"))).await;
    // A user is no part of it.
    client.change_user(change_user(ADA, [set(node("a", true))])).await.expect("changed");
    client.change_group(change_group("mod", [set(node("b", true))])).await.expect("changed");
    let Down::Delta(delta) = edge.push().await else { panic!("a delta") };
    assert_eq!(delta.from, snapshot.revision);
    assert_eq!(delta.set_permission_groups, [v1::PermissionGroup { name: "mod".to_owned(), nodes: vec![node("b", true)] }]);
    edge.send(v1::node_message::Message::Ack(delta.to.clone().expect("a revision"))).await;
    let group = v1::permission_record::Record::Group(v1::PermissionGroup { name: "new".to_owned(), nodes: Vec::new() });
    let batch = v1::ImportBatch { records: vec![v1::PermissionRecord { record: Some(group) }] };
    let header = v1::ImportHeader { replace: true, ..v1::ImportHeader::default() };
    let parts = [v1::import_request::Part::Header(header), v1::import_request::Part::Batch(batch)];
    client.import(tokio_stream::iter(parts.map(|part| v1::ImportRequest { part: Some(part) }))).await.expect("imported");
    let Down::Delta(imported) = edge.push().await else { panic!("a delta") };
    assert_eq!(imported.from, delta.to, "nothing of the import was pushed before");
    assert_eq!((imported.set_permission_groups.len(), imported.removed_permission_groups), (1, vec!["mod".to_owned()]));
    // What a replica starts with is the same.
    replica.stop().await;
    let replica = Replica::embedded(folder.path()).await;
    let mut edge = Hello { held: imported.to.clone(), ..Hello::new("edge") }.attach(&replica).await;
    let mut client = super::client(&replica).await;
    client.change_group(change_group("new", [set(node("c", true))])).await.expect("changed");
    let Down::Delta(delta) = edge.push().await else { panic!("a delta from what the node holds") };
    assert_eq!(delta.from, imported.to);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_answers_for_itself() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut client = client(&replica).await;
    let mut edge = Hello::new("edge").sessions([session("Ann", "lobby")]).attach(&replica).await;
    let ask = v1::CheckSessionRequest { player: "ann".to_owned(), permission: "a.b".to_owned() };
    let mut asking = client.clone();
    let asked = tokio::spawn(async move { asking.check_session(ask).await });
    let command = edge.command().await;
    let Some(v1::command::Action::Check(action)) = &command.action else { panic!("{command:?}") };
    assert_eq!((action.player.as_str(), action.permission.as_str()), ("Ann", "a.b"));
    let result = v1::CommandResult { reason: "ok".to_owned(), answer: PermissionAnswer::False.into(), ..v1::CommandResult::default() };
    let update = v1::CommandUpdate { id: command.id.clone(), state: CommandState::Succeeded.into(), result: Some(result) };
    edge.send(v1::node_message::Message::Command(update)).await;
    let answer = soon("the answer", asked).await.expect("no panic").expect("an answer").into_inner();
    assert_eq!(answer.result.map(|result| result.answer()), Some(PermissionAnswer::False));
    let nobody = v1::CheckSessionRequest { player: "Nobody".to_owned(), permission: "a".to_owned() };
    refused(client.check_session(nobody).await, Code::NotFound, &["Nobody"]);
    // An online player is asked for where it is.
    client.change_user(change_user("Ann", [set(in_world(node("a", true), "lobby"))])).await.expect("changed");
    let there = eventually("Ann at the lobby", async || Some(check(&mut client, "Ann", "a", vec![]).await)).await;
    assert_eq!(there, PermissionAnswer::True);
    assert_eq!(check(&mut client, "Ann", "a", vec![context("world", "other")]).await, PermissionAnswer::Undefined);
}
