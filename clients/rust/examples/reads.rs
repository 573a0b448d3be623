//! Uploads an HLO module and prints what its fusions read.
//!
//!     cargo run --example reads localhost:50051 attention.hlo.pb

use futures_util::TryStreamExt;
use xlashape::v1::{ModuleInput, OperandReadsRequest};
use xlashape::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, address, file] =
        std::env::args().collect::<Vec<_>>().try_into().map_err(|_| "usage: reads HOST:PORT FILE")?;
    let client = Client::connect(address)?;
    let upload = client.upload_module(&std::fs::read(file)?).await?;
    let module = Some(ModuleInput::from(&upload.module));
    let request = OperandReadsRequest { module, report_errors: true, ..Default::default() };
    let mut answers = client.operand_reads(request).await?;
    while let Some(answer) = answers.try_next().await? {
        if answer.opcode != "fusion" {
            continue;
        }
        println!("{}", answer.instruction);
        for read in answer.reads {
            let distinct = read.distinct_elements.map_or("an unknown number".into(), |number| number.to_string());
            println!("  {}: {distinct} of {} elements", read.operand_name, read.elements());
            for access in read.accesses {
                println!("    {}", access.map.unwrap_or_default().text);
            }
        }
    }
    Ok(())
}
