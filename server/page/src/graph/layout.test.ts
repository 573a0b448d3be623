import assert from "node:assert/strict";
import { test } from "node:test";
import { type Layout, layout } from "./layout.js";

function of(count: number, edges: readonly (readonly [number, number])[], width = 80): Layout {
  return layout({
    widths: new Float32Array(count).fill(width),
    heights: new Float32Array(count).fill(30),
    from: Int32Array.from(edges, ([a]) => a),
    to: Int32Array.from(edges, ([, b]) => b),
  });
}

/** A generator of numbers below a bound, the same in each run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function randomGraph(seed: number, count: number, edges: number): [number, number][] {
  const next = numbers(seed);
  return Array.from({ length: edges }, () => {
    const to = 1 + next(count - 1);
    return [Math.max(0, to - 1 - next(30)), to];
  });
}

function check(count: number, edges: readonly (readonly [number, number])[], made: Layout): void {
  edges.forEach(([a, b], e) => {
    const [first, end] = [made.starts[e]!, made.starts[e + 1]!];
    if (a === b) return assert.equal(first, end);
    assert.notEqual(made.layer[a], made.layer[b]);
    assert.ok(end - first >= 2);
    const ys = Array.from({ length: end - first }, (_, i) => made.points[2 * (first + i) + 1]!);
    const isDown = made.layer[a]! < made.layer[b]!;
    assert.equal(ys[0], made.y[a]! + (isDown ? 15 : -15));
    assert.equal(ys.at(-1), made.y[b]! + (isDown ? -15 : 15));
    assert.deepEqual(ys, ys.toSorted((p, q) => (isDown ? p - q : q - p)));
    assert.ok(Math.abs(made.points[2 * first]! - made.x[a]!) <= 40 && Math.abs(made.points[2 * end - 2]! - made.x[b]!) <= 40);
  });
  const rows = new Map<number, number[]>();
  for (let node = 0; node < count; node++) rows.set(made.layer[node]!, [...(rows.get(made.layer[node]!) ?? []), made.x[node]!]);
  for (const row of rows.values()) {
    row.sort((p, q) => p - q);
    for (let i = 1; i < row.length; i++) assert.ok(row[i]! - row[i - 1]! >= 80, "nodes of a layer overlap");
    assert.ok(row[0]! >= 39.9 && row.at(-1)! <= made.width - 39.9);
  }
}

test("an edge leads to a lower layer, routes meet their nodes, and nodes do not overlap", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const count = 2 + seed * 3;
    const edges = randomGraph(seed, count, Math.floor(count * 1.6));
    const made = of(count, edges);
    check(count, edges, made);
    for (const [a, b] of edges) assert.ok(made.layer[a]! < made.layer[b]!);
  }
});

test("cycles and edges of a node to itself end in a layout", () => {
  const next = numbers(7);
  for (let round = 0; round < 60; round++) {
    const count = 2 + next(20);
    const edges = Array.from({ length: 30 }, () => [next(count), next(count)] as const);
    check(count, edges, of(count, edges));
  }
});

test("a chain is straight, a tree has no crossings, and operands of one use lie right above it", () => {
  const chain = of(4, [[0, 1], [1, 2], [2, 3], [0, 3]]);
  assert.ok(Math.abs(chain.x[1]! - chain.x[2]!) < 12, `${chain.x}`);
  const tree = Array.from({ length: 62 }, (_, i) => [i >> 1, i + 1] as const);
  const made = of(63, tree);
  for (const [e, [a, b]] of tree.entries()) {
    for (const [c, d] of tree.slice(e + 1)) {
      if (made.layer[a] === made.layer[c] && a !== c) assert.ok((made.x[a]! - made.x[c]!) * (made.x[b]! - made.x[d]!) > 0);
    }
  }
  const late = of(5, [[0, 1], [1, 2], [2, 3], [4, 3]]);
  assert.equal(late.layer[4], 2);
});

test("no nodes, one node, no edges", () => {
  assert.deepEqual([of(0, []).width, of(0, []).height], [0, 0]);
  assert.deepEqual([of(1, []).width, of(1, []).height], [80, 30]);
  check(5, [], of(5, []));
});

test("a graph of very many long edges keeps most of them, and cuts the longest", () => {
  const count = 3000;
  const edges: [number, number][] = [];
  for (let i = 1; i < count; i++) edges.push([i - 1, i]);
  for (let i = 0; i + 900 < count; i += 2) edges.push([i, i + 900]);
  const made = of(count, edges);
  assert.ok(made.dummies <= 150_000);
  const cut = edges.filter((_, e) => made.starts[e] === made.starts[e + 1]);
  assert.ok(cut.length > 0 && cut.every(([a, b]) => b - a === 900));
});
