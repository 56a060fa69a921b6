//! The stand-in for protoc answers with what protoc would say of etcd-client's files: see protoc/README.md.
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that etcd-client 0.21's build script compiles, in its order.
const FILES: [&str; 5] = [
    "etcd/api/authpb/auth.proto",
    "etcd/api/etcdserverpb/rpc.proto",
    "etcd/api/mvccpb/kv.proto",
    "etcd/server/etcdserver/api/v3election/v3electionpb/v3election.proto",
    "etcd/server/etcdserver/api/v3lock/v3lockpb/v3lock.proto",
];

fn etcd_client_protos() -> PathBuf {
    let metadata = cargo_metadata::MetadataCommand::new().exec().expect("cargo metadata");
    let package = metadata.packages.iter().find(|p| p.name == "etcd-client").expect("etcd-client is in the lock file");
    package.manifest_path.parent().expect("a manifest lies in a folder").join("proto").into_std_path_buf()
}

#[test]
fn the_checked_in_descriptor_set_is_that_of_the_locked_etcd_client() {
    let set = protox::Compiler::new([etcd_client_protos()])
        .expect("include path")
        .include_imports(true)
        .include_source_info(true)
        .open_files(FILES)
        .expect("etcd-client's files parse")
        .encode_file_descriptor_set();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("protoc/etcd-client.fds");
    if std::env::var_os("MOONBRIDGE_BLESS").is_some() {
        std::fs::write(&path, &set).expect("write the descriptor set");
    }
    let checked_in = std::fs::read(&path).unwrap_or_default();
    assert!(checked_in == set, "{} differs from what etcd-client's files give: run again with MOONBRIDGE_BLESS=1", path.display());
}

#[test]
fn the_stand_in_refuses_what_it_was_not_made_for() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("protoc/protoc");
    let output = Command::new(script).args(["-o", "/nowhere/out", "-I", "proto", "some/other.proto"]).output().expect("runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("set PROTOC to a real protoc"));
}
