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
for await (const { instruction, opcode, reads } of client.operandReads({ module, reportErrors: true })) {
  if (opcode !== "fusion") {
    continue;
  }
  console.log(instruction);
  for (const { operandName, distinctElements = "an unknown number", elements, accesses } of reads) {
    console.log(`  ${operandName}: ${distinctElements} of ${elements} elements`);
    for (const { map } of accesses) {
      console.log(`    ${map?.text}`);
    }
  }
}
client.close();
