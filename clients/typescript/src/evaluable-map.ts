/** Indexing maps that are evaluated here, without a server. */

import { present } from "./answers.js";
import { check } from "./errors.js";
import {
  Expression_Kind as Kind, type IndexingMap, IndexingMap_State as State, type Interval, type MapOutput, type Variable,
} from "./gen/xlashape/v1/types_pb.js";
import { type Integers, toInt64Array } from "./integers.js";

/** The results at many points. */
export interface Evaluated<Numbers> {
  /** The results for the points one after another; 0 for points outside the domain. */
  results: Numbers;
  /** For each point whether it is in the domain. */
  inDomain: boolean[];
}

const DIVISIONS = [Kind.FLOOR_DIVIDE, Kind.CEIL_DIVIDE, Kind.MODULO];

/** The values of operations. Divisors are positive. BigInts divide towards zero, and the remainder has the sign of the dividend. */
const OPERATIONS: Partial<Record<Kind, (a: bigint, b: bigint) => bigint>> = {
  [Kind.ADD]: (a, b) => BigInt.asIntN(64, a + b),
  [Kind.MULTIPLY]: (a, b) => BigInt.asIntN(64, a * b),
  [Kind.FLOOR_DIVIDE]: (a, b) => (a % b < 0n ? a / b - 1n : a / b),
  [Kind.CEIL_DIVIDE]: (a, b) => (a % b > 0n ? a / b + 1n : a / b),
  [Kind.MODULO]: (a, b) => (a % b < 0n ? (a % b) + b : a % b),
  [Kind.MINIMUM]: (a, b) => (a < b ? a : b),
  [Kind.MAXIMUM]: (a, b) => (a > b ? a : b),
};

/**
 * An indexing map that is evaluated here: a function from the points of a domain to tuples of integers.
 *
 * ```ts
 * const map = new EvaluableMap(await client.parseMap("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [-8, 8]"));
 * map.evaluate([-3]); // [-1n, 1n]
 * map.evaluate([9]); // undefined: outside the domain
 * ```
 *
 * Divisions round towards minus infinity, or up for `ceildiv`, and a remainder is never negative.
 */
export class EvaluableMap {
  /** The message that the map was made of. It must not be changed. */
  readonly message: IndexingMap;
  /** How many numbers a point has: one for each dimension, range and runtime variable, in this order. */
  readonly variableCount: number;
  /** How many numbers the map gives for a point. */
  readonly resultCount: number;
  /** The variables of each kind, and the index of the first of them in a point. */
  private readonly groups: Partial<Record<Kind, { variables: Variable[]; first: number }>>;

  /**
   * Checks a map, such as one of an answer, and prepares it for evaluation.
   *
   * Throws an {@link XlashapeError} with reason `SIZE_OVERFLOW` if the map is not marked as one that fits 64 bits, for which there is
   * {@link Client.evaluateMap}, and with reason `INVALID_MAP` if it is undefined or its fields contradict the schema.
   */
  constructor(map: IndexingMap | MapOutput) {
    this.message = map.$typeName === "xlashape.v1.MapOutput" ? present(map.map) : map;
    const { state, fitsInt64, dimensions, ranges, runtime, expressions, results, constraints } = this.message;
    check(state !== State.UNDEFINED && state in State, "INVALID_MAP", "state", `a map in state ${State[state] ?? state} cannot be evaluated`);
    check(fitsInt64, "SIZE_OVERFLOW", "fits_int64", "values of the map may not fit int64: ask the server with EvaluateMap");
    this.groups = {
      [Kind.DIMENSION]: { variables: dimensions, first: 0 },
      [Kind.RANGE]: { variables: ranges, first: dimensions.length },
      [Kind.RUNTIME]: { variables: runtime, first: dimensions.length + ranges.length },
    };
    this.variableCount = dimensions.length + ranges.length + runtime.length;
    this.resultCount = results.length;
    const known = this.valuesAt(new BigInt64Array(this.variableCount)).length; // which values there are is the same at all points
    const isWhole = known === expressions.length && [...results, ...constraints.map(({ expression }) => expression)].every((used) => used < known);
    check(isWhole, "INVALID_MAP", "expressions", `expression ${known} is missing, or not one of the schema on variables and earlier expressions`);
  }

  /**
   * The results at a point; undefined if the point is not in the domain.
   *
   * Throws an {@link XlashapeError} with reason `INVALID_INDEX` for a point of too few or too many numbers.
   */
  evaluate(point: Integers): bigint[] | undefined {
    const { results, inDomain } = this.evaluateBatch(point, 1);
    return inDomain[0] ? [...results] : undefined;
  }

  /**
   * The results at many points, which stand one after another. `count`, the number of points, is needed for a map without variables alone.
   *
   * The errors are those of {@link EvaluableMap.evaluate}.
   */
  evaluateBatch(points: Integers, count = this.variableCount === 0 ? 1 : points.length / this.variableCount): Evaluated<BigInt64Array> {
    const width = this.variableCount;
    const isWhole = Number.isSafeInteger(count) && count >= 0 && points.length === count * width;
    check(isWhole, "INVALID_INDEX", "points", `points of ${width} variables do not have ${points.length} numbers`);
    const numbers = toInt64Array(points, "points");
    const results = new BigInt64Array(count * this.resultCount);
    const inDomain = Array.from({ length: count }, (_, i) => {
      const point = numbers.subarray(i * width, (i + 1) * width);
      const values = this.valuesAt(point);
      const isIn = this.isInDomain(point, values);
      this.message.results.forEach((used, k) => (results[i * this.resultCount + k] = isIn ? values[used]! : 0n));
      return isIn;
    });
    return { results, inDomain };
  }

  private isInDomain(point: BigInt64Array, values: bigint[]): boolean {
    const { state, dimensions, ranges, runtime, constraints } = this.message;
    const isWithin = (value: bigint, bounds?: Interval) => value >= (bounds?.lower ?? 0n) && value <= (bounds?.upper ?? 0n);
    return state !== State.KNOWN_EMPTY && [...dimensions, ...ranges, ...runtime].every(({ bounds }, i) => isWithin(point[i]!, bounds))
      && constraints.every(({ expression, bounds }) => isWithin(values[expression]!, bounds));
  }

  /** The values of the expressions at a point, up to the first expression that contradicts the schema. */
  private valuesAt(point: BigInt64Array): bigint[] {
    const { expressions } = this.message;
    const values: bigint[] = [];
    for (const { kind, value, operands } of expressions) {
      const group = this.groups[kind];
      const combined = OPERATIONS[kind];
      const divisor = DIVISIONS.includes(kind) ? expressions[operands[1]!] : undefined;
      if (combined && operands.length >= 2 && operands.every((operand) => operand < values.length)
        && (!divisor || operands.length === 2 && divisor.kind === Kind.CONSTANT && divisor.value > 0n)) {
        values.push(operands.map((operand) => values[operand]!).reduce(combined));
      } else if (kind === Kind.CONSTANT || group && value >= 0n && value < group.variables.length) {
        values.push(group ? point[group.first + Number(value)]! : value);
      } else {
        break;
      }
    }
    return values;
  }
}
