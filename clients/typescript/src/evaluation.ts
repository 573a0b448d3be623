/**
 * Evaluates maps at a point: with numbers as long as all values are safe integers, and otherwise with bigints.
 *
 * With safe integers a and b > 0 the number `Math.floor(a / b)` is the floor of the exact quotient, and `Math.ceil(a / b)` its ceiling: a quotient that
 * is not an integer is at least 1 / b away from the next integer k, whose product k * b is at most |a| + b, so that 1 / b > k * 2^-53, which is more than the
 * error of a rounded division. Sums and products that exceed the safe integers are seen afterwards: rounded, they exceed them too.
 */

import { mistake } from "./errors.js";
import { Expression_Kind as Kind } from "./gen/xlashape/v1/types_pb.js";
import type { Plan } from "./plan.js";

/** The results at a point; undefined outside the domain. `field` is named by errors. */
export function evaluateExactly(plan: Plan, point: ArrayLike<bigint>, field: string): bigint[] | undefined {
  if (plan.isEmpty || !plan.bounds.every(({ lower, upper }, i) => lower <= point[i]! && point[i]! <= upper)) {
    return undefined;
  }
  const registers = [...plan.registers]; // undefined: what does not fit 128 bits, and what is computed from it
  plan.bounds.forEach((_, i) => (registers[i] = point[i]));
  for (const { kind, target, left, right } of plan.steps) {
    const [a, b] = [registers[left], registers[right]];
    const value = a === undefined || b === undefined ? undefined : EXACTLY[kind as Operation](a, b);
    registers[target] = value !== undefined && BigInt.asIntN(128, value) === value ? value : undefined;
  }
  const needed = [...plan.results, ...plan.constraints.map(({ register }) => register)];
  if (plan.constraints.some(({ register, bounds: { lower, upper } }) => registers[register]! < lower || registers[register]! > upper)) {
    return undefined; // what is undefined is neither less nor more
  }
  if (needed.some((register) => registers[register] === undefined)) {
    throw mistake("SIZE_OVERFLOW", field, "an expression takes a value of more than 128 bits");
  }
  return plan.results.map((register, i) => {
    const value = registers[register]!;
    if (BigInt.asIntN(64, value) !== value) {
      throw mistake("SIZE_OVERFLOW", field, `result ${i} does not fit int64: ${value}`);
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

/** Where points are read, and results written. Positions count numbers, not points. */
export interface Access {
  /** A number of a point. A number that is not a safe integer leads to `exactly`. */
  read(position: number): number;
  write(position: number, value: number): void;
  /** Evaluates a point with bigints and writes its results; whether it is in the domain. */
  exactly(point: number): boolean;
}

/** Evaluates points 0 to `count` - 1, and returns for each whether it is in the domain. */
export function evaluateAll(plan: Plan, count: number, access: Access): boolean[] {
  const { bounds, results } = plan;
  const registers = Float64Array.from(plan.registers, (value) => Number(value ?? 0n));
  const hasUnsafe = !registers.every(Number.isSafeInteger);
  const inDomain = new Array<boolean>(count).fill(false);
  for (let point = 0; point < count && !plan.isEmpty; point++) {
    let isUnsafe = hasUnsafe;
    for (let i = 0; i < bounds.length; i++) {
      registers[i] = access.read(point * bounds.length + i);
      isUnsafe ||= !Number.isSafeInteger(registers[i]);
    }
    const isInside = isUnsafe ? undefined : evaluateSafely(plan, registers);
    inDomain[point] = isInside ?? access.exactly(point);
    for (let i = 0; isInside && i < results.length; i++) {
      access.write(point * results.length + i, registers[results[i]!]!);
    }
  }
  return inDomain;
}

/** Whether the point in the first registers is in the domain; undefined if a value is not a safe integer. Fills the other registers. */
function evaluateSafely({ bounds, steps, constraints }: Plan, registers: Float64Array): boolean | undefined {
  for (let i = 0; i < bounds.length; i++) {
    // Rounded bounds compare with safe integers as the bounds themselves do.
    if (registers[i]! < bounds[i]!.least || registers[i]! > bounds[i]!.most) {
      return false;
    }
  }
  for (let i = 0; i < steps.length; i++) {
    const { kind, target, left, right } = steps[i]!;
    const value = safely(kind, registers[left]!, registers[right]!);
    if (value > Number.MAX_SAFE_INTEGER || value < Number.MIN_SAFE_INTEGER) {
      return undefined;
    }
    registers[target] = value;
  }
  for (let i = 0; i < constraints.length; i++) {
    const { register, bounds: { least, most } } = constraints[i]!;
    if (registers[register]! < least || registers[register]! > most) {
      return false;
    }
  }
  return true;
}

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
    case Kind.MODULO: {
      // The product is exact for dividends below 2^51 and divisors as small; `%` takes several times as long.
      if (a <= 0x7ffffffffffff && a >= -0x7ffffffffffff && b <= 0x7ffffffffffff) {
        return a - Math.floor(a / b) * b;
      }
      const rest = a % b;
      return rest < 0 ? rest + b : rest;
    }
    case Kind.MINIMUM:
      return Math.min(a, b);
    default:
      return Math.max(a, b);
  }
}
