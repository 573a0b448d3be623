//! The first answer: cargo run --example first

#[tokio::main]
async fn main() -> Result<(), xlashape::Error> {
    let client = xlashape::Client::connect("localhost:50051")?;
    let size = client.byte_size("bf16[20,300]{1,0:T(8,128)(2,1)}").await?;
    println!("{} {}", size.logical_bytes, size.physical_bytes);
    if let Err(error) = client.linear_index("f32[3,5", &[2, 3]).await {
        println!("{error}");
        println!("{:?} {} {} {:?} {:?}", error.code(), error.reason(), error.field(), error.line(), error.column());
    }
    let parsed = client.parse_map("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [-8, 8]").await?;
    let map = xlashape::EvaluableMap::try_from(parsed)?;
    println!("{:?} {:?}", map.evaluate(&[-3])?, map.evaluate(&[9])?);
    Ok(())
}
