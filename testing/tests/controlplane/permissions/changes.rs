//! Changing users, groups and tracks.

use moonbridge_proto::v1::permission_edit::Edit;
use moonbridge_proto::v1::{self, PermissionAnswer};
use tempfile::tempdir;
use tonic::Code;

use super::{
    ADA, BOB, Client, change_group, change_user, check, client, create_group, in_world, keys_of, node, on_both_stores, set, set_track,
    track, unset, user,
};
use crate::support::{Hello, Replica, eventually, refused, session};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_at_one_replica_is_in_the_next_answer_of_the_other() {
    on_both_stores(async |mut one, mut two| {
        create_group(&mut one, "Mod").await;
        one.change_group(change_group("mod", [set(node("a.*", true)), set(in_world(node("a.b", false), "games"))])).await.expect("changed");
        assert_eq!(check(&mut two, ADA, "a.b", vec![]).await, PermissionAnswer::Undefined);
        let changed = two.change_user(change_user(ADA, [set(node("group.mod", true))])).await.expect("changed").into_inner();
        assert_eq!(check(&mut one, ADA, "a.b", vec![]).await, PermissionAnswer::True);
        assert_eq!(check(&mut one, ADA, "A.B", vec![super::context("world", "games")]).await, PermissionAnswer::False);
        assert_eq!(user(&mut one, &ADA.to_uppercase()).await, changed);
        // What changes nothing is no change.
        let again = two.change_user(change_user(ADA, [set(node("group.mod", true))])).await.expect("changed").into_inner();
        assert_eq!(again, changed);
        // Of several edits all are made, or none.
        let half = change_user(ADA, [set(node("c", true)), unset("never")]);
        refused(one.change_user(half).await, Code::NotFound, &["never"]);
        // The default group, which was implied, stays.
        assert_eq!(keys_of(&mut one, ADA).await, ["group.default", "group.mod"]);
        // Who has nothing of its own any more is not stored any more.
        let gone = one.change_user(change_user(ADA, [unset("group.mod")])).await.expect("changed").into_inner();
        assert_eq!(gone.revision, 0);
        assert_eq!(user(&mut two, ADA).await, gone);
        assert_eq!(check(&mut two, ADA, "a.b", vec![]).await, PermissionAnswer::Undefined);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_at_once_lose_nothing_and_one_that_expects_a_revision_is_told_the_new_one() {
    on_both_stores(async |one, two| {
        let write = |mut client: Client, from: u32| async move {
            for index in from..from + 15 {
                client.change_user(change_user(ADA, [set(node(&format!("n.{index}"), true))])).await.expect("changed");
            }
        };
        tokio::join!(write(one.clone(), 0), write(two.clone(), 100));
        let (mut one, mut two) = (one, two);
        assert_eq!(keys_of(&mut one, ADA).await.len(), 30);

        let seen = user(&mut one, ADA).await.revision;
        let change = |value| v1::ChangeUserRequest { expected_revision: Some(seen), ..change_user(ADA, [set(node("n.0", value))]) };
        let first = one.change_user(change(false)).await.expect("changed").into_inner();
        let (now, before) = (first.revision.to_string(), seen.to_string());
        refused(two.change_user(change(true)).await, Code::Aborted, &[ADA, &now, &before]);
        assert_eq!(user(&mut two, ADA).await, first);
        let nobody = v1::ChangeUserRequest { expected_revision: Some(0), ..change_user(BOB, [set(node("a", true))]) };
        one.change_user(nobody.clone()).await.expect("nobody was there");
        refused(two.change_user(nobody).await, Code::Aborted, &[BOB]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_groups_and_cycles_are_refused_also_when_two_halves_of_one_are_made_at_once() {
    on_both_stores(async |mut one, mut two| {
        refused(one.change_user(change_user(ADA, [set(node("group.no", true))])).await, Code::FailedPrecondition, &["group no", "create"]);
        refused(one.change_group(change_group("no", [set(node("a", true))])).await, Code::NotFound, &["no"]);
        refused(one.create_group(v1::CreateGroupRequest { name: "a b".to_owned() }).await, Code::InvalidArgument, &["name"]);
        for name in ["a", "b", "c"] {
            create_group(&mut one, name).await;
        }
        refused(one.create_group(v1::CreateGroupRequest { name: "A".to_owned() }).await, Code::FailedPrecondition, &["already"]);
        let inherit = |group: &str, parent: &str| change_group(group, [set(node(&format!("group.{parent}"), true))]);
        refused(one.change_group(inherit("a", "a")).await, Code::FailedPrecondition, &["a -> a"]);
        one.change_group(inherit("a", "b")).await.expect("changed");
        one.change_group(inherit("b", "c")).await.expect("changed");
        refused(two.change_group(inherit("c", "a")).await, Code::FailedPrecondition, &["c -> a -> b -> c"]);
        for round in 0..8 {
            let names = [format!("x{round}"), format!("y{round}")];
            for name in &names {
                create_group(&mut one, name).await;
            }
            let (forth, back) = (inherit(&names[0], &names[1]), inherit(&names[1], &names[0]));
            let (forth, back) = tokio::join!(one.change_group(forth), two.change_group(back));
            assert_ne!(forth.is_ok(), back.is_ok(), "{forth:?} {back:?}");
        }
        // The default group is always there, and nobody's to take away.
        one.change_user(change_user(ADA, [set(node("group.default", true))])).await.expect("changed");
        one.change_group(change_group("default", [set(node("all.may", true))])).await.expect("changed");
        assert_eq!(check(&mut two, BOB, "all.may", vec![]).await, PermissionAnswer::True);
        let delete = |name: &str| v1::DeleteGroupRequest { name: name.to_owned(), expected_revision: None };
        refused(one.delete_group(delete("default")).await, Code::FailedPrecondition, &["default"]);
        refused(one.delete_group(delete("no")).await, Code::NotFound, &["no"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_group_leaves_the_tracks_and_means_nothing_to_those_who_inherit_it() {
    on_both_stores(async |mut one, mut two| {
        for name in ["helper", "mod", "admin"] {
            create_group(&mut one, name).await;
        }
        one.change_group(change_group("mod", [set(node("a", true))])).await.expect("changed");
        one.change_user(change_user(ADA, [set(node("group.mod", true))])).await.expect("changed");
        set_track(&mut one, "staff", &["helper", "mod", "admin"]).await;
        set_track(&mut one, "other", &["helper"]).await;
        let wrong = v1::SetTrackRequest { track: Some(track("bad", &["nobody"])), ..v1::SetTrackRequest::default() };
        refused(one.set_track(wrong).await, Code::FailedPrecondition, &["nobody"]);
        let twice = v1::SetTrackRequest { track: Some(track("bad", &["mod", "Mod"])), ..v1::SetTrackRequest::default() };
        refused(one.set_track(twice).await, Code::InvalidArgument, &["twice"]);
        let again = v1::SetTrackRequest { track: Some(track("staff", &["mod"])), create: true, expected_revision: None };
        refused(one.set_track(again).await, Code::FailedPrecondition, &["already"]);

        two.delete_group(v1::DeleteGroupRequest { name: "mod".to_owned(), expected_revision: None }).await.expect("deleted");
        let tracks = one.list_tracks(v1::ListTracksRequest {}).await.expect("tracks").into_inner().tracks;
        let tracks: Vec<_> = tracks.into_iter().filter_map(|state| state.track).collect();
        assert_eq!(tracks, [track("other", &["helper"]), track("staff", &["helper", "admin"])]);
        assert_eq!(check(&mut one, ADA, "a", vec![]).await, PermissionAnswer::Undefined);
        assert_eq!(keys_of(&mut one, ADA).await, ["group.default", "group.mod"]);
        let groups = one.list_groups(v1::ListGroupsRequest::default()).await.expect("groups").into_inner().groups;
        let names: Vec<_> = groups.iter().filter_map(|state| state.group.as_ref()).map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["admin", "default", "helper"]);
        one.delete_track(v1::DeleteTrackRequest { name: "other".to_owned(), expected_revision: None }).await.expect("deleted");
        assert_eq!(two.list_tracks(v1::ListTracksRequest {}).await.expect("tracks").into_inner().tracks.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_come_in_pages_of_a_bounded_size_with_the_default_group_at_its_place() {
    on_both_stores(async |mut one, mut two| {
        // More than one page may have: three of them with half a page each.
        for name in ["alpha", "omega", "zeta", "zeta2"] {
            create_group(&mut one, name).await;
        }
        let long = (0..6_000).map(|index| set(node(&format!("{index}.{}", "x".repeat(170)), true))).collect::<Vec<_>>();
        for name in ["omega", "zeta", "zeta2"] {
            for edits in long.chunks(1_000) {
                one.change_group(change_group(name, edits.to_vec())).await.expect("changed");
            }
        }
        assert_eq!(pages(&mut two, 0).await, [vec!["alpha", "default", "omega"], vec!["zeta"], vec!["zeta2"]]);
        assert_eq!(pages(&mut two, 1).await.concat(), ["alpha", "default", "omega", "zeta", "zeta2"]);
        one.change_group(change_group("default", [set(node("a", true))])).await.expect("changed");
        assert_eq!(pages(&mut two, 2).await, [vec!["alpha", "default"], vec!["omega"], vec!["zeta"], vec!["zeta2"]]);
        let wrong = v1::ListGroupsRequest { page_token: "1/permissions/users/0/x".to_owned(), page_size: 0 };
        refused(two.list_groups(wrong).await, Code::InvalidArgument, &["page_token"]);
        // Of a revision that is still to come.
        for revision in [1 << 40, u64::MAX] {
            let to_come = v1::ListGroupsRequest { page_token: format!("{revision}/resources/permissions/groups/0/x"), page_size: 0 };
            refused(two.list_groups(to_come).await, Code::InvalidArgument, &["page_token"]);
            let to_come = v1::ListUsersRequest { page_token: format!("{revision}/permissions/users/0/x"), ..Default::default() };
            refused(two.list_users(to_come).await, Code::InvalidArgument, &["page_token"]);
        }
    })
    .await;
}

/// The names of the groups on each page.
async fn pages(client: &mut Client, page_size: u32) -> Vec<Vec<String>> {
    let (mut pages, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListGroupsRequest { page_size, page_token };
        let page = client.list_groups(request).await.expect("groups").into_inner();
        pages.push(page.groups.into_iter().filter_map(|state| state.group).map(|group| group.name).collect());
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return pages;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn promotions_at_once_are_steps_one_after_the_other() {
    on_both_stores(async |mut one, mut two| {
        let groups: Vec<_> = (0..8).map(|index| format!("rank{index}")).collect();
        for name in &groups {
            create_group(&mut one, name).await;
        }
        set_track(&mut one, "ranks", &groups.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let promote = |demote| v1::PromoteRequest { player: ADA.to_owned(), track: "Ranks".to_owned(), contexts: Vec::new(), demote };
        for _ in 0..3 {
            let (first, second) = tokio::join!(one.promote(promote(false)), two.promote(promote(false)));
            first.and(second).expect("promoted");
        }
        assert_eq!(keys_of(&mut two, ADA).await, ["group.default", "group.rank5"]);
        let step = one.promote(promote(true)).await.expect("demoted").into_inner();
        assert_eq!((step.from.as_str(), step.to.as_str()), ("rank5", "rank4"));
        assert_eq!(step.user, Some(user(&mut two, ADA).await));
        // One that does not exist is no step, and nothing is half made.
        let delete = v1::DeleteGroupRequest { name: "rank5".to_owned(), expected_revision: None };
        one.delete_group(delete).await.expect("deleted");
        let step = two.promote(promote(false)).await.expect("promoted").into_inner();
        assert_eq!(step.to, "rank6", "it is no longer on the track");
        one.change_user(change_user(ADA, [set(node("group.rank0", true))])).await.expect("changed");
        refused(two.promote(promote(false)).await, Code::FailedPrecondition, &["rank0", "rank6"]);
        refused(two.promote(v1::PromoteRequest { track: "no".to_owned(), ..promote(false) }).await, Code::NotFound, &["no"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_primary_group_is_a_parent_and_meta_and_parents_are_replaced() {
    on_both_stores(async |mut one, mut two| {
        for name in ["vip", "mod"] {
            create_group(&mut one, name).await;
        }
        let primary = |group: &str| change_user(ADA, [Edit::PrimaryGroup(group.to_owned())]);
        refused(one.change_user(primary("vip")).await, Code::FailedPrecondition, &["vip"]);
        let parents = [set(node("group.vip", true)), set(node("group.mod", true)), Edit::PrimaryGroup("vip".to_owned())];
        let changed = one.change_user(change_user(ADA, parents)).await.expect("changed").into_inner();
        assert_eq!(changed.user.map(|user| user.primary_group).as_deref(), Some("vip"));
        let parent = Edit::SetParent(v1::SetParent { group: "mod".to_owned(), contexts: Vec::new(), expiry: 0 });
        let meta =
            |value: &str| Edit::SetMeta(v1::SetMeta { key: "home".to_owned(), value: value.to_owned(), contexts: Vec::new(), expiry: 0 });
        let changed = two.change_user(change_user(ADA, [parent, meta("1"), meta("2")])).await.expect("changed").into_inner();
        assert_eq!(changed.user.map(|user| user.primary_group).as_deref(), Some("mod"));
        assert_eq!(keys_of(&mut one, ADA).await, ["group.mod", "meta.home.2"]);
        // Nor is what was over before 1970 taken for what is for good.
        let parent = Edit::SetParent(v1::SetParent { group: "vip".to_owned(), contexts: Vec::new(), expiry: -1 });
        refused(one.change_user(change_user(ADA, [parent])).await, Code::InvalidArgument, &["edits[0].set_parent.expiry"]);
        let meta = Edit::SetMeta(v1::SetMeta { key: "home".to_owned(), value: "3".to_owned(), contexts: Vec::new(), expiry: i64::MIN });
        refused(one.change_user(change_user(ADA, [meta])).await, Code::InvalidArgument, &["edits[0].set_meta.expiry"]);
        assert_eq!(keys_of(&mut one, ADA).await, ["group.mod", "meta.home.2"]);
        refused(one.change_user(change_user(ADA, [Edit::Weight(7)])).await, Code::InvalidArgument, &["weight"]);
        refused(one.change_user(change_user(ADA, [])).await, Code::InvalidArgument, &["edits"]);
        refused(one.change_user(change_user(ADA, [set(node("r=(", true))])).await, Code::InvalidArgument, &["edits[0].set.node"]);
        let clear = Edit::Clear(v1::ClearNodes { kind: v1::ClearKind::All.into(), ..v1::ClearNodes::default() });
        let gone = one.change_user(change_user(ADA, [clear])).await.expect("changed").into_inner();
        assert_eq!((gone.revision, gone.user.map(|user| user.primary_group).as_deref()), (0, Some("")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn players_are_known_by_name_once_they_were_online_or_stored() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut client = client(&replica).await;
    refused(client.get_user(v1::GetUserRequest { player: "Ada".to_owned() }).await, Code::NotFound, &["Ada", "UUID"]);
    let mut node_ = Hello::new("edge").sessions([session("Bob", "lobby")]).attach(&replica).await;
    let online = eventually("Bob online", async || client.get_user(v1::GetUserRequest { player: "bob".to_owned() }).await.ok()).await;
    let bob = session("Bob", "lobby").player_uuid;
    let expected = v1::PermissionUser { uuid: bob.clone(), username: "Bob".to_owned(), ..v1::PermissionUser::default() };
    assert_eq!(online.into_inner().user, Some(expected));
    client.change_user(change_user("BOB", [set(node("a", true))])).await.expect("changed");
    node_.events([]).await;
    node_.leave().await;
    // Offline, the stored name leads to it.
    let stored = eventually("Bob offline", async || Some(user(&mut client, "bob").await).filter(|state| state.revision > 0)).await;
    assert_eq!(stored.user.map(|user| (user.uuid, user.username)), Some((bob, "Bob".to_owned())));
    // A login is remembered, too.
    let mut node_ = Hello::new("edge").attach(&replica).await;
    let cleo = session("Cleo", "lobby");
    let claim =
        v1::Claim { session_id: cleo.id.clone(), player: cleo.player.clone(), player_uuid: cleo.player_uuid.clone(), started_unix_ms: 1 };
    node_.send(v1::node_message::Message::Claim(claim)).await;
    node_.next("answer", |message| matches!(message, v1::control_message::Message::ClaimAnswer(_)).then_some(())).await;
    let known = eventually("Cleo", async || client.get_user(v1::GetUserRequest { player: "CLEO".to_owned() }).await.ok()).await;
    assert_eq!(known.into_inner().user.map(|user| user.uuid), Some(cleo.player_uuid));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_in_the_audit_and_what_changes_nothing_is_not() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut client = client(&replica).await;
    create_group(&mut client, "mod").await;
    set_track(&mut client, "staff", &["mod"]).await;
    client.change_group(change_group("mod", [set(node("a", true))])).await.expect("changed");
    client.change_group(change_group("mod", [set(node("a", true))])).await.expect("nothing to change");
    client.change_group(change_group("mod", [set(in_world(node("a", false), "x")), set(node("a", false))])).await.expect("changed");
    let promote = v1::PromoteRequest { player: ADA.to_owned(), track: "staff".to_owned(), ..v1::PromoteRequest::default() };
    client.promote(promote.clone()).await.expect("promoted");
    refused(client.promote(promote).await, Code::FailedPrecondition, &["end"]);
    let mut settings = client.get_permission_settings(v1::GetPermissionSettingsRequest {}).await.expect("settings").into_inner();
    let before = settings.clone();
    settings.apply_regex = Some(false);
    let request = v1::SetPermissionSettingsRequest { settings: Some(settings), expected: Some(before) };
    client.set_permission_settings(request.clone()).await.expect("set");
    let same = v1::SetPermissionSettingsRequest { expected: None, ..request.clone() };
    client.set_permission_settings(same).await.expect("nothing to change");
    // Decided on what is no more, it would undo the change of somebody else.
    refused(client.set_permission_settings(request).await, Code::Aborted, &["others now"]);
    client.delete_group(v1::DeleteGroupRequest { name: "mod".to_owned(), expected_revision: None }).await.expect("deleted");
    let header = v1::import_request::Part::Header(v1::ImportHeader { source: "a file".to_owned(), ..v1::ImportHeader::default() });
    let header = v1::ImportRequest { part: Some(header) };
    client.import(tokio_stream::iter([header.clone()])).await.expect("nothing to import");
    let bob = v1::PermissionUser { uuid: BOB.to_owned(), nodes: vec![node("a", true)], ..v1::PermissionUser::default() };
    let records = vec![v1::PermissionRecord { record: Some(v1::permission_record::Record::User(bob)) }];
    let batch = v1::ImportRequest { part: Some(v1::import_request::Part::Batch(v1::ImportBatch { records })) };
    client.import(tokio_stream::iter([header, batch])).await.expect("imported");

    let audit = replica.admin().await.list_audit(v1::ListAuditRequest::default()).await.expect("the audit").into_inner().records;
    let of = |index: usize| {
        let record: &v1::AuditRecord = &audit[audit.len() - 1 - index];
        let lines = |lines: &[String]| lines.join("; ");
        (record.what.as_str(), record.target.clone(), lines(&record.before), lines(&record.after))
    };
    let line = |what: &'static str, target: &str, before: &str, after: &str| (what, target.to_owned(), before.to_owned(), after.to_owned());
    assert_eq!(audit.len(), 8, "{audit:#?}");
    assert_eq!(of(0), line("permission.group.create", "group mod", "", ""));
    assert_eq!(of(1), line("permission.track.set", "track staff", "", "track staff = mod"));
    assert_eq!(of(2), line("permission.group.change", "group mod", "", "a = true"));
    assert_eq!(of(3), line("permission.group.change", "group mod", "a = true", "a = false; a = false (world=x)"));
    assert_eq!(of(4), line("permission.user.promote", &format!("user {ADA}"), "", "group.default = true; group.mod = true"));
    assert_eq!(of(5), line("permission.settings.set", "permission settings", "apply-regex = true", "apply-regex = false"));
    let gone = "a = false; a = false (world=x); track staff = mod";
    assert_eq!(of(6), line("permission.group.delete", "group mod", gone, "track staff = "));
    assert_eq!(of(7).0, "permission.import");
    assert!(of(7).1.contains("a file") && of(7).3.contains("users: 1 added, 0 changed, 0 removed, 1 unchanged"), "{:?}", of(7));
    assert!(audit.iter().all(|record| record.who == "anyone" && record.replica == "replica"), "{audit:#?}");
}
