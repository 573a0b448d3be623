// Prints the peak of a program's memory, the largest buffers at the peak, and what a fusion reads.
//
//     node examples/peak.js localhost:50051 attention.hlo.pb ynn_fusion.4

import { readFile } from "node:fs/promises";

import { connect, Reason, XlashapeError } from "@xlashape/client";

const [address, file, instruction] = process.argv.slice(2);
if (address === undefined || file === undefined || instruction === undefined) {
  throw new Error("usage: node examples/peak.js HOST:PORT FILE FUSION");
}
const client = connect({ address });
const module = { serialized: await readFile(file) };
try {
  const memory = await client.memory({ module, pageSize: 3 });
  console.log(`peak ${memory.totals?.peakBytes}`);
  for (const { name, bytes, shape } of memory.peakBuffers) {
    console.log(`${name} ${bytes} ${shape}`);
  }
  for await (const { operandName, map } of client.indexingMapsRows({ module, instruction })) {
    console.log(`${operandName} ${map}`);
  }
} catch (error) {
  if (!(error instanceof XlashapeError) || error.reason !== Reason.notFound) {
    throw error;
  }
  console.log(`${error.reason} ${error.field} ${error.details.name}`);
} finally {
  client.close();
}
