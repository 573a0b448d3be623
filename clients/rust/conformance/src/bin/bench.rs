//! Measures the Rust client for `tests/benchmarks/bench_clients.py`: prints one JSON object of times in microseconds.

use std::future::Future;
use std::time::Instant;

use xlashape::v1::shape_service_client::ShapeServiceClient;
use xlashape::v1::{ByteSizeRequest, LinearOrder, ShapeInput};
use xlashape::{Client, EvaluableMap};

const CALLS: usize = 2000;
const POINTS: usize = 1_000_000;
const SHAPE: &str = "bf16[20,300]{1,0:T(8,128)(2,1)}";
const TEXT: &str =
    "(d0, d1) -> ((d0 * 128 + d1) floordiv 8, (d0 * 128 + d1) mod 8), domain: d0 in [0, 7999], d1 in [0, 127]";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: bench HOST:PORT")?;
    let client = Client::connect(&address)?;
    let mut stub = ShapeServiceClient::connect(format!("http://{address}")).await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        ours.push(micros(client.byte_size(SHAPE)).await);
        let request = ByteSizeRequest { shapes: vec![ShapeInput::text(SHAPE)], ..Default::default() };
        bare.push(micros(stub.byte_size(request)).await);
    }
    let numbers: Vec<i64> = (0..POINTS as i64).flat_map(|i| [i / 128, i % 128]).collect();
    let map = EvaluableMap::try_from(client.parse_map(TEXT).await?)?;
    let (mut indices, mut here, mut there) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..5 {
        let shape = "f32[8000,128]{1,0:T(8,128)}";
        indices = indices.min(micros(client.linear_indices(shape, LinearOrder::Physical, numbers.clone())).await);
        here = here.min(micros(async { map.evaluate_batch(&numbers, POINTS) }).await);
        there = there.min(micros(client.evaluate_map(TEXT, numbers.clone())).await);
    }
    println!(
        "{{\"small_call\": {}, \"bare_stub\": {}, \"million_indices\": {indices}, \"evaluate_here\": {here}, \"evaluate_there\": {there}}}",
        median(ours),
        median(bare)
    );
    Ok(())
}

async fn micros<T, E: std::fmt::Debug>(run: impl Future<Output = Result<T, E>>) -> f64 {
    let start = Instant::now();
    run.await.expect("the server answers");
    start.elapsed().as_secs_f64() * 1e6
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
