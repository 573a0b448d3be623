import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";

import { EvaluableMap, XlashapeError } from "../src/node.js";
import { Expression_Kind as Kind, IndexingMapSchema } from "../src/schema.js";

const MOST = 2n ** 63n - 1n;
const LEAST = -(2n ** 63n);

/** d0 with any value, combined with 1. */
function message(kind: Kind, fitsInt64: boolean) {
  return create(IndexingMapSchema, {
    dimensions: [{ bounds: { lower: LEAST, upper: MOST } }],
    expressions: [{ kind: Kind.DIMENSION }, { kind: Kind.CONSTANT, value: 1n }, { kind, operands: [0, 1] }],
    results: [2],
    fitsInt64,
  });
}

function refused(reason: string) {
  return (error: unknown) => error instanceof XlashapeError && error.reason === reason;
}

test("a map that does not fit is for the server", () => {
  assert.throws(() => new EvaluableMap(message(Kind.ADD, false)), refused("SIZE_OVERFLOW"));
});

test("a map that lies wraps around", () => {
  assert.deepEqual(new EvaluableMap(message(Kind.ADD, true)).evaluate([MOST]), [LEAST]);
  assert.deepEqual(new EvaluableMap(message(Kind.MULTIPLY, true)).evaluate([MOST]), [MOST]);
});

test("numbers of points are safe integers, or bigints of 64 bits, and a point has one for each variable", () => {
  const map = new EvaluableMap(message(Kind.ADD, true));
  assert.deepEqual(map.evaluateBatch([1, 2]), { results: BigInt64Array.of(2n, 3n), inDomain: [true, true] });
  assert.deepEqual([...map.evaluateBatch(BigInt64Array.of(9n, -5n, 3n, 9n).subarray(1, 3)).results], [-4n, 4n]);
  for (const wrong of [2 ** 53, 0.5, NaN, 2n ** 63n]) {
    assert.throws(() => map.evaluate([wrong]), refused("INVALID_ARGUMENT"));
  }
  assert.throws(() => map.evaluate([1, 2]), refused("INVALID_INDEX"));
  assert.throws(() => map.evaluateBatch([1], 0.5), refused("INVALID_INDEX"));
});
