/** Indexing maps that are evaluated here, without a server. */

import { present } from "./answers.js";
import { mistake } from "./errors.js";
import { evaluateAll, evaluateExactly } from "./evaluation.js";
import type { IndexingMap, MapOutput } from "./gen/xlashape/v1/types_pb.js";
import { type Integers, toInt64Array } from "./integers.js";
import { type Plan, planOf } from "./plan.js";

/** The results at many points. */
export interface Evaluated<Numbers> {
  /** The results for the points one after another; 0 for points outside the domain. */
  results: Numbers;
  /** For each point whether it is in the domain. */
  inDomain: boolean[];
}

/**
 * An indexing map that is evaluated here: a function from the points of a domain to tuples of integers.
 *
 * ```ts
 * const map = new EvaluableMap(await client.parseMap("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [-8, 8]"));
 * map.evaluate([-3]); // [-1n, 1n]
 * map.evaluate([9]); // undefined: outside the domain
 * ```
 *
 * Divisions round towards minus infinity, or up for `ceildiv`, and a remainder is never negative. Values between may have 128 bits.
 */
export class EvaluableMap {
  /** The message that the map was made of. It must not be changed. */
  readonly message: IndexingMap;
  /** How many numbers a point has: one for each dimension, range and runtime variable, in this order. */
  readonly variableCount: number;
  /** How many numbers the map gives for a point. */
  readonly resultCount: number;
  private readonly plan: Plan;

  /**
   * Checks a map, such as one of an answer, and prepares it for evaluation.
   *
   * Throws an {@link XlashapeError} with reason `INVALID_MAP` if the map is undefined, or if an expression uses itself, a later one, a variable that does not
   * exist, a divisor that is not a positive constant, or too few operands.
   */
  constructor(map: IndexingMap | MapOutput) {
    this.message = map.$typeName === "xlashape.v1.MapOutput" ? present(map.map) : map;
    this.plan = planOf(this.message);
    this.variableCount = this.plan.bounds.length;
    this.resultCount = this.plan.results.length;
  }

  /**
   * The results at a point; undefined if the point is not in the domain.
   *
   * Throws an {@link XlashapeError} with reason `INVALID_INDEX` for a point of too few or too many numbers, `SIZE_OVERFLOW` for a result of more than 64 bits, and for a value on
   * the way to the results or to a constraint of more than 128 bits.
   */
  evaluate(point: Integers): bigint[] | undefined {
    this.checkLength(point, 1);
    return evaluateExactly(this.plan, point, 0);
  }

  /**
   * The results at many points, which stand one after another. `count`, the number of points, is needed for a map without variables alone.
   *
   * The errors are those of {@link EvaluableMap.evaluate}.
   */
  evaluateBatch(points: Integers, count = this.countOf(points)): Evaluated<BigInt64Array> {
    this.checkLength(points, count);
    const results = new BigInt64Array(count * this.resultCount);
    return { results, inDomain: evaluateAll(this.plan, toInt64Array(points, "points"), results, count) };
  }

  /**
   * The same with numbers alone: `points` holds safe integers, and so do the results.
   *
   * Throws an {@link XlashapeError} with reason `SIZE_OVERFLOW` too if a result is not a safe integer, and `INVALID_ARGUMENT` if a number of a point is not an integer.
   */
  evaluateNumbers(points: ArrayLike<number>, count = this.countOf(points)): Evaluated<Float64Array> {
    this.checkLength(points, count);
    const results = new Float64Array(count * this.resultCount);
    return { results, inDomain: evaluateAll(this.plan, points, results, count) };
  }

  private countOf(points: ArrayLike<unknown>): number {
    return this.variableCount === 0 ? 1 : points.length / this.variableCount;
  }

  private checkLength(points: ArrayLike<unknown>, count: number): void {
    const width = this.variableCount;
    if (!Number.isSafeInteger(count) || count < 0 || points.length !== count * width) {
      const expected = `${Number.isSafeInteger(count) ? `${count} points` : "points"} of ${width} variables`;
      throw mistake("INVALID_INDEX", "points", `${expected} do not have ${points.length} numbers`);
    }
  }
}
