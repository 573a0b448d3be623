/** Indexing maps to text, as XLA writes it, on one line. */

import { mistake } from "./errors.js";
import { Expression_Kind as Kind, type IndexingMap as Message, IndexingMap_State as State, type Interval, type Variable } from "./gen/xlashape/v1/types_pb.js";

/** The longest text of a map, in characters. Expressions that share nodes may have a text that is exponentially longer than the map. */
const LONGEST = 1 << 24;

/** The text of an expression, and what decides about parentheses around it. */
interface Written {
  text: string;
  kind: Kind;
  /** The text as a further term of a sum: ` + d0`, ` - 5`. */
  asTerm: string;
  /** Of a constant. */
  value?: bigint;
  /** Of a product with -1: the other factor. */
  negated?: Written;
}

const TOKENS = new Map([
  [Kind.MULTIPLY, "*"], [Kind.FLOOR_DIVIDE, "/"], [Kind.CEIL_DIVIDE, "ceildiv"], [Kind.MODULO, "mod"],
]);

/** @internal */
export function printMap(message: Message): string {
  if (message.state === State.KNOWN_EMPTY || message.state === State.UNDEFINED) {
    return message.state === State.UNDEFINED ? "UNDEFINED" : "KNOWN EMPTY";
  }
  const named = (variables: readonly Variable[], prefix: string) => variables.map(({ name }, i) => name || `${prefix}${i}`);
  const [dimensions, ranges, runtime] = [named(message.dimensions, "d"), named(message.ranges, "s"), named(message.runtime, "rt")];
  const names = new Map([[Kind.DIMENSION, dimensions], [Kind.RANGE, ranges], [Kind.RUNTIME, runtime]]);
  const written: Written[] = [];
  for (const { kind, value, operands } of message.expressions) {
    const name = names.get(kind)?.[Number(value)];
    const operation = () => operands.map((operand) => written[operand]!).reduce((left, right) => operationOf(kind, left, right));
    const made = name !== undefined ? plain(kind, name) : kind === Kind.CONSTANT ? constant(value) : operation();
    if (made.text.length > LONGEST) {
      throw mistake("LIMIT_EXCEEDED", "map", `the text of the map has more than ${LONGEST} characters`);
    }
    written.push(made);
  }
  const head = `(${dimensions.join(", ")})` + (ranges.length ? `[${ranges.join(", ")}]` : "") + (runtime.length ? `{${runtime.join(", ")}}` : "");
  const variables = [...message.dimensions, ...message.ranges, ...message.runtime];
  const domain = [...dimensions, ...ranges, ...runtime].map((name, i) => `${name} in ${interval(variables[i]!.bounds)}`);
  const constraints = message.constraints.map(({ expression, bounds }) => `${written[expression]!.text} in ${interval(bounds)}`);
  const all = [...domain, ...constraints.sort((a, b) => (a < b ? -1 : 1))];
  const text = `${head} -> (${message.results.map((result) => written[result]!.text).join(", ")})`;
  return all.length ? `${text}, domain: ${all.join(", ")}` : text;
}

function interval(bounds: Interval | undefined): string {
  return `[${bounds?.lower ?? 0n}, ${bounds?.upper ?? 0n}]`;
}

function plain(kind: Kind, text: string): Written {
  return { text, kind, asTerm: ` + ${text}` };
}

function constant(value: bigint): Written {
  return { text: String(value), kind: Kind.CONSTANT, asTerm: value < 0n ? ` - ${-value}` : ` + ${value}`, value };
}

function operationOf(kind: Kind, left: Written, right: Written): Written {
  if (kind === Kind.ADD) {
    return { text: left.text + right.asTerm, kind, asTerm: left.asTerm + right.asTerm };
  }
  if (kind === Kind.MINIMUM || kind === Kind.MAXIMUM) {
    return plain(kind, `${kind === Kind.MINIMUM ? "min" : "max"}(${left.text}, ${right.text})`);
  }
  if (kind !== Kind.MULTIPLY || right.value === undefined || right.value >= 0n) {
    const isCompound = right.kind === Kind.ADD || TOKENS.has(right.kind);
    return plain(kind, `${asFactor(left, kind)} ${TOKENS.get(kind)} ${isCompound ? `(${right.text})` : right.text}`);
  }
  if (right.value < -1n) {
    return { text: `${asFactor(left, kind)} * ${right.value}`, kind, asTerm: ` - ${asFactor(left, kind)} * ${-right.value}` };
  }
  const isBare = [Kind.DIMENSION, Kind.RANGE, Kind.RUNTIME, Kind.MINIMUM, Kind.MAXIMUM].includes(left.kind) || (left.kind === Kind.MULTIPLY && !left.negated);
  const asTerm = ` - ${left.kind === Kind.ADD ? `(${left.text})` : left.text}`;
  return { text: isBare ? `-${left.text}` : `-(${left.text})`, kind, asTerm, negated: left };
}

/** The left operand of an operator that binds like a product. */
function asFactor(operand: Written, kind: Kind): string {
  const isOther = TOKENS.has(operand.kind) && operand.kind !== kind && !(operand.negated && operand.negated.kind !== Kind.MULTIPLY);
  return operand.kind === Kind.ADD || isOther ? `(${operand.text})` : operand.text;
}
