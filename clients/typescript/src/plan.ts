/** Maps as they are evaluated: checked, with variables by their positions in a point. */

import { mistake } from "./errors.js";
import {
  type Expression, Expression_Kind as Kind, type IndexingMap as Message, IndexingMap_State as State, type Interval,
} from "./gen/xlashape/v1/types_pb.js";

/** A map as it is evaluated. */
export interface Plan {
  isEmpty: boolean;
  /** Of each variable: dimensions, ranges, runtime. */
  bounds: Bounds[];
  nodes: Node[];
  constraints: { node: number; bounds: Bounds }[];
  results: readonly number[];
}

/** */
/** The integers from `lower` to `upper`, both included. */
export interface Bounds {
  lower: bigint;
  upper: bigint;
}

/** An expression: a constant, a variable with its position in a point, or an operation on earlier nodes. */
export type Node =
  | { kind: Kind.CONSTANT; value: bigint }
  | { kind: Kind.DIMENSION; variable: number }
  | { kind: Operation; operands: readonly number[] };

/** */
/** What is done with two or more operands, from left to right. */
export type Operation = Exclude<Kind, Kind.UNSPECIFIED | Kind.CONSTANT | Kind.DIMENSION | Kind.RANGE | Kind.RUNTIME>;

/** Checks a map; the constructor of IndexingMap says what for. */
export function planOf(message: Message): Plan {
  if (message.state === State.UNDEFINED) {
    throw mistake("INVALID_MAP", "state", "an undefined map cannot be evaluated");
  }
  if (!(message.state in State)) {
    throw mistake("INVALID_MAP", "state", `unknown state ${message.state}`);
  }
  const { dimensions, ranges, runtime, expressions, results } = message;
  const nodes: Node[] = [];
  const groups = new Map([
    [Kind.DIMENSION, { first: 0, count: dimensions.length }],
    [Kind.RANGE, { first: dimensions.length, count: ranges.length }],
    [Kind.RUNTIME, { first: dimensions.length + ranges.length, count: runtime.length }],
  ]);
  for (const [i, expression] of expressions.entries()) {
    const group = groups.get(expression.kind);
    nodes.push(group ? variableOf(i, expression, group.first, group.count) : operationOf(i, expression, nodes));
  }
  const wrong = results.findIndex((result) => result >= nodes.length);
  if (wrong >= 0) {
    throw mistake("INVALID_MAP", "results", `result ${wrong} is expression ${results[wrong]} of ${nodes.length}`);
  }
  const constraints = message.constraints.map(({ expression, bounds }, i) => {
    if (expression >= nodes.length) {
      throw mistake("INVALID_MAP", "constraints", `constraint ${i} is on expression ${expression} of ${nodes.length}`);
    }
    return { node: expression, bounds: boundsOf(bounds) };
  });
  return {
    isEmpty: message.state === State.KNOWN_EMPTY,
    bounds: [...dimensions, ...ranges, ...runtime].map(({ bounds }) => boundsOf(bounds)),
    nodes, constraints, results,
  };
}

function boundsOf(interval: Interval | undefined): Bounds {
  return { lower: interval?.lower ?? 0n, upper: interval?.upper ?? 0n };
}

function variableOf(i: number, { value }: Expression, first: number, count: number): Node {
  if (value < 0n || value >= BigInt(count)) {
    throw mistake("INVALID_MAP", "expressions", `expression ${i} is a variable that the map does not have`);
  }
  return { kind: Kind.DIMENSION, variable: first + Number(value) };
}

function operationOf(i: number, { kind, value, operands }: Expression, before: readonly Node[]): Node {
  const invalid = (what: string) => mistake("INVALID_MAP", "expressions", `expression ${i} ${what}`);
  switch (kind) {
    case Kind.CONSTANT:
      return { kind, value };
    case Kind.FLOOR_DIVIDE:
    case Kind.CEIL_DIVIDE:
    case Kind.MODULO: {
      if (operands.length !== 2) {
        throw invalid("divides, and has not exactly two operands");
      }
      if (operands.some((operand) => operand >= i)) {
        throw invalid("uses itself or a later expression");
      }
      const divisor = before[operands[1]!]!;
      if (divisor.kind !== Kind.CONSTANT || divisor.value <= 0n) {
        throw invalid("divides by what is not a positive constant");
      }
      return { kind, operands };
    }
    case Kind.ADD:
    case Kind.MULTIPLY:
    case Kind.MINIMUM:
    case Kind.MAXIMUM:
      if (operands.length < 2) {
        throw invalid("has fewer than two operands");
      }
      if (operands.some((operand) => operand >= i)) {
        throw invalid("uses itself or a later expression");
      }
      return { kind, operands };
    default:
      throw invalid("is of an unknown kind");
  }
}

