//! Compiles the schema of the service. protox needs no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["hlo_service", "indexing_service", "report_service", "shape_service", "types", "view_service"]
        .map(|name| format!("proto/xlashape/v1/{name}.proto"));
    for file in &files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure()
        .build_server(std::env::var_os("CARGO_FEATURE_SERVER").is_some())
        .compile_fds(descriptors)?;
    Ok(())
}
