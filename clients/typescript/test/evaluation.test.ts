import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";

import { EvaluableMap, XlashapeError } from "../src/node.js";
import { Expression_Kind as Kind, IndexingMapSchema } from "../src/schema.js";

const MOST = 2n ** 63n - 1n;
const LEAST = -(2n ** 63n);

function refused(reason: string, message?: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof XlashapeError, String(error));
    assert.equal(error.reason, reason);
    assert.match(error.message, message ?? /./);
    return true;
  };
}

/** An expression: a variable by its number, a constant, or an operation on earlier expressions. */
type Node = number | bigint | readonly [kind: keyof typeof Kind, left: number, right: number];

interface Parts {
  dimensions: (readonly [lower: bigint, upper: bigint])[];
  nodes: Node[];
  results: number[];
  constraints?: (readonly [expression: number, lower: bigint, upper: bigint])[];
}

function mapOf({ dimensions, nodes, results, constraints = [] }: Parts): EvaluableMap {
  return new EvaluableMap(create(IndexingMapSchema, {
    dimensions: dimensions.map(([lower, upper]) => ({ bounds: { lower, upper } })),
    expressions: nodes.map((node) => typeof node === "number" ? { kind: Kind.DIMENSION, value: BigInt(node) }
      : typeof node === "bigint" ? { kind: Kind.CONSTANT, value: node } : { kind: Kind[node[0]], operands: node.slice(1) as number[] }),
    results,
    constraints: constraints.map(([expression, lower, upper]) => ({ expression, bounds: { lower, upper } })),
  }));
}

test("division rounds down, ceildiv up, and a remainder is never negative", () => {
  const map = mapOf({
    dimensions: [[-9n, 9n]],
    nodes: [0, 4n, -1n, 2n, ["FLOOR_DIVIDE", 0, 1], ["CEIL_DIVIDE", 0, 1], ["MODULO", 0, 1], ["MULTIPLY", 0, 2], ["MINIMUM", 0, 3], ["MAXIMUM", 0, 3]],
    results: [4, 5, 6, 7, 8, 9],
  });
  const floor = (a: number, b: number) => Math.floor(a / b);
  for (let i = -9; i <= 9; i++) {
    const expected = [floor(i, 4), -floor(-i, 4) + 0, i - 4 * floor(i, 4), -i + 0, Math.min(i, 2), Math.max(i, 2)];
    assert.deepEqual(map.evaluate([i]), expected.map(BigInt));
    assert.deepEqual(map.evaluate([BigInt(i)]), expected.map(BigInt));
    assert.deepEqual([...map.evaluateBatch([i]).results], expected.map(BigInt));
    assert.deepEqual([...map.evaluateNumbers([i]).results], expected);
  }
  assert.equal(map.evaluate([10]), undefined);
  assert.deepEqual(map.evaluateBatch([-10, 9]).inDomain, [false, true]);
});

test("numbers and bigints give the same, around 2^51, 2^53, 2^63 and at random", () => {
  const map = mapOf({
    dimensions: [[LEAST, MOST], [LEAST, MOST]],
    nodes: [
      0, 1, 7n, 4503599627370497n, 9007199254740881n, 2n, 3n, 5n, -1n,
      ["ADD", 0, 1], ["FLOOR_DIVIDE", 9, 2], ["MULTIPLY", 1, 8], ["ADD", 0, 11], ["CEIL_DIVIDE", 12, 3], ["MULTIPLY", 0, 6], ["ADD", 14, 1], ["MODULO", 15, 4],
      ["MINIMUM", 0, 1], ["FLOOR_DIVIDE", 17, 5], ["MULTIPLY", 1, 7], ["MAXIMUM", 0, 19], ["MODULO", 20, 6], ["MODULO", 9, 7], ["MULTIPLY", 0, 1],
    ],
    results: [10, 13, 16, 18, 21],
    constraints: [[22, 0n, 3n], [23, LEAST + 1n, MOST - 1n]],
  });
  const points: bigint[] = [];
  let seed = 1n;
  const random = () => (seed = BigInt.asUintN(64, seed * 6364136223846793005n + 1442695040888963407n)) >> 8n;
  const edges = [0n, 1n, 2n ** 31n, 2n ** 51n, 2n ** 53n, 2n ** 62n].flatMap((edge) => [-2n, -1n, 0n, 1n, 2n].flatMap((by) => [edge + by, -edge + by]));
  for (let i = 0; i < 20_000; i++) {
    const one = () => (random() % 2n ? edges[Number(random() % BigInt(edges.length))]! : BigInt.asIntN(Number(1n + (random() % 63n)), random()));
    points.push(one(), one());
  }
  const { results, inDomain } = map.evaluateBatch(BigInt64Array.from(points));
  let inside = 0;
  for (let i = 0; i < points.length / 2; i++) {
    const expected = map.evaluate(points.slice(2 * i, 2 * i + 2));
    assert.equal(inDomain[i], expected !== undefined);
    assert.deepEqual([...results.subarray(5 * i, 5 * i + 5)], expected ?? [0n, 0n, 0n, 0n, 0n]);
    inside += Number(inDomain[i]);
  }
  assert.ok(inside > 5000 && inside < 19_000, String(inside));
});

test("floor and ceiling of quotients of safe integers are exact as numbers", () => {
  const most = BigInt(Number.MAX_SAFE_INTEGER);
  for (const divisor of [2n, 3n, 7n, 2n ** 26n + 1n, 94906265n, 2n ** 51n - 1n, most - 1n, most]) {
    const map = mapOf({
      dimensions: [[-most, most]], nodes: [0, divisor, ["FLOOR_DIVIDE", 0, 1], ["CEIL_DIVIDE", 0, 1], ["MODULO", 0, 1]], results: [2, 3, 4],
    });
    const points = [most / divisor, 1n, most / divisor / 2n].flatMap((k) => [-1n, 0n, 1n].flatMap((by) => [k * divisor + by, -k * divisor + by]));
    const used = [...points, most, -most].filter((point) => point <= most && point >= -most);
    const { results } = map.evaluateNumbers(used.map(Number));
    assert.deepEqual([...results].map(BigInt), used.flatMap((point) => map.evaluate([point])!));
  }
});

test("what does not fit is an error, not a wrong number", () => {
  const square = mapOf({ dimensions: [[LEAST, MOST]], nodes: [0, ["MULTIPLY", 0, 0]], results: [1] });
  assert.deepEqual(square.evaluate([3037000499]), [9223372030926249001n]);
  assert.throws(() => square.evaluate([3037000500n]), refused("SIZE_OVERFLOW", /result 0 does not fit int64: 9223372037000250000/));
  assert.throws(() => square.evaluateBatch([1, 3037000500]), refused("SIZE_OVERFLOW"));
  assert.throws(() => square.evaluateNumbers([94906267]), refused("SIZE_OVERFLOW", /not a safe integer: 9007199515875289/));
  assert.deepEqual([...square.evaluateNumbers([94906265]).results], [9007199136250225]);
  assert.throws(() => square.evaluate([2 ** 53]), refused("INVALID_ARGUMENT", /points\[0\]: expected a safe integer, found 9007199254740992/));
  assert.throws(() => square.evaluateNumbers([0.5]), refused("INVALID_ARGUMENT"));
  assert.throws(() => square.evaluateNumbers([NaN]), refused("INVALID_ARGUMENT"));
  assert.throws(() => square.evaluate([2n ** 63n]), refused("INVALID_ARGUMENT", /64 bits/));
  const tower = create(IndexingMapSchema, {
    expressions: [
      { kind: Kind.CONSTANT, value: MOST },
      ...Array.from({ length: 40 }, (_, i) => ({ kind: Kind.MULTIPLY, operands: [i, i] })),
    ],
    results: [40],
  });
  assert.throws(() => new EvaluableMap(tower).evaluate([]), refused("SIZE_OVERFLOW", /more than 128 bits/));
});

test("points of wrong length", () => {
  const map = mapOf({ dimensions: [[0n, 3n], [0n, 3n]], nodes: [0], results: [0] });
  for (const wrong of [() => map.evaluate([1]), () => map.evaluateBatch([1, 2, 3]), () => map.evaluateBatch([1, 2], 2), () => map.evaluateNumbers([1])]) {
    assert.throws(wrong, refused("INVALID_INDEX"));
  }
  assert.deepEqual(map.evaluateBatch([]), { results: new BigInt64Array(), inDomain: [] });
  const none = mapOf({ dimensions: [], nodes: [5n], results: [0] });
  assert.deepEqual(none.evaluate([]), [5n]);
  assert.deepEqual(none.evaluateBatch([], 3), { results: BigInt64Array.of(5n, 5n, 5n), inDomain: [true, true, true] });
});

test("a view into the middle of a larger array", () => {
  const map = mapOf({ dimensions: [[-5n, 5n]], nodes: [0, 2n, ["MULTIPLY", 0, 1]], results: [2] });
  assert.deepEqual([...map.evaluateBatch(BigInt64Array.of(9n, -5n, 3n, 9n).subarray(1, 3)).results], [-10n, 6n]);
});

test("shared expressions are computed once", () => {
  const nodes: Node[] = [0, ...Array.from({ length: 60 }, (_, i) => ["ADD", i, i] as const)];
  assert.deepEqual(mapOf({ dimensions: [[0n, 0n]], nodes, results: [60] }).evaluate([0]), [0n]);
});
