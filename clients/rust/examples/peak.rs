//! Prints the peak of a program's memory, the largest buffers at the peak, and what a fusion reads.
//!
//!     cargo run --example peak localhost:50051 attention.hlo.pb ynn_fusion.4

use futures_util::TryStreamExt;
use xlashape::v1::{IndexingMapsRequest, MemoryRequest, ModuleInput};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, address, file, fusion] =
        std::env::args().collect::<Vec<_>>().try_into().map_err(|_| "usage: peak HOST:PORT FILE FUSION")?;
    let client = xlashape::Client::connect(address)?;
    let module = Some(ModuleInput::serialized(std::fs::read(file)?));
    let request = MemoryRequest { module: module.clone(), page_size: 3, ..Default::default() };
    let memory = client.memory(request).await?;
    println!("peak {}", memory.totals.unwrap_or_default().peak_bytes());
    for buffer in &memory.peak_buffers {
        println!("{} {} {}", buffer.name(), buffer.bytes(), buffer.shape());
    }
    let request = IndexingMapsRequest { module, instruction: Some(fusion), ..Default::default() };
    let mut maps = client.indexing_maps_rows(request);
    loop {
        match maps.try_next().await {
            Ok(Some(read)) => println!("{} {}", read.operand_name(), read.map()),
            Ok(None) => return Ok(()),
            Err(error) if error.reason() == xlashape::reason::NOT_FOUND => {
                println!("{} {} {}", error.reason(), error.field(), error.details()["name"]);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}
