/** Maps as they are evaluated: checked, and as steps on registers. */

import { check } from "./errors.js";
import { Expression_Kind as Kind, type IndexingMap as Message, IndexingMap_State as State, type Interval } from "./gen/xlashape/v1/types_pb.js";

/** A map as it is evaluated. The first registers are the numbers of a point: dimensions, ranges, runtime variables. */
export interface Plan {
  isEmpty: boolean;
  bounds: Bounds[];
  /** What registers hold from the beginning; undefined for a variable, and for what a step computes. */
  registers: (bigint | undefined)[];
  /** registers[target] = registers[left] kind registers[right]. */
  steps: { kind: Kind; target: number; left: number; right: number }[];
  constraints: Bounds[];
  /** The register of each result. */
  results: number[];
}

/** What a register may hold: the integers from `lower` to `upper`, both included, which are also the nearest numbers. */
export type Bounds = ReturnType<typeof boundsOf>;

const VARIABLES = [Kind.DIMENSION, Kind.RANGE, Kind.RUNTIME];

/** The operations whose second operand has to be a positive constant. */
const DIVISIONS = [Kind.FLOOR_DIVIDE, Kind.CEIL_DIVIDE, Kind.MODULO];

/** Checks a map; the constructor of EvaluableMap says what for. */
export function planOf({ state, dimensions, ranges, runtime, expressions, results, constraints }: Message): Plan {
  const isKnown = state !== State.UNDEFINED && state in State;
  check(isKnown, "INVALID_MAP", "state", `a map in state ${State[state] ?? state} cannot be evaluated`);
  const groups = [dimensions, ranges, runtime];
  const plan: Plan = {
    isEmpty: state === State.KNOWN_EMPTY, bounds: groups.flat().map(({ bounds }, register) => boundsOf(register, bounds)),
    registers: groups.flat().map(() => undefined), steps: [], constraints: [], results: [],
  };
  const found: number[] = []; // the register of each expression
  for (const [i, { kind, value, operands }] of expressions.entries()) {
    const has = (holds: boolean, wrong: string) => check(holds, "INVALID_MAP", `expressions[${i}]`, wrong);
    const group = VARIABLES.indexOf(kind);
    const divides = DIVISIONS.includes(kind);
    if (kind === Kind.CONSTANT) {
      found.push(plan.registers.push(value) - 1);
    } else if (group >= 0) {
      has(value >= 0n && value < groups[group]!.length, "is a variable that the map does not have");
      found.push(groups.slice(0, group).flat().length + Number(value));
    } else {
      has(kind in Kind && kind !== Kind.UNSPECIFIED, "is of an unknown kind");
      has(divides ? operands.length === 2 : operands.length >= 2, "has too few operands, or too many");
      has(operands.every((operand) => operand < i), "uses itself or a later expression");
      has(!divides || (plan.registers[found[operands[1]!]!] ?? 0n) > 0n, "divides by what is not a positive constant");
      found.push(operands.map((operand) => found[operand]!).reduce((left, right) => {
        const target = plan.registers.push(undefined) - 1;
        plan.steps.push({ kind, target, left, right });
        return target;
      }));
    }
  }
  const registerOf = (field: string, expression: number) => {
    check(expression < found.length, "INVALID_MAP", field, `there is no expression ${expression}`);
    return found[expression]!;
  };
  plan.results = results.map((expression, i) => registerOf(`results[${i}]`, expression));
  plan.constraints = constraints.map(({ expression, bounds }, i) =>
    boundsOf(registerOf(`constraints[${i}]`, expression), bounds));
  return plan;
}

function boundsOf(register: number, interval: Interval | undefined) {
  const { lower = 0n, upper = 0n } = interval ?? {};
  return { register, lower, upper, least: Number(lower), most: Number(upper) };
}
