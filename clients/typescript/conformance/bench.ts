/** Measures the TypeScript client for tests/benchmarks/bench_clients.py: it prints one JSON object of times in microseconds. */

import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import { connect, EvaluableMap } from "../src/node.js";
import { ShapeService } from "../src/schema.js";

const CALLS = 2000;
const POINTS = 1_000_000;
const SHAPE = "bf16[20,300]{1,0:T(8,128)(2,1)}";
const TEXT = "(d0, d1) -> ((d0 * 128 + d1) floordiv 8, (d0 * 128 + d1) mod 8), domain: d0 in [0, 7999], d1 in [0, 127]";

async function micros(run: () => unknown): Promise<number> {
  const start = process.hrtime.bigint();
  await run();
  return Number(process.hrtime.bigint() - start) / 1000;
}

function median(times: number[]): number {
  return times.sort((a, b) => a - b)[times.length >> 1]!;
}

async function best(run: () => unknown): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < 5; i++) {
    times.push(await micros(run));
  }
  return Math.min(...times);
}

const address = process.argv[2] ?? "localhost:50051";
const client = connect({ address });
const stub = createClient(ShapeService, createGrpcTransport({ baseUrl: `http://${address}` }));
const ours: number[] = [];
const bare: number[] = [];
for (let i = 0; i < CALLS; i++) {
  ours.push(await micros(() => client.byteSize(SHAPE)));
  bare.push(await micros(() => stub.byteSize({ shapes: [{ form: { case: "text", value: SHAPE } }] })));
}
const numbers = BigInt64Array.from({ length: 2 * POINTS }, (_, i) => BigInt(i % 2 ? (i >> 1) % 128 : Math.floor((i >> 1) / 128)));
const map = new EvaluableMap(await client.parseMap(TEXT));
console.log(JSON.stringify({
  small_call: median(ours),
  bare_stub: median(bare),
  million_indices: await best(() => client.linearIndices("f32[8000,128]{1,0:T(8,128)}", numbers)),
  evaluate_here: await best(() => map.evaluateBatch(numbers)),
  evaluate_there: await best(() => client.evaluateMap(TEXT, numbers)),
}));
client.close();
process.exit(0); // the stub's connection is still open
