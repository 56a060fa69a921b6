//! Claims over nodes' streams: who is told what, and what counts no more.

use std::time::{Duration, Instant};

use moonbridge_proto::v1;
use moonbridge_proto::v1::control_message::Message as Down;
use moonbridge_proto::v1::node_message::Message as Up;
use moonbridge_proto::v1::session_event::Event;
use tempfile::tempdir;

use crate::support::{Hello, Node, Replica, players, session};

fn claim(of: &v1::Session) -> Up {
    let v1::Session { id, player, player_uuid, started_unix_ms, .. } = of.clone();
    Up::Claim(v1::Claim { session_id: id, player, player_uuid, started_unix_ms })
}

fn ended(session: &v1::Session) -> Event {
    Event::Ended(v1::SessionEnded { id: session.id.clone(), reason: "displaced".to_owned() })
}

async fn answer(node: &mut Node) -> v1::ClaimAnswer {
    node.next("answer to a claim", |message| if let Down::ClaimAnswer(answer) = message { Some(answer) } else { None }).await
}

async fn displaced(node: &mut Node) -> String {
    node.next("word of a later login", |message| if let Down::Displaced(told) = message { Some(told.session_id) } else { None }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_waits_for_the_end_of_the_session_that_it_displaces_whose_reports_count_no_more() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let old = session("Ann", "one");
    let mut first = Hello::new("first").sessions([old.clone()]).attach(&replica).await;
    let mut second = Hello::new("second").attach(&replica).await;
    assert_eq!(players(&mut admin).await, ["Ann"]);

    let new = session("Ann", "two");
    second.send(claim(&new)).await;
    assert_eq!(displaced(&mut first).await, old.id);
    assert!(players(&mut admin).await.is_empty(), "from now on it is not shown");
    // A report that was under way.
    first.events([Event::Set(v1::Session { backend: "three".to_owned(), ..old.clone() })]).await;
    assert!(players(&mut admin).await.is_empty());
    first.events([ended(&old)]).await;
    let v1::ClaimAnswer { session_id, held, players_elsewhere, permissions } = answer(&mut second).await;
    assert_eq!((session_id, held, players_elsewhere), (new.id.clone(), true, 0));
    assert_eq!(permissions.map(|permissions| (permissions.player_uuid, permissions.user)), Some((new.player_uuid.clone(), None)));
    assert!(players(&mut admin).await.is_empty(), "it still logs in");
    second.events([Event::Set(new.clone())]).await;
    assert_eq!(players(&mut admin).await, ["Ann"]);
    // An end that comes again takes nothing from the new one. The node is told once more to end it, before or after the ack.
    first.send_events([ended(&old), Event::Set(old.clone())]).await;
    assert_eq!(displaced(&mut first).await, old.id);
    assert_eq!(players(&mut admin).await, ["Ann"]);

    // A node that does not end its session is not waited for too long.
    let newest = session("ANN", "one");
    let began = Instant::now();
    first.send(claim(&newest)).await;
    assert_eq!(displaced(&mut second).await, new.id);
    assert!(answer(&mut first).await.held);
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_sessions_that_nodes_come_back_with_the_later_one_stays() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    let mut admin = replica.admin().await;
    let at = |started_unix_ms, backend| v1::Session { started_unix_ms, ..session("Ann", backend) };
    let (earlier, later, latest) = (at(1, "one"), at(2, "two"), at(3, "three"));
    let mut second = Hello::new("second").sessions([later.clone()]).attach(&replica).await;
    let mut first = Hello::new("first").sessions([earlier.clone()]).attach(&replica).await;
    assert_eq!(displaced(&mut first).await, earlier.id);
    assert_eq!(players(&mut admin).await, ["Ann"]);
    let third = Hello::new("third").sessions([latest]).attach(&replica).await;
    assert_eq!(displaced(&mut second).await, later.id);
    assert_eq!(players(&mut admin).await, ["Ann"]);
    // With the node its claims go: the player is free.
    third.leave().await;
    let fresh = at(4, "one");
    first.send(claim(&fresh)).await;
    assert!(answer(&mut first).await.held);
}
