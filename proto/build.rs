//! Compiles the .proto files without `protoc` (protox parses them).
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=moonbridge");
    let files = ["moonbridge/v1/resources.proto", "moonbridge/v1/node.proto", "moonbridge/v1/admin.proto"];
    let descriptors = protox::compile(files, ["."])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
