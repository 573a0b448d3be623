import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { create, fromJson } from "@bufbuild/protobuf";

import { IndexingMap, XlashapeError } from "../src/node.js";
import { Expression_Kind as Kind, IndexingMapSchema } from "../src/schema.js";

const CASES = new URL("../../../../tests/conformance/cases/maps.jsonl", import.meta.url);
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

test("division rounds down, ceildiv up, and a remainder is never negative", () => {
  const map = IndexingMap.parse("(d0) -> (d0 / 4, d0 ceildiv 4, d0 mod 4, -d0, min(d0, 2), max(d0, 2)), domain: d0 in [-9, 9]");
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
  const wide = `[${LEAST}, ${MOST}]`;
  const map = IndexingMap.parse(
    `(d0, d1) -> ((d0 + d1) / 7, (d0 - d1) ceildiv 4503599627370497, (d0 * 3 + d1) mod 9007199254740881, min(d0, d1) / 2, max(d0, d1 * 5) mod 3),` +
      ` domain: d0 in ${wide}, d1 in ${wide}, (d0 + d1) mod 5 in [0, 3], d0 * d1 in [-9223372036854775807, 9223372036854775806]`,
  );
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
    const map = IndexingMap.parse(`(d0) -> (d0 / ${divisor}, d0 ceildiv ${divisor}, d0 mod ${divisor}), domain: d0 in [-${most}, ${most}]`);
    const points = [most / divisor, 1n, most / divisor / 2n].flatMap((k) => [-1n, 0n, 1n].flatMap((by) => [k * divisor + by, -k * divisor + by]));
    const used = [...points, most, -most].filter((point) => point <= most && point >= -most);
    const { results } = map.evaluateNumbers(used.map(Number));
    assert.deepEqual([...results].map(BigInt), used.flatMap((point) => map.evaluate([point])!));
  }
});

test("what does not fit is an error, not a wrong number", () => {
  const square = IndexingMap.parse(`(d0) -> (d0 * d0), domain: d0 in [${LEAST}, ${MOST}]`);
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
  assert.throws(() => new IndexingMap(tower).evaluate([]), refused("SIZE_OVERFLOW", /more than 128 bits/));
});

test("points of wrong length", () => {
  const map = IndexingMap.parse("(d0, d1) -> (d0), domain: d0 in [0, 3], d1 in [0, 3]");
  for (const wrong of [() => map.evaluate([1]), () => map.evaluateBatch([1, 2, 3]), () => map.evaluateBatch([1, 2], 2), () => map.evaluateNumbers([1])]) {
    assert.throws(wrong, refused("INVALID_INDEX"));
  }
  assert.deepEqual(map.evaluateBatch([]), { results: new BigInt64Array(), inDomain: [] });
  const none = IndexingMap.parse("() -> (5)");
  assert.deepEqual(none.evaluate([]), [5n]);
  assert.deepEqual(none.evaluateBatch([], 3), { results: BigInt64Array.of(5n, 5n, 5n), inDomain: [true, true, true] });
});

test("a view into the middle of a larger array", () => {
  const map = IndexingMap.parse("(d0) -> (d0 * 2), domain: d0 in [-5, 5]");
  assert.deepEqual([...map.evaluateBatch(BigInt64Array.of(9n, -5n, 3n, 9n).subarray(1, 3)).results], [-10n, 6n]);
});

test("the text of maps is that of the library, and reads as the same map", () => {
  let compared = 0;
  for (const line of readFileSync(CASES, "utf8").trimEnd().split("\n")) {
    const { name, evaluation } = JSON.parse(line) as { name: string; evaluation: { map: string; points: (number | string)[][] } };
    if (!/^maps\/(xla|near_int64)\//.test(name) || typeof evaluation.map !== "string") {
      continue;
    }
    const map = IndexingMap.parse(evaluation.map);
    const again = IndexingMap.parse(map.toString());
    assert.equal(again.toString(), map.toString());
    for (const point of evaluation.points.filter((one) => one.every(Number.isSafeInteger))) {
      const values = point.map(BigInt);
      assert.deepEqual(again.evaluate(values), map.evaluate(values), name);
    }
    compared++;
  }
  assert.ok(compared > 1900, String(compared));
});

test("text as XLA writes it", () => {
  for (const text of [
    "(d0, d1)[s0]{rt0} -> ((d0 * 5 - d1) / 7, (d1 - s0 * 3) mod 11, d0 - d1 / 2, -d0, min(d0, 3), rt0), domain: d0 in [0, 999], d1 in [0, 700], s0 in [0, 4], rt0 in [0, 1], d0 + d1 in [0, 1500]",
    "(d0) -> (d0 - 5, (d0 - 1) * -3, d0 * (d0 + 1), -(d0 / 3), d0 mod 3 mod 2, (d0 * 3) mod 5, d0 + 1 + d0 - 2, (d0 / 3) * 3, d0 ceildiv 3), domain: d0 in [0, 3]",
    "(th_x, d1) -> (th_x + d1), domain: th_x in [0, 3], d1 in [-9223372036854775808, 9223372036854775807]",
    "() -> ()",
    "() -> (5)",
    "KNOWN EMPTY",
  ]) {
    assert.equal(IndexingMap.parse(text).toString(), text);
  }
});

test("mistakes in text", () => {
  for (const [text, line, column, message] of [
    ["", 1, 1, "expected '(', found the end of the text"],
    ["(d0) -> (d0), domain:", 1, 22, "expected an interval for 'd0', found the end of the text"],
    ["(d0) ->\n(d0 +)", 2, 6, "expected an expression, found ')'"],
    ["(d0) -> (d1)", 1, 10, "expected a variable of the map, found 'd1'"],
    ["(d0, d0) -> ()", 1, 6, "expected the name of a new variable, found 'd0'"],
    ["(d0,) -> ()", 1, 5, "expected the name of a new variable, found ')'"],
    ["(d0) -> (min(d0)), domain: d0 in [0, 1]", 1, 16, "expected ',', found ')'"],
    ["() -> (9223372036854775808)", 1, 8, "expected an integer of 64 bits, found '9223372036854775808'"],
    [`() -> (${"9".repeat(100_000)})`, 1, 8, `expected an integer of 64 bits, found '${"9".repeat(40)}'`],
    ["() -> (1) \u{1f600}", 1, 11, "expected the end of the text, found '\u{1f600}'"],
  ] as const) {
    assert.throws(() => IndexingMap.parse(text), (error: unknown) => {
      assert.ok(error instanceof XlashapeError);
      assert.deepEqual([error.reason, error.line, error.column, error.rawMessage], ["PARSE", line, column, message]);
      return true;
    });
  }
  assert.throws(() => IndexingMap.parse("(d0) -> (d0 / 0), domain: d0 in [0, 1]"), refused("INVALID_MAP", /not a positive constant/));
  assert.throws(() => IndexingMap.parse("UNDEFINED"), refused("INVALID_MAP"));
  assert.equal(IndexingMap.parse("() -> (-9223372036854775808)").evaluate([])![0], LEAST);
});

test("deep and shared expressions take a bounded stack, and no endless text", () => {
  const deep = (levels: number) => `(d0) -> (${"(".repeat(levels)}d0${" + 1)".repeat(levels)}), domain: d0 in [0, 1]`;
  assert.deepEqual(IndexingMap.parse(deep(900)).evaluate([1]), [901n]);
  assert.deepEqual([...IndexingMap.parse(deep(900)).evaluateBatch([1, 0]).results], [901n, 900n]);
  assert.throws(() => IndexingMap.parse(deep(100_000)), refused("PARSE", /at most 1000 levels/));
  assert.throws(() => IndexingMap.parse(`(d0) -> (${"-".repeat(100_000)}d0), domain: d0 in [0, 1]`), refused("PARSE"));
  const shared = fromJson(IndexingMapSchema, {
    dimensions: [{ bounds: { upper: "0" } }],
    expressions: [{ kind: "KIND_DIMENSION" }, ...Array.from({ length: 60 }, (_, i) => ({ kind: "KIND_ADD", operands: [i, i] }))],
    results: [60],
  });
  assert.deepEqual(new IndexingMap(shared).evaluate([0]), [0n]);
  assert.throws(() => new IndexingMap(shared).toString(), refused("LIMIT_EXCEEDED"));
});
