/**
 * Evaluates maps: at one point exactly, with bigints, and at many points with numbers, by blocks, as long as all values are safe integers.
 *
 * With safe integers a and b > 0 the number `Math.floor(a / b)` is the floor of the exact quotient, and `Math.ceil(a / b)` its ceiling: a quotient that
 * is not an integer is at least 1 / b away from the next integer k, whose product k * b is at most |a| + b, so that 1 / b > k * 2^-53, which is more than the
 * error of a rounded division. Sums and products that exceed the safe integers are seen afterwards: rounded, they exceed them too.
 */

import { mistake } from "./errors.js";
import { Expression_Kind as Kind } from "./gen/xlashape/v1/types_pb.js";
import type { Bounds, Node, Operation, Plan } from "./plan.js";

/** Intermediate values are below this one. Maps of XLA stay below 2^128; a map that multiplies without end must not take all memory. */
const LARGEST = 1n << 65536n;
const MOST = 2n ** 63n - 1n;
const LEAST = -(2n ** 63n);

/** The results at a point; undefined outside the domain. */
export function evaluateExactly(plan: Plan, point: ArrayLike<bigint>): bigint[] | undefined {
  if (plan.isEmpty || !plan.bounds.every((bounds, i) => contains(bounds, point[i]!))) {
    return undefined;
  }
  const values: bigint[] = [];
  for (const [i, node] of plan.nodes.entries()) {
    values.push(exactValue(node, i, values, point));
  }
  if (!plan.constraints.every(({ node, bounds }) => contains(bounds, values[node]!))) {
    return undefined;
  }
  return plan.results.map((node, i) => {
    const value = values[node]!;
    if (value > MOST || value < LEAST) {
      throw mistake("SIZE_OVERFLOW", "map", `result ${i} does not fit int64: ${shortened(value)}`);
    }
    return value;
  });
}

function contains({ lower, upper }: Bounds, value: bigint): boolean {
  return lower <= value && value <= upper;
}

function shortened(value: bigint): string {
  const magnitude = value < 0n ? -value : value;
  return magnitude >> 256n ? "it has more than 256 bits" : String(value);
}

function exactValue(node: Node, i: number, values: readonly bigint[], point: ArrayLike<bigint>): bigint {
  if (node.kind === Kind.CONSTANT) {
    return node.value;
  }
  if (node.kind === Kind.DIMENSION) {
    return point[node.variable]!;
  }
  let value = values[node.operands[0]!]!;
  for (const operand of node.operands.slice(1)) {
    value = exactly(node.kind, value, values[operand]!);
    if (value >= LARGEST || value <= -LARGEST) {
      throw mistake("SIZE_OVERFLOW", "map", `expression ${i} has more than 65,536 bits`);
    }
  }
  return value;
}

/** BigInts divide towards zero, and the remainder has the sign of the dividend. */
function exactly(kind: Operation, a: bigint, b: bigint): bigint {
  switch (kind) {
    case Kind.ADD:
      return a + b;
    case Kind.MULTIPLY:
      return a * b;
    case Kind.FLOOR_DIVIDE:
      return a % b < 0n ? a / b - 1n : a / b;
    case Kind.CEIL_DIVIDE:
      return a % b > 0n ? a / b + 1n : a / b;
    case Kind.MODULO: {
      const remainder = a % b;
      return remainder < 0n ? remainder + b : remainder;
    }
    case Kind.MINIMUM:
      return a < b ? a : b;
    case Kind.MAXIMUM:
      return a > b ? a : b;
  }
}

/** Where points are read, and results written. Positions count numbers, not points. */
export interface Access {
  /** A number of a point. A number that is not a safe integer leads to `exactly`. */
  read(position: number): number;
  write(position: number, value: number): void;
  /** Evaluates a point with bigints and writes its results; whether it is in the domain. */
  exactly(point: number): boolean;
}

/** How many points are evaluated at once: the values of all expressions of an ordinary map lie in the processor's cache. */
const BLOCK = 512;
/** How many values a block has: large maps are evaluated at fewer points at once. */
const BLOCK_VALUES = 1 << 21;

/** Evaluates points 0 to `count` - 1, and returns for each whether it is in the domain. */
export function evaluateBlocks(plan: Plan, count: number, access: Access): boolean[] {
  const inDomain = new Array<boolean>(count).fill(false);
  if (plan.isEmpty || count === 0) {
    return inDomain;
  }
  const size = Math.max(Math.min(BLOCK, count, Math.floor(BLOCK_VALUES / (plan.nodes.length + 1))), 1);
  const block = new Block(plan, size);
  const width = plan.bounds.length;
  const results = plan.results.length;
  for (let first = 0; first < count; first += size) {
    const used = Math.min(size, count - first);
    block.evaluate(used, first * width, access);
    for (let point = 0; point < used; point++) {
      if (block.isUnsafe[point]) {
        inDomain[first + point] = access.exactly(first + point);
      } else if (block.isInside[point]) {
        inDomain[first + point] = true;
        for (let i = 0; i < results; i++) {
          access.write((first + point) * results + i, block.values[plan.results[i]!]![point]!);
        }
      }
    }
  }
  return inDomain;
}

/** Some points and the values of all nodes at them. */
class Block {
  readonly isInside: Uint8Array;
  /** Whether the point has to be evaluated exactly. */
  readonly isUnsafe: Uint8Array;
  /** Of each node its values at all points. */
  readonly values: Float64Array[];
  private readonly variables: Float64Array[];

  constructor(private readonly plan: Plan, size: number) {
    this.isInside = new Uint8Array(size);
    this.isUnsafe = new Uint8Array(size);
    this.variables = plan.bounds.map(() => new Float64Array(size));
    this.values = plan.nodes.map((node) => {
      if (node.kind === Kind.DIMENSION) {
        return this.variables[node.variable]!;
      }
      const values = new Float64Array(size);
      return node.kind === Kind.CONSTANT ? values.fill(Number(node.value)) : values;
    });
  }

  evaluate(used: number, from: number, access: Access): void {
    const { plan, isInside, isUnsafe, variables } = this;
    const width = variables.length;
    isInside.fill(1);
    isUnsafe.fill(0);
    for (let i = 0; i < width; i++) {
      const values = variables[i]!;
      for (let point = 0; point < used; point++) {
        values[point] = access.read(from + point * width + i);
      }
      this.findUnsafe(values, used);
      this.narrow(values, plan.bounds[i]!, used);
    }
    for (const [i, node] of plan.nodes.entries()) {
      if (node.kind === Kind.DIMENSION) {
        continue;
      }
      const values = this.values[i]!;
      if (node.kind !== Kind.CONSTANT) {
        let left = this.values[node.operands[0]!]!;
        for (const operand of node.operands.slice(1)) {
          operate(node.kind, left, this.values[operand]!, values, used);
          left = values;
          if (node.kind === Kind.ADD || node.kind === Kind.MULTIPLY) {
            this.findUnsafe(values, used);
          }
        }
      } else {
        this.findUnsafe(values, used);
      }
    }
    for (const { node, bounds } of plan.constraints) {
      this.narrow(this.values[node]!, bounds, used);
    }
  }

  private findUnsafe(values: Float64Array, used: number): void {
    const { isUnsafe } = this;
    for (let point = 0; point < used; point++) {
      const value = values[point]!;
      // Not the other way around: a NaN is unsafe.
      if (!(value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER && Math.floor(value) === value)) {
        isUnsafe[point] = 1;
      }
    }
  }

  private narrow(values: Float64Array, { lower, upper }: Bounds, used: number): void {
    const { isInside } = this;
    // Rounded bounds compare with safe integers as the bounds themselves do.
    const least = Number(lower);
    const most = Number(upper);
    for (let point = 0; point < used; point++) {
      const value = values[point]!;
      if (value < least || value > most) {
        isInside[point] = 0;
      }
    }
  }
}

function operate(kind: Operation, left: Float64Array, right: Float64Array, into: Float64Array, used: number): void {
  switch (kind) {
    case Kind.ADD:
      for (let i = 0; i < used; i++) {
        into[i] = left[i]! + right[i]!;
      }
      return;
    case Kind.MULTIPLY:
      for (let i = 0; i < used; i++) {
        into[i] = left[i]! * right[i]!;
      }
      return;
    case Kind.FLOOR_DIVIDE:
      for (let i = 0; i < used; i++) {
        into[i] = Math.floor(left[i]! / right[i]!);
      }
      return;
    case Kind.CEIL_DIVIDE:
      for (let i = 0; i < used; i++) {
        into[i] = Math.ceil(left[i]! / right[i]!);
      }
      return;
    case Kind.MODULO:
      for (let i = 0; i < used; i++) {
        into[i] = remainder(left[i]!, right[i]!);
      }
      return;
    case Kind.MINIMUM:
      for (let i = 0; i < used; i++) {
        into[i] = Math.min(left[i]!, right[i]!);
      }
      return;
    case Kind.MAXIMUM:
      for (let i = 0; i < used; i++) {
        into[i] = Math.max(left[i]!, right[i]!);
      }
  }
}

/** The product is exact for dividends below 2^51 and divisors as small; `%` takes several times as long. */
function remainder(value: number, divisor: number): number {
  if (value <= 0x7ffffffffffff && value >= -0x7ffffffffffff && divisor <= 0x7ffffffffffff) {
    return value - Math.floor(value / divisor) * divisor;
  }
  const rest = value % divisor;
  return rest < 0 ? rest + divisor : rest;
}
