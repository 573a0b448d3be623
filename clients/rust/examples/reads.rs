//! Uploads an HLO module and prints what its fusions read.
//!
//!     cargo run --example reads localhost:50051 attention.hlo.pb

use futures_util::TryStreamExt;
use xlashape::v1::{ModuleInput, ReadsRequest};
use xlashape::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, address, file] =
        std::env::args().collect::<Vec<_>>().try_into().map_err(|_| "usage: reads HOST:PORT FILE")?;
    let client = Client::connect(address)?;
    let upload = client.upload_module(&std::fs::read(file)?).await?;
    let module = Some(ModuleInput::from(&upload.module));
    let mut rows = client.reads_rows(ReadsRequest { module, ..Default::default() });
    while let Some(read) = rows.try_next().await? {
        if let (Some("fusion"), Some(part)) = (read.opcode.as_deref(), read.part_read) {
            println!("{} reads {:.0} % of {}", read.instruction(), 100.0 * part, read.operand_name());
            println!("  {}", read.map().replace('\n', "\n  "));
        }
    }
    Ok(())
}
