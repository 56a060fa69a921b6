//! A replica whose disk is full for a while.

use std::time::Duration;

use moonbridge_proto::v1;
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_testing::process::{Process, moonbridge};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::process::Command;
use tonic::Code;
use tonic::transport::Channel;

use crate::support::{eventually, refused, set_backend};

/// Not even one byte of a file can be written from here on; `None` lifts that.
fn limit_files(pid: u32, bytes: Option<u64>) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).expect("a limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_disk_was_full_writes_again_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("controlplane.toml");
    let data = folder.path().join("data");
    std::fs::write(&config, format!("listen = \"127.0.0.1:0\"\n[store.embedded]\ndata_dir = {:?}\n", data.display().to_string()))
        .expect("written");
    // Without the trap the limit ends the process.
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap '' XFSZ; exec "$0" controlplane --config "$1""#]).arg(moonbridge()).arg(&config);
    let process = Process::start("controlplane", command);
    let address = process.line("its address", |line| line.split_once("admins connect to ").map(|(_, address)| address.to_owned())).await;
    let channel = Channel::from_shared(format!("http://{address}")).expect("a URL").connect().await.expect("the replica");
    let mut admin = AdminServiceClient::new(channel);
    set_backend(&mut admin, "lobby").await;

    limit_files(process.pid(), Some(0));
    let set = |name: &str| {
        let backend = v1::Backend { name: name.to_owned(), address: "127.0.0.1:1".to_owned(), ..v1::Backend::default() };
        v1::SetBackendRequest { backend: Some(backend), keep_drained: false }
    };
    refused(admin.set_backend(set("games")).await, Code::Unavailable, &["cannot be written", "see to the disk", "may or may not"]);
    process.line("that it lost its store", |line| line.contains("the store is lost").then_some(())).await;
    limit_files(process.pid(), None);
    let within = std::time::Instant::now();
    eventually("a change", async || admin.clone().set_backend(set("games")).await.ok()).await;
    assert!(within.elapsed() < Duration::from_secs(20), "{:?}", within.elapsed());
    let backends = admin.list_backends(v1::ListBackendsRequest::default()).await.expect("backends").into_inner().backends;
    let names: Vec<_> = backends.into_iter().filter_map(|status| status.backend).map(|backend| backend.name).collect();
    assert_eq!(names, ["games", "lobby"]);
}
