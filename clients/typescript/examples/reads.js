// Uploads an HLO module and prints what its fusions read.
//
//     node examples/reads.js localhost:50051 attention.hlo.pb

import { openAsBlob } from "node:fs";

import { connect } from "@xlashape/client";

const [address, file] = process.argv.slice(2);
if (address === undefined || file === undefined) {
  throw new Error("usage: node examples/reads.js HOST:PORT FILE");
}
const client = connect({ address });
const { module } = await client.uploadModule(await openAsBlob(file));
for await (const { instruction, opcode, operandName, partRead, map } of client.readsRows({ module })) {
  if (opcode === "fusion" && partRead !== undefined) {
    console.log(`${instruction} reads ${Math.round(100 * partRead)} % of ${operandName}\n  ${map?.replaceAll("\n", "\n  ")}`);
  }
}
client.close();
