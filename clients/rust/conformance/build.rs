//! Compiles the protocol of the conformance suite.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = "../../../tests/conformance";
    println!("cargo:rerun-if-changed={folder}/testee.proto");
    let descriptors = protox::compile(["testee.proto"], [folder])?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}
