import assert from "node:assert/strict";
import test from "node:test";

import { type Layer, layersOf, linesOf, partsOf } from "./layers.js";

const amounts = (bytes: number) => ({ instructions: 1, flops: 0, bytes, paddedBytes: bytes, share: 0 });

function outline(layer: Layer): unknown[] {
  return [layer.label, layer.bytes, ...(layer.folded ? [`×${layer.folded}`] : []), ...layer.children.map(outline)];
}

test("names make a tree: chains are joined, numbered members stand together, the largest first", () => {
  const names = ["jit(f)/main/embed/gather", ...Array.from({ length: 4 }, (_, i) => [`jit(f)/main/layer_${i}/attn/dot`, `jit(f)/main/layer_${i}/mlp/dot`]).flat()];
  const tree = layersOf(names.map((name) => [name, amounts(10)]), partsOf);
  const member = (i: number) => [`layer_${i}`, 20, ["attn/dot", 10], ["mlp/dot", 10]];
  assert.deepEqual(outline(tree), ["", 90, ["jit(f)/main", 90, ["layer_*", 80, "×4", member(0), member(1), member(2), member(3)], ["embed/gather", 10]]]);
});

test("what is between parentheses is one part", () => {
  assert.deepEqual(partsOf("transpose(jvp(a/b))/c/d"), ["transpose(jvp(a/b))", "/c", "/d"]);
  assert.deepEqual(partsOf(""), [""]);
  assert.deepEqual(linesOf("a:b/model.py:73"), ["a:b/model.py", ":73"]);
  assert.deepEqual(linesOf("(no source known)"), ["(no source known)"]);
});

test("names of a hundred thousand parts are read", () => {
  assert.equal(layersOf([["a/".repeat(100_000), amounts(1)]], partsOf).bytes, 1);
});
