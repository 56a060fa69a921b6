//! Importing and exporting.

use std::time::Duration;

use moonbridge_proto::v1::import_request::Part;
use moonbridge_proto::v1::permission_edit::Edit;
use moonbridge_proto::v1::permission_record::Record;
use moonbridge_proto::v1::{self, PermissionAnswer};
use moonbridge_testing::etcd::Etcd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Response, Status};
use uuid::Uuid;

use super::{
    ADA, BOB, Client, change_group, change_user, check, client, create_group, generations, keys_of, node, on_both_stores, on_etcd, set,
    set_track, store_of, track, user,
};
use crate::support::{eventually, refused, soon};

fn header(replace: bool) -> v1::ImportHeader {
    v1::ImportHeader { dry_run: false, replace, source: "a test".to_owned() }
}

async fn import(client: &mut Client, header: v1::ImportHeader, records: Vec<Record>) -> Result<Response<v1::ImportResponse>, Status> {
    let records: Vec<_> = records.into_iter().map(|record| v1::PermissionRecord { record: Some(record) }).collect();
    let batches: Vec<_> = records.chunks(500).map(|records| Part::Batch(v1::ImportBatch { records: records.to_vec() })).collect();
    let parts = std::iter::once(Part::Header(header)).chain(batches);
    let messages: Vec<_> = parts.map(|part| v1::ImportRequest { part: Some(part) }).collect();
    client.import(tokio_stream::iter(messages)).await
}

fn a_group(name: &str, keys: &[&str]) -> Record {
    Record::Group(v1::PermissionGroup { name: name.to_owned(), nodes: keys.iter().map(|key| node(key, true)).collect() })
}

fn a_user(uuid: &str, name: &str, keys: &[&str]) -> Record {
    let nodes = keys.iter().map(|key| node(key, true)).collect();
    Record::User(v1::PermissionUser { uuid: uuid.to_owned(), username: name.to_owned(), primary_group: String::new(), nodes })
}

/// Many users, sorted.
fn many(count: u128, keys: &[&str]) -> Vec<Record> {
    (1..=count).map(|index| a_user(&Uuid::from_u128(index << 64).to_string(), &format!("many{index}"), keys)).collect()
}

async fn exported(client: &mut Client) -> Vec<Record> {
    let mut stream = client.export(v1::ExportRequest {}).await.expect("an export").into_inner();
    let mut records = Vec::new();
    while let Some(record) = soon("a record", stream.message()).await.expect("no error") {
        records.extend(record.record);
    }
    records
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_what_was_imported_and_is_in_force_at_once() {
    on_both_stores(async |mut one, mut two| {
        create_group(&mut one, "old").await;
        one.change_user(change_user(BOB, [set(node("group.old", true))])).await.expect("changed");
        let mut records = vec![
            a_group("default", &["all"]),
            a_group("mod", &["group.default", "a.*", "weight.50", r"prefix.50.&a[Mod\.] "]),
            Record::Track(track("staff", &["default", "mod", "gone"])),
        ];
        records.extend(many(1_300, &["group.mod", "r=x[0-9]+"]));
        let answer = import(&mut one, header(true), records.clone()).await.expect("imported").into_inner();
        assert_eq!(answer.groups, Some(v1::ImportCount { added: 2, removed: 1, ..v1::ImportCount::default() }));
        assert_eq!(answer.users, Some(v1::ImportCount { added: 1_300, removed: 1, ..v1::ImportCount::default() }));
        assert!(answer.revision > 0 && !answer.dry_run);
        assert_eq!(answer.notes, ["there is no group gone: named by track staff"]);
        let last = Uuid::from_u128(1_300 << 64).to_string();
        assert_eq!(check(&mut two, &last, "a.b", vec![]).await, PermissionAnswer::True);
        assert_eq!(check(&mut two, "MANY1300", "x12", vec![]).await, PermissionAnswer::True);
        assert_eq!(exported(&mut two).await, records);
        // Once more it changes nothing, and is not written: a page goes on where it was, and there is nothing to tell.
        for replace in [true, false] {
            let again = import(&mut two, header(replace), records.clone()).await.expect("imported").into_inner();
            assert_eq!((again.users.map(|count| count.unchanged), again.changes.len()), (Some(1_300), 0));
            assert_eq!((again.revision, again.dry_run), (0, false));
        }
        let first = two.list_users(v1::ListUsersRequest { page_size: 1, ..Default::default() }).await.expect("a page").into_inner();
        assert!(first.users[0].revision < answer.revision, "written once");
        assert_eq!(exported(&mut one).await, records);
        // Pages go on where they were, also when another generation has become visible.
        let page = |token: &str| v1::ListUsersRequest { page_size: 1_000, page_token: token.to_owned(), group: "mod".to_owned() };
        let first = one.list_users(page("")).await.expect("a page").into_inner();
        assert_eq!(first.users.len(), 1_000);
        let rest = one.list_users(page(&first.next_page_token)).await.expect("a page").into_inner();
        assert_eq!((rest.users.len(), rest.next_page_token.as_str()), (300, ""));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_keeps_what_is_there_and_a_dry_run_everything() {
    on_both_stores(async |mut one, mut two| {
        create_group(&mut one, "mod").await;
        one.change_group(change_group("mod", [set(node("A", true)), set(node("b", true))])).await.expect("changed");
        one.change_user(change_user(ADA, [set(node("group.mod", true))])).await.expect("changed");
        one.change_user(change_user(BOB, [set(node("x", true))])).await.expect("changed");
        set_track(&mut one, "staff", &["default", "mod"]).await;
        let negated = Record::Group(v1::PermissionGroup { name: "MOD".to_owned(), nodes: vec![node("B", false), node("c", true)] });
        let records = vec![negated, Record::Track(track("staff", &["mod"])), a_user(ADA, "Ada", &["y"]), a_user(BOB, "two words", &["x"])];
        let before = exported(&mut one).await;
        let dry = v1::ImportHeader { dry_run: true, ..header(false) };
        let told = import(&mut two, dry, records.clone()).await.expect("a dry run").into_inner();
        assert_eq!(exported(&mut one).await, before);
        assert!(told.dry_run && told.revision == 0);
        let expected = [
            "group mod: - b = true".to_owned(),
            "group mod: + B = false".to_owned(),
            "group mod: + c = true".to_owned(),
            "- track staff = default, mod".to_owned(),
            "+ track staff = mod".to_owned(),
            format!("user {ADA} (Ada): + y = true"),
            format!("user {ADA} (Ada): name = \"Ada\", was \"\""),
        ];
        assert_eq!(told.changes, expected);
        assert_eq!(told.users, Some(v1::ImportCount { changed: 1, unchanged: 1, ..v1::ImportCount::default() }));

        assert_eq!((told.notes.len(), told.more_notes), (1, 0));
        assert!(told.notes[0].starts_with(&format!("user {BOB}: its name is left out: ")), "{:?}", told.notes);

        let done = import(&mut two, header(false), records).await.expect("imported").into_inner();
        assert_eq!((done.changes, done.groups, done.users), (told.changes, told.groups, told.users));
        assert_eq!((done.notes, done.more_notes), (told.notes, 0), "mod is stored");
        assert_eq!(keys_of(&mut one, "ada").await, ["group.default", "group.mod", "y"]);
        assert_eq!(keys_of(&mut one, BOB).await, ["x"]);
        assert_eq!(check(&mut one, ADA, "b", vec![]).await, PermissionAnswer::False);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_an_import_is_said_and_nothing_is_imported() {
    on_both_stores(async |mut one, _| {
        let user = || a_user(BOB, "", &["a"]);
        let bad_regex = Record::User(v1::PermissionUser { nodes: vec![node("a", true), node("r=(", true)], ..user_of(&user()) });
        let cases: Vec<(Vec<Record>, Code, &[&str])> = vec![
            (vec![user(), user()], Code::InvalidArgument, &[BOB, "twice"]),
            (vec![user(), a_user(&BOB.to_uppercase(), "", &[])], Code::InvalidArgument, &[BOB, "twice"]),
            (vec![user(), a_user(ADA, "", &["a"])], Code::InvalidArgument, &["sort"]),
            (vec![user(), a_group("mod", &[])], Code::InvalidArgument, &["mod", "first"]),
            (vec![a_group("mod", &[]), a_group("MOD", &[])], Code::InvalidArgument, &["mod", "twice"]),
            (vec![bad_regex], Code::InvalidArgument, &["records[0].user.nodes[1]"]),
            (vec![a_user("no", "", &[])], Code::InvalidArgument, &["uuid"]),
            (vec![a_group("a", &["group.b"]), a_group("b", &["group.a"])], Code::FailedPrecondition, &["a -> b -> a"]),
        ];
        for (records, code, words) in cases {
            refused(import(&mut one, header(false), records).await, code, words);
        }
        let no_header = v1::ImportRequest { part: Some(Part::Batch(v1::ImportBatch::default())) };
        refused(one.import(tokio_stream::iter([no_header])).await, Code::InvalidArgument, &["header"]);
        refused(one.import(tokio_stream::iter([v1::ImportRequest { part: None }])).await, Code::InvalidArgument, &["part"]);
        assert!(exported(&mut one).await.is_empty());
    })
    .await;
}

fn user_of(record: &Record) -> v1::PermissionUser {
    match record {
        Record::User(user) => user.clone(),
        _ => panic!("a user"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_may_have_ten_thousand_nodes_and_not_more_than_a_transaction_holds() {
    on_both_stores(async |mut one, mut two| {
        let keys: Vec<_> = (0..10_000).map(|index| format!("some.permission.of.very.many.{index}")).collect();
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        import(&mut one, header(false), vec![a_user(ADA, "", &keys)]).await.expect("imported");
        two.change_user(change_user(ADA, [set(node("one.more", true)), set(node(keys[7], false))])).await.expect("changed");
        assert_eq!(keys_of(&mut one, ADA).await.len(), 10_001);
        assert_eq!(check(&mut one, ADA, keys[7], vec![]).await, PermissionAnswer::False);
        assert_eq!(check(&mut one, ADA, keys[9_999], vec![]).await, PermissionAnswer::True);

        let long = "x".repeat(190);
        let long = |from: usize, to: usize| (from..to).map(|index| format!("{long}.{index}")).collect::<Vec<_>>();
        let large = long(0, 5_800);
        let large: Vec<_> = large.iter().map(String::as_str).collect();
        import(&mut one, header(false), vec![a_user(BOB, "", &large)]).await.expect("imported");
        let more = change_user(BOB, long(6_000, 6_200).iter().map(|key| set(node(key, true))));
        refused(two.change_user(more).await, Code::InvalidArgument, &[BOB, "nodes", "bytes"]);
        let more = long(6_000, 6_200);
        let more: Vec<_> = more.iter().map(String::as_str).collect();
        refused(import(&mut one, header(false), vec![a_user(BOB, "", &more)]).await, Code::InvalidArgument, &[BOB, "bytes"]);
        let far_more = [large, more].concat();
        refused(import(&mut one, header(true), vec![a_user(BOB, "", &far_more)]).await, Code::InvalidArgument, &[BOB, "bytes"]);
        assert_eq!(keys_of(&mut two, BOB).await.len(), 5_800);
    })
    .await;
}

/// Nor do they keep it from its end: it is written once, however often they come.
#[tokio::test(flavor = "multi_thread")]
async fn changes_made_while_an_import_runs_are_not_lost() {
    const USERS: u128 = 30_000;
    // Far less than it takes to write so many, and every time a little more: a machine that is slow now is to come to the end, too.
    let pause = |made: usize| Duration::from_millis(100 + 10 * made as u64);
    on_both_stores(async |one, mut two| {
        create_group(&mut two, "mod").await;
        two.change_user(change_user(BOB, [set(node("a", true))])).await.expect("changed");
        let last = Uuid::from_u128(USERS << 64).to_string();
        let mut importing = one.clone();
        let imported = tokio::spawn(async move { import(&mut importing, header(false), many(USERS, &["a"])).await });
        let mut made = 0;
        while !imported.is_finished() {
            two.change_user(change_user(ADA, [set(node(&format!("n.{made}"), true))])).await.expect("changed");
            two.change_user(change_user(&last, [set(node("b", true))])).await.expect("changed");
            if made == 1 {
                two.change_group(change_group("mod", [set(node("c", true))])).await.expect("changed");
                let clear = Edit::Clear(v1::ClearNodes { kind: v1::ClearKind::All.into(), ..Default::default() });
                two.change_user(change_user(BOB, [clear])).await.expect("cleared");
            }
            made += 1;
            tokio::time::sleep(pause(made)).await;
        }
        soon("the import", imported).await.expect("no panic").expect("imported");
        assert!(made > 3, "the import was over after {made} changes: it proves nothing");
        assert_eq!(keys_of(&mut two, ADA).await.len(), made);
        assert_eq!(keys_of(&mut two, "many1").await, ["a"]);
        assert_eq!(keys_of(&mut two, &last).await, ["b", "a"]);
        let records = exported(&mut two).await;
        assert!(records.contains(&a_group("mod", &["c"])));
        assert!(!records.iter().any(|record| matches!(record, Record::User(user) if user.uuid == BOB)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_groups_come_to_be_stored_than_every_node_can_hold() {
    const MOST: usize = 10_000;
    on_both_stores(async |mut one, mut two| {
        let groups = |from: usize, to: usize| (from..to).map(|index| a_group(&format!("g{index}"), &[])).collect();
        import(&mut one, header(false), groups(0, MOST - 1)).await.expect("imported");
        // Each is few by itself.
        refused(import(&mut two, header(false), groups(MOST, MOST + 2)).await, Code::FailedPrecondition, &["10001", "remove"]);
        eventually("the last one that has room", async || two.create_group(v1::CreateGroupRequest { name: "last".to_owned() }).await.ok())
            .await;
        // The replica goes by what it sees, which may be a moment later.
        let request = || v1::CreateGroupRequest { name: "more".to_owned() };
        eventually("no more room", async || match two.create_group(request()).await {
            Err(status) if status.code() == Code::FailedPrecondition && status.message().contains("10001") => Some(()),
            Err(status) => panic!("{status:?}"),
            Ok(_) => {
                two.delete_group(v1::DeleteGroupRequest { name: "more".to_owned(), ..Default::default() }).await.expect("deleted");
                None
            }
        })
        .await;
        eventually("room for a node", async || two.change_group(change_group("last", [set(node("a", true))])).await.ok()).await;
    })
    .await;
}

/// An import of a user that has not come to its end yet.
async fn begin(client: &Client) -> (JoinHandle<Result<Response<v1::ImportResponse>, Status>>, mpsc::Sender<v1::ImportRequest>) {
    let (sender, messages) = mpsc::channel(4);
    let mut client = client.clone();
    let call = tokio::spawn(async move { client.import(ReceiverStream::new(messages)).await });
    let record = v1::PermissionRecord { record: Some(a_user(BOB, "Bob", &["new"])) };
    for part in [Part::Header(header(true)), Part::Batch(v1::ImportBatch { records: vec![record] })] {
        // It may have been refused already.
        let _ = sender.send(v1::ImportRequest { part: Some(part) }).await;
    }
    (call, sender)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_not_finished_leaves_no_trace() {
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (on_etcd(&etcd).await, on_etcd(&etcd).await);
    let store = store_of(&etcd).await;
    let (mut at_one, mut at_two) = (client(&one).await, client(&two).await);
    at_two.change_user(change_user(ADA, [set(node("old", true))])).await.expect("changed");
    let before = exported(&mut at_two).await;

    // Callers that hang up halfway; of two at once the replica takes one.
    let (mut first, _first_messages) = begin(&at_one).await;
    let (mut second, _second_messages) = begin(&at_one).await;
    let (refusal, hangs) = soon("a refusal", async {
        tokio::select! {
            refusal = &mut first => (refusal, second),
            refusal = &mut second => (refusal, first),
        }
    })
    .await;
    refused(refusal.expect("no panic"), Code::Aborted, &["another import"]);
    hangs.abort();
    assert!(hangs.await.is_err());
    let dry = v1::ImportHeader { dry_run: true, ..header(true) };
    eventually("the next import", async || import(&mut at_one, dry.clone(), Vec::new()).await.ok()).await;
    assert_eq!(exported(&mut at_two).await, before);

    // A replica that dies while it writes.
    let mut importing = at_one.clone();
    let killed = tokio::spawn(async move { import(&mut importing, header(true), many(20_000, &["a", "b", "c"])).await });
    eventually("a second generation", async || (generations(&store).await.len() > 1).then_some(())).await;
    one.kill();
    assert!(soon("the broken call", killed).await.expect("no panic").is_err());
    assert_eq!(exported(&mut at_two).await, before);
    eventually("no litter", async || (generations(&store).await == ["0"]).then_some(())).await;
    assert_eq!(user(&mut at_two, ADA).await.user.map(|user| user.nodes.len()), Some(1));

    // One that is finished replaces what was there, which goes.
    import(&mut at_two, header(true), many(10, &["a"])).await.expect("imported");
    eventually("the old generation's end", async || {
        let generations = generations(&store).await;
        (generations.len() == 1 && generations[0] != "0").then_some(())
    })
    .await;
    assert_eq!(exported(&mut at_two).await, many(10, &["a"]));
}
