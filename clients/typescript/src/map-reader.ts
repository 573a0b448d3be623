/**
 * Indexing maps from text, as XLA or MLIR writes it:
 *
 *     map       := 'KNOWN EMPTY' | 'UNDEFINED' | '(' names ')' ['[' names ']'] ['{' names '}'] '->' '(' [expr {',' expr}] ')' [','] [domain]
 *     domain    := 'domain' ':' [item {[','] item}]
 *     item      := expr 'in' '[' integer ',' integer ']' | 'is_simplified' ':' word
 *     expr      := product {('+' | '-') product}
 *     product   := unary {('*' | '/' | 'floordiv' | 'ceildiv' | 'mod') unary}
 *     unary     := '-' unary | integer | name | '(' expr ')' | ('min' | 'max') '(' expr ',' expr ')'
 *
 * The domain has an interval for every variable; further intervals of a variable are intersected. What follows `runtime variables:`, which says where
 * the values of runtime variables come from, is not read. Expressions have at most 1,000 levels.
 */

import { create } from "@bufbuild/protobuf";

import { Code, XlashapeError } from "./errors.js";
import { exactly } from "./evaluation.js";
import {
  Expression_Kind as Kind, type IndexingMap as Message, IndexingMap_State as State, IndexingMapSchema, type Variable, VariableSchema,
} from "./gen/xlashape/v1/types_pb.js";
import { divides } from "./plan.js";

/**
 * The message of a map in text.
 *
 * Throws an {@link XlashapeError} with reason `PARSE`, line and column.
 */
export function parseMap(text: string): Message {
  const [body = ""] = text.split(/^[ \t]*runtime variables:[ \t]*$/m, 1);
  const alone = /^\s*(KNOWN\s+EMPTY|UNDEFINED)\s*$/.exec(body)?.[1];
  if (alone !== undefined) {
    return create(IndexingMapSchema, { state: alone === "UNDEFINED" ? State.UNDEFINED : State.KNOWN_EMPTY });
  }
  return new Reader(body).map();
}

/** Bounds parentheses within each other, and with them the stack. */
const MAX_LEVELS = 1000;
const FACTORS = new Map([
  ["*", Kind.MULTIPLY], ["/", Kind.FLOOR_DIVIDE], ["floordiv", Kind.FLOOR_DIVIDE], ["ceildiv", Kind.CEIL_DIVIDE], ["mod", Kind.MODULO],
]);
const FUNCTIONS = new Map([["min", Kind.MINIMUM], ["max", Kind.MAXIMUM]]);
const RESERVED = new Set([...FUNCTIONS.keys(), "mod", "floordiv", "ceildiv", "in", "domain"]);

class Reader {
  private readonly message = create(IndexingMapSchema);
  /** The expression of each variable. */
  private readonly names = new Map<string, number>();
  /** Each variable by its expression. */
  private readonly variables = new Map<number, Variable>();
  /** The values of expressions of constants alone, of at most 128 bits. */
  private readonly constants = new Map<number, bigint>();
  /** The tokens, and an empty one at the end of the text. */
  private readonly tokens: RegExpMatchArray[];
  private at = 0;
  private levels = 0;

  constructor(private readonly text: string) {
    this.tokens = [...text.matchAll(/[0-9]+|[A-Za-z_]\w*|->|[^ \t\r\n]|$/gu)];
  }

  map(): Message {
    this.message.dimensions = this.declared("(", ")", Kind.DIMENSION, "d");
    this.message.ranges = this.token === "[" ? this.declared("[", "]", Kind.RANGE, "s") : [];
    this.message.runtime = this.token === "{" ? this.declared("{", "}", Kind.RUNTIME, "rt") : [];
    this.expect("->");
    this.message.results = this.list("(", ")", () => this.sum());
    this.accept(",");
    if (this.accept("domain")) {
      this.expect(":");
      while (this.token !== "") {
        this.interval();
        const before = this.tokens[this.at - 1]!;
        if (!this.accept(",") && !this.text.slice(before.index! + before[0].length, this.start).includes("\n")) {
          break;
        }
      }
    }
    if (this.token !== "") {
      this.fail("the end of the text");
    }
    for (const [name, expression] of this.names) {
      if (!this.variables.get(expression)!.bounds) {
        this.fail(`an interval for '${name}'`);
      }
    }
    return this.message;
  }

  private get token(): string {
    return this.tokens[this.at]![0];
  }

  private get start(): number {
    return this.tokens[this.at]!.index!;
  }

  private next(): void {
    this.at = Math.min(this.at + 1, this.tokens.length - 1);
  }

  private fail(expected: string): never {
    const found = this.token === "" ? "the end of the text" : `'${this.token.slice(0, 40)}'`;
    const lines = this.text.slice(0, this.start).split("\n");
    throw new XlashapeError({
      code: Code.InvalidArgument, reason: "PARSE", rawMessage: `expected ${expected}, found ${found}`, line: lines.length,
      column: Array.from(lines.at(-1)!).length + 1, details: { expected, found },
    });
  }

  private accept(token: string): boolean {
    const isThere = this.token === token;
    if (isThere) {
      this.next();
    }
    return isThere;
  }

  private expect(token: string): void {
    if (!this.accept(token)) {
      this.fail(`'${token}'`);
    }
  }

  /** Items between two tokens, with commas between them. */
  private list<T>(opening: string, closing: string, item: () => T): T[] {
    const items: T[] = [];
    this.expect(opening);
    if (!this.accept(closing)) {
      do {
        items.push(item());
      } while (this.accept(","));
      if (!this.accept(closing)) {
        this.fail(`',' or '${closing}'`);
      }
    }
    return items;
  }

  private declared(opening: string, closing: string, kind: Kind, prefix: string): Variable[] {
    let number = 0;
    return this.list(opening, closing, () => {
      const name = this.token;
      if (!/^[A-Za-z_]/.test(name) || RESERVED.has(name) || this.names.has(name)) {
        this.fail("the name of a new variable");
      }
      this.next();
      const variable = create(VariableSchema, name === `${prefix}${number}` ? {} : { name });
      const expression = this.add(kind, [], BigInt(number++));
      this.names.set(name, expression);
      this.variables.set(expression, variable);
      return variable;
    });
  }

  /** `expression in [lower, upper]`: of a variable its bounds, of anything else a constraint. */
  private interval(): void {
    if (this.accept("is_simplified")) {
      this.expect(":");
      this.next();
      return;
    }
    const expression = this.sum();
    this.expect("in");
    this.expect("[");
    const lower = this.integer();
    this.expect(",");
    const bounds = { $typeName: "xlashape.v1.Interval", lower, upper: this.integer() } as const;
    this.expect("]");
    const variable = this.variables.get(expression);
    if (!variable) {
      this.message.constraints.push({ $typeName: "xlashape.v1.Constraint", expression, bounds });
    } else {
      const known = variable.bounds ?? bounds;
      variable.bounds = {
        ...bounds, lower: lower > known.lower ? lower : known.lower, upper: bounds.upper < known.upper ? bounds.upper : known.upper,
      };
    }
  }

  /** Digits, and a sign that belongs to them: the least int64 has no positive counterpart. */
  private integer(): bigint {
    const sign = this.accept("-") ? -1n : 1n;
    if (!/^[0-9]/.test(this.token)) {
      this.fail("an integer");
    }
    const value = /^0*[0-9]{1,19}$/.test(this.token) ? sign * BigInt(this.token) : undefined;
    if (value === undefined || BigInt.asIntN(64, value) !== value) {
      this.fail("an integer of 64 bits");
    }
    this.next();
    return value;
  }

  private add(kind: Kind, operands: number[], value = 0n): number {
    return this.message.expressions.push({ $typeName: "xlashape.v1.Expression", kind, value, operands }) - 1;
  }

  /** An operation. What it divides by is written as one constant, so that it may be an expression of constants: `d0 mod (2 * 2)`. */
  private operation(kind: Kind, first: number, second: number): number {
    const [left, right] = [this.constants.get(first), this.constants.get(second)];
    const divisor = divides(kind) && right !== undefined && BigInt.asIntN(64, right) === right ? this.constant(right) : second;
    const operation = this.add(kind, [first, divisor]);
    if (left !== undefined && right !== undefined && !(divides(kind) && right <= 0n)) {
      const value = exactly(kind, left, right);
      if (BigInt.asIntN(128, value) === value) {
        this.constants.set(operation, value);
      }
    }
    return operation;
  }

  private constant(value: bigint): number {
    const constant = this.add(Kind.CONSTANT, [], value);
    this.constants.set(constant, value);
    return constant;
  }

  private negative(of: number): number {
    return this.operation(Kind.MULTIPLY, of, this.constant(-1n));
  }

  private sum(): number {
    let sum = this.product();
    for (let sign = this.token; sign === "+" || sign === "-"; sign = this.token) {
      this.next();
      const term = this.product();
      sum = this.operation(Kind.ADD, sum, sign === "-" ? this.negative(term) : term);
    }
    return sum;
  }

  private product(): number {
    let product = this.operand();
    for (let kind = FACTORS.get(this.token); kind !== undefined; kind = FACTORS.get(this.token)) {
      this.next();
      product = this.operation(kind, product, this.operand());
    }
    return product;
  }

  private operand(): number {
    if (++this.levels > MAX_LEVELS) {
      this.fail(`at most ${MAX_LEVELS} levels of an expression`);
    }
    const operand = this.innerOperand();
    this.levels--;
    return operand;
  }

  private innerOperand(): number {
    const token = this.token;
    const known = this.names.get(token);
    if (known !== undefined) {
      this.next();
      return known;
    }
    if (/^[0-9]/.test(token === "-" ? this.tokens[this.at + 1]![0] : token)) {
      return this.constant(this.integer());
    }
    if (this.accept("-")) {
      return this.negative(this.operand());
    }
    if (this.accept("(")) {
      const inner = this.sum();
      this.expect(")");
      return inner;
    }
    const kind = FUNCTIONS.get(token);
    if (kind === undefined) {
      this.fail(/^[A-Za-z_]/.test(token) && !RESERVED.has(token) ? "a variable of the map" : "an expression");
    }
    this.next();
    this.expect("(");
    const first = this.sum();
    this.expect(",");
    const second = this.sum();
    this.expect(")");
    return this.operation(kind, first, second);
  }
}
