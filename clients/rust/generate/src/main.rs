//! Writes `src/v1.rs`, the generated code of the client, from the schema of the service: `cargo run -p xlashape-generate`. protox needs no protoc.

use std::path::{Path, PathBuf};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    write(&root().join("src"))
}

/// The folder of the client. Cargo names it when the program runs: checkouts may share what is built.
fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..")
}

fn write(folder: &Path) -> Outcome {
    let files = ["hlo_service", "indexing_service", "report_service", "shape_service", "types", "view_service"]
        .map(|name| format!("xlashape/v1/{name}.proto"));
    tonic_prost_build::configure()
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .out_dir(folder)
        .compile_fds(protox::compile(files, [root().join("../../protos")])?)?;
    Ok(std::fs::rename(folder.join("xlashape.v1.rs"), folder.join("v1.rs"))?)
}

#[test]
fn the_committed_code_is_what_the_schema_says() -> Outcome {
    let folder = std::env::temp_dir().join(format!("xlashape-generate-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    write(&folder)?;
    let is_same = std::fs::read(folder.join("v1.rs"))? == std::fs::read(root().join("src/v1.rs"))?;
    std::fs::remove_dir_all(&folder)?;
    assert!(is_same, "run `cargo run -p xlashape-generate`");
    Ok(())
}
