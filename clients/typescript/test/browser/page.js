// Asks the server of the page over Connect, and posts the answers to /result. tests/conformance/test_browser.py serves this
// page to a browser, and compares the answers with the library.

import { Code, connect, EvaluableMap, toJson, XlashapeError } from "../../dist/browser.js";

const TILED = "bf16[3000,4000]{1,0:T(8,128)(2,1)}";
const COUNT = 600_000;

/** @param {Promise<unknown>} promise */
async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error instanceof XlashapeError ? error : String(error);
  }
  return "no error";
}

async function ask() {
  const client = connect();
  const content = await (await fetch("/attention.hlo.pb")).blob();
  const first = await client.uploadModule(content);
  const second = await client.uploadModule(content);
  const names = [];
  for await (const { name } of client.listInstructions({ module: first.module, pageSize: 10 })) {
    names.push(name);
  }
  const mapped = [];
  for await (const { instruction } of client.indexingMapsRows({ module: first.module, pageSize: 7 })) {
    mapped.push(instruction);
  }
  const rows = new BigInt64Array(2 * COUNT);
  for (let i = 0; i < COUNT; i++) {
    rows[2 * i] = BigInt((i * 7919) % 3000);
    rows[2 * i + 1] = BigInt((i * 7919) % 4000);
  }
  const positions = await client.linearIndices(TILED, rows);
  const back = await client.multiIndices(TILED, positions);
  const wrongRows = rows.slice();
  wrongRows[1_000_001] = 4000n;
  const aborted = new AbortController();
  const slow = client.linearIndices(TILED, rows, { signal: aborted.signal });
  aborted.abort();
  const answers = {
    size: toJson(await client.byteSize(TILED)),
    module: first.module.name,
    sent: second.sent,
    content: (await client.downloadModule(first.module.name)).length,
    names,
    mapped,
    sum: String(positions.reduce((sum, position) => sum + position, 0n)),
    isSame: back.indices.every((value, i) => value === rows[i]) && back.isElement.every(Boolean),
    parse: await refusal(client.linearIndex("f32[3,5", [2, 3])),
    index: await refusal(client.linearIndices(TILED, wrongRows)),
    deadline: await refusal(client.linearIndices(TILED, rows, { timeoutMs: 1 })),
    aborted: await refusal(slow),
    nobody: await refusal(connect({ baseUrl: "http://127.0.0.1:1", attempts: 2 }).byteSize("f32[]")),
    map: new EvaluableMap(await client.parseMap("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [-8, 8]")).evaluate([-3])?.map(String),
  };
  client.close();
  return { ...answers, closed: (await refusal(client.byteSize("f32[]"))) instanceof XlashapeError && Code.Canceled === 1 };
}

/** @type {Record<string, unknown>} */
const result = { isSecure: isSecureContext };
try {
  result["connect"] = await ask();
} catch (error) {
  result["error"] = error instanceof Error ? `${error.message}\n${error.stack}` : String(error);
}
await fetch("/result", { method: "POST", body: JSON.stringify(result) });
