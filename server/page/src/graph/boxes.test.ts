/** The boxes of graphs of real programs: answers of Graph in the files of the folder XLASHAPE_GRAPHS, which tests/page/test_graphs.py writes. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import type { Client } from "@xlashape/client/browser";
import { GraphResponseSchema } from "@xlashape/client/gen/xlashape/v1/view_service_pb";

import { Program } from "../program.js";
import { type Graph, graphOf } from "./model.js";
import { MOST_BOXES, scopesOf } from "./parts.js";

const folder = process.env["XLASHAPE_GRAPHS"];
const MOST_OPENED = 4; // of a level

/** Whether no way along edges comes back: nodes that nothing left leads to are taken away, until none is left. */
function isAcyclic({ nodes, edges }: Pick<Graph, "nodes" | "edges">): boolean {
  let left = new Set(nodes.keys());
  for (let before = Infinity; left.size < before; ) {
    before = left.size;
    const entered = new Set(edges.filter(({ from }) => left.has(from)).map(({ to }) => to));
    left = new Set([...left].filter((node) => entered.has(node)));
  }
  return left.size === 0;
}

for (const file of folder ? readdirSync(folder) : []) {
  test(`${file} has 1 to ${MOST_BOXES} boxes, whatever is opened, no cycle between them, and every instruction in one of them`, async () => {
    const graph = fromBinary(GraphResponseSchema, readFileSync(join(folder!, file)));
    const program = new Program(file, { graph: async () => graph } as unknown as Client);
    await program.ready;
    const computation = program.entryFirst()[0]!.computation;
    const shown = (opened: string[]) => {
      const { nodes, edges, count, opened: open } = graphOf(program, { grouping: "layers", computation, opened });
      assert.ok(nodes.length >= 1 && nodes.length <= MOST_BOXES, `${nodes.length} boxes with ${opened} open`);
      assert.equal(new Set(nodes.map(({ key }) => key)).size, nodes.length);
      assert.equal(nodes.reduce((sum, node) => sum + node.rows.length, 0), count);
      assert.ok(edges.every(({ from, to }) => nodes[from] && nodes[to]));
      assert.ok(isAcyclic({ nodes, edges }), `a cycle with ${opened} open`);
      return { nodes, open: [...open.keys()] };
    };
    const start = shown([]);
    const opened: string[] = [];
    for (let { nodes } = start; ; ) {
      const groups = nodes.filter(({ kind, key }) => kind === "group" && (opened.length === 0 || key.startsWith(`${opened.at(-1)}/`)));
      for (const { key } of groups.slice(0, MOST_OPENED)) assert.ok(shown([...opened, key]).open.includes(key), `${key} stays closed`);
      const largest = groups.sort((a, b) => b.rows.length - a.rows.length)[0];
      if (!largest) break;
      opened.push(largest.key);
      nodes = shown(opened).nodes;
    }
    // One after the other, without closing any.
    const all: string[] = [];
    for (const { key, kind } of start.nodes) if (kind === "group") shown((all.push(key), all));
    const called = start.nodes.flatMap(({ rows }) => rows).filter((row) => program.callsOf(row).length > 0).slice(0, MOST_OPENED);
    for (const { name } of called) shown([name]);
    const computations = graphOf(program, { grouping: "computations", computation });
    assert.ok(computations.nodes.length <= MOST_BOXES && isAcyclic(computations));
  });
}

test("the layers of a name are its scopes without what JAX wraps around them", () => {
  assert.deepEqual(scopesOf("jit(step)/transpose(jvp(transformer))/layer_3/attention/dot_general"), ["backward", "transformer", "layer_3", "attention"]);
  assert.deepEqual(scopesOf("jit(f)/jit(main)/mlp/while/body/add"), ["mlp"]);
  assert.deepEqual(scopesOf("jit(f)/add"), []);
});
