/**
 * Evaluates maps at a point: with numbers as long as all values are safe integers, and otherwise with bigints.
 *
 * With safe integers a and b > 0 the number `Math.floor(a / b)` is the floor of the exact quotient, and `Math.ceil(a / b)` its ceiling: a quotient that
 * is not an integer is at least 1 / b away from the next integer k, whose product k * b is at most |a| + b, so that 1 / b > k * 2^-53, which is more than the
 * error of a rounded division. Sums and products that exceed the safe integers are seen afterwards: rounded, they exceed them too.
 */

import { check, mistake } from "./errors.js";
import { Expression_Kind as Kind } from "./gen/xlashape/v1/types_pb.js";
import { halvesOf, type Integer, readNumber, toInt64, writeNumber } from "./integers.js";
import type { Bounds, Plan } from "./plan.js";

/** The field that an error about a point names: its first number. */
function fieldOf(plan: Plan, point: number): string {
  return plan.bounds.length > 0 ? `points[${point * plan.bounds.length}]` : "map";
}

/** The results at a point; undefined outside the domain. Errors are about point number `point`. */
export function evaluateExactly(plan: Plan, points: ArrayLike<Integer>, point: number): bigint[] | undefined {
  const first = point * plan.bounds.length;
  const numbers = plan.bounds.map((_, i) => toInt64(points[first + i]!, `points[${first + i}]`));
  if (plan.isEmpty || !plan.bounds.every(({ lower, upper }, i) => lower <= numbers[i]! && numbers[i]! <= upper)) {
    return undefined;
  }
  // Undefined: what does not fit 128 bits, and what is computed from it.
  const registers = [...numbers, ...plan.registers.slice(numbers.length)];
  for (const { kind, target, left, right } of plan.steps) {
    const [a, b] = [registers[left], registers[right]];
    const value = a === undefined || b === undefined ? undefined : EXACTLY[kind as Operation](a, b);
    registers[target] = value !== undefined && BigInt.asIntN(128, value) === value ? value : undefined;
  }
  if (plan.constraints.some(({ register, lower, upper }) => registers[register]! < lower || registers[register]! > upper)) {
    return undefined; // what is undefined is neither less nor more
  }
  const needed = [...plan.results, ...plan.constraints.map(({ register }) => register)];
  const fits = needed.every((register) => registers[register] !== undefined);
  check(fits, "SIZE_OVERFLOW", fieldOf(plan, point), "an expression takes a value of more than 128 bits");
  return plan.results.map((register, i) => {
    const value = registers[register]!;
    if (BigInt.asIntN(64, value) !== value) {
      throw mistake("SIZE_OVERFLOW", fieldOf(plan, point), `result ${i} does not fit int64: ${value}`);
    }
    return value;
  });
}

type Operation = Exclude<Kind, Kind.UNSPECIFIED | Kind.CONSTANT | Kind.DIMENSION | Kind.RANGE | Kind.RUNTIME>;

/** The values of operations. Divisors are positive. BigInts divide towards zero, and the remainder has the sign of the dividend. */
const EXACTLY: Record<Operation, (a: bigint, b: bigint) => bigint> = {
  [Kind.ADD]: (a, b) => a + b,
  [Kind.MULTIPLY]: (a, b) => a * b,
  [Kind.FLOOR_DIVIDE]: (a, b) => (a % b < 0n ? a / b - 1n : a / b),
  [Kind.CEIL_DIVIDE]: (a, b) => (a % b > 0n ? a / b + 1n : a / b),
  [Kind.MODULO]: (a, b) => ((a % b) + b) % b,
  [Kind.MINIMUM]: (a, b) => (a < b ? a : b),
  [Kind.MAXIMUM]: (a, b) => (a > b ? a : b),
};

/** Evaluates points, which stand one after another, writes their results, and returns for each whether it is in the domain. */
export function evaluateAll(
  plan: Plan, points: BigInt64Array | ArrayLike<number>, results: BigInt64Array | Float64Array, count: number,
): boolean[] {
  const width = plan.bounds.length;
  const pointHalves = points instanceof BigInt64Array && halvesOf(points);
  const resultHalves = results instanceof BigInt64Array && halvesOf(results);
  const registers = Float64Array.from(plan.registers, (value) => Number(value ?? 0n));
  const hasUnsafe = !registers.every(Number.isSafeInteger);
  const inDomain = new Array<boolean>(count).fill(false);
  for (let point = 0; point < count && !plan.isEmpty; point++) {
    let isUnsafe = hasUnsafe;
    for (let i = 0; i < width; i++) {
      const position = point * width + i;
      registers[i] = pointHalves ? readNumber(pointHalves, position) : points[position] as number;
      isUnsafe ||= !Number.isSafeInteger(registers[i]);
    }
    const isInside = isUnsafe ? undefined : evaluateSafely(plan, registers);
    const first = point * plan.results.length;
    for (let i = 0; isInside && i < plan.results.length; i++) {
      const value = registers[plan.results[i]!]!;
      if (resultHalves) {
        writeNumber(resultHalves, first + i, value);
      } else {
        results[first + i] = value + 0; // not the negative zero
      }
    }
    inDomain[point] = isInside ?? evaluateHere(plan, points, results, point);
  }
  return inDomain;
}

/** Evaluates a point with bigints, and writes its results; whether it is in the domain. */
function evaluateHere(
  plan: Plan, points: ArrayLike<Integer>, results: BigInt64Array | Float64Array, point: number,
): boolean {
  const values = evaluateExactly(plan, points, point);
  values?.forEach((value, i) => {
    const isSafe = results instanceof BigInt64Array || Number.isSafeInteger(Number(value));
    check(isSafe, "SIZE_OVERFLOW", fieldOf(plan, point), `result ${i} is not a safe integer: ${value}`);
    results[point * plan.results.length + i] = results instanceof BigInt64Array ? value : Number(value);
  });
  return values !== undefined;
}

/** Whether the point in the first registers is in the domain; undefined if a value is not a safe integer. Fills the other registers. */
function evaluateSafely({ bounds, steps, constraints }: Plan, registers: Float64Array): boolean | undefined {
  if (!contain(bounds, registers)) {
    return false;
  }
  for (let i = 0; i < steps.length; i++) {
    const { kind, target, left, right } = steps[i]!;
    const value = safely(kind, registers[left]!, registers[right]!);
    if (!(value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER)) {
      return undefined;
    }
    registers[target] = value;
  }
  return contain(constraints, registers);
}

/** Whether registers hold what they may. Rounded bounds compare with safe integers as the bounds themselves do. */
function contain(all: readonly Bounds[], registers: Float64Array): boolean {
  for (let i = 0; i < all.length; i++) {
    const { register, least, most } = all[i]!;
    if (registers[register]! < least || registers[register]! > most) {
      return false;
    }
  }
  return true;
}

/** NaN: bigints are needed. */
function safely(kind: Kind, a: number, b: number): number {
  switch (kind) {
    case Kind.ADD:
      return a + b;
    case Kind.MULTIPLY:
      return a * b;
    case Kind.FLOOR_DIVIDE:
      return Math.floor(a / b);
    case Kind.CEIL_DIVIDE:
      return Math.ceil(a / b);
    case Kind.MODULO:
      // The product is exact for dividends below 2^51 and divisors as small; `%` takes several times as long.
      return Math.abs(a) <= 0x7ffffffffffff && b <= 0x7ffffffffffff ? a - Math.floor(a / b) * b : NaN;
    case Kind.MINIMUM:
      return Math.min(a, b);
    default:
      return Math.max(a, b);
  }
}
