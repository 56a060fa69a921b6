//! Two admins at once, one at each replica.

use moonbridge_proto::v1;
use moonbridge_testing::etcd::Etcd;
use moonbridge_testing::network::{Plane, on_etcd};
use tonic::Code;

use crate::support::{Client, node, refused, set};

const ADA: &str = "6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11";

/// One wins, the other is told the new revision: by the API, and in words by the command.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_conflicting_writes_one_wins_and_the_other_is_told_the_revision_now() {
    let etcd = Etcd::start().await.expect("etcd");
    let (a, b) = (Plane::replica("a", &on_etcd(&etcd)).await, Plane::replica("b", &on_etcd(&etcd)).await);
    let (one, two) = (Client::at(&a).await, Client::at(&b).await);
    let mut revision = one.set(ADA, node("begin.here", true)).await;
    let mut wins = [0, 0];
    for round in 0..20 {
        let [first, second] = ["first", "second"].map(|admin| vec![set(node(&format!("round.{round}.{admin}"), true))]);
        let (first, second) = tokio::join!(one.change_user(ADA, first, Some(revision)), two.change_user(ADA, second, Some(revision)));
        let (winner, loser) = match (first, second) {
            (Ok(state), Err(status)) => {
                wins[0] += 1;
                (state, status)
            }
            (Err(status), Ok(state)) => {
                wins[1] += 1;
                (state, status)
            }
            other => panic!("one wins: {other:?}"),
        };
        assert_eq!(loser.code(), Code::Aborted, "{loser:?}");
        assert!(loser.message().contains(&winner.revision.to_string()), "{loser:?} names {}", winner.revision);
        assert!(winner.revision > revision);
        let now = two.user(ADA).await;
        assert_eq!((now.revision, now.user.as_ref().map(|user| user.nodes.len())), (winner.revision, Some(round + 2)));
        revision = winner.revision;
    }
    println!("wins: {wins:?}");

    let old = revision.to_string();
    a.cli().ok(&["permission", "user", ADA, "set", "command.first", "--revision", &old]).await;
    let ran = b.cli().run(&["permission", "user", ADA, "set", "command.second", "--revision", &old]).await.ended(1);
    let now = one.user(ADA).await;
    assert!(ran.stderr.contains(&now.revision.to_string()), "{ran:?} names {}", now.revision);
    let keys: Vec<_> = now.user.expect("stored").nodes.into_iter().map(|node| node.key).collect();
    assert!(keys.contains(&"command.first".to_owned()) && !keys.contains(&"command.second".to_owned()), "{keys:?}");
    // What did not happen is not in the audit.
    let rows = b.cli().rows(&["audit", "--what", "permission", "--target", ADA, "--limit", "1000"]).await;
    assert_eq!(rows.len(), 1 + 20 + 1, "{rows:?}");
}

/// Without a revision nobody has to be told: no change is lost.
#[tokio::test(flavor = "multi_thread")]
async fn changes_that_do_not_conflict_are_all_made() {
    const EACH: usize = 15;
    let etcd = Etcd::start().await.expect("etcd");
    let (a, b) = (Plane::replica("a", &on_etcd(&etcd)).await, Plane::replica("b", &on_etcd(&etcd)).await);
    let clients = [Client::at(&a).await, Client::at(&b).await];
    clients[0].group("mod", vec![]).await;
    let mut changes = tokio::task::JoinSet::new();
    for (admin, client) in clients.iter().enumerate() {
        let client = client.clone();
        changes.spawn(async move {
            for nth in 0..EACH {
                client.set(ADA, node(&format!("own.{admin}.{nth}"), true)).await;
                client.change_group("mod", vec![node(&format!("wide.{admin}.{nth}"), true)]).await;
            }
        });
    }
    while let Some(done) = changes.join_next().await {
        done.expect("every change is made");
    }
    let user = clients[1].user(ADA).await.user.expect("stored");
    let request = v1::GetGroupRequest { name: "mod".into() };
    let group = clients[0].permissions.clone().get_group(request).await.expect("it is there").into_inner().group.expect("stored");
    assert_eq!((user.nodes.len(), group.nodes.len()), (2 * EACH, 2 * EACH));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_is_one_step_however_many_ask_for_it_at_once() {
    let etcd = Etcd::start().await.expect("etcd");
    let (a, b) = (Plane::replica("a", &on_etcd(&etcd)).await, Plane::replica("b", &on_etcd(&etcd)).await);
    let clients = [Client::at(&a).await, Client::at(&b).await];
    const RANKS: [&str; 5] = ["helper", "mod", "senior", "admin", "owner"];
    for rank in RANKS {
        clients[0].group(rank, vec![]).await;
    }
    let track = v1::PermissionTrack { name: "staff".into(), groups: RANKS.map(str::to_owned).to_vec() };
    let request = v1::SetTrackRequest { track: Some(track), create: true, expected_revision: None };
    clients[0].permissions.clone().set_track(request).await.expect("a new track");
    let step = |client: &Client| {
        let mut calls = client.permissions.clone();
        async move {
            let request = v1::PromoteRequest { player: ADA.into(), track: "staff".into(), ..v1::PromoteRequest::default() };
            calls.promote(request).await
        }
    };
    // Five at once: every one a step of its own, onto each rank once.
    let steps = tokio::join!(step(&clients[0]), step(&clients[1]), step(&clients[0]), step(&clients[1]), step(&clients[0]));
    let mut reached = [steps.0, steps.1, steps.2, steps.3, steps.4].map(|step| step.expect("a step").into_inner().to);
    reached.sort();
    let mut ranks = RANKS;
    ranks.sort_unstable();
    assert_eq!(reached, ranks);
    let status = refused(step(&clients[1]).await, Code::FailedPrecondition);
    assert!(status.message().contains("end"), "{status:?}");
    let user = clients[0].user(ADA).await.user.expect("stored");
    let keys: Vec<_> = user.nodes.iter().map(|node| node.key.as_str()).collect();
    assert_eq!(keys, ["group.default", "group.owner"]);
}
