//! Compiles the .proto files without `protoc` (protox parses them).
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=moonbridge");
    let files =
        ["moonbridge/v1/resources.proto", "moonbridge/v1/node.proto", "moonbridge/v1/admin.proto", "moonbridge/v1/permissions.proto"];
    let descriptors = protox::compile(files, ["."])?;
    tonic_prost_build::configure()
        // Their Debug is our own: it shows no token.
        .skip_debug(["moonbridge.v1.Backend", "moonbridge.v1.CreateTokenResponse"])
        // Few results have one.
        .boxed(".moonbridge.v1.CommandResult.recording")
        .compile_fds(descriptors)?;
    Ok(())
}
