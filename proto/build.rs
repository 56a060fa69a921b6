//! Compiles the .proto files without `protoc` (protox parses them).
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=moonbridge");
    let files =
        ["moonbridge/v1/resources.proto", "moonbridge/v1/node.proto", "moonbridge/v1/admin.proto", "moonbridge/v1/permissions.proto"];
    let descriptors = protox::compile(files, ["."])?;
    // Their Debug is our own: it shows no token.
    tonic_prost_build::configure().skip_debug(["moonbridge.v1.Backend", "moonbridge.v1.CreateTokenResponse"]).compile_fds(descriptors)?;
    Ok(())
}
