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
 * the values of runtime variables come from, is not read. Reading does not recurse, so that deep expressions take no stack.
 */

import { create } from "@bufbuild/protobuf";

import { Code, XlashapeError } from "./errors.js";
import {
  Expression_Kind as Kind, type IndexingMap as Message, IndexingMap_State as State, IndexingMapSchema, type Variable, VariableSchema,
} from "./gen/xlashape/v1/types_pb.js";

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

interface Operator {
  precedence: number;
  kind: Kind;
}

const OPERATORS = new Map<string, Operator>([
  ["+", { precedence: 1, kind: Kind.ADD }],
  ["-", { precedence: 1, kind: Kind.ADD }],
  ["*", { precedence: 2, kind: Kind.MULTIPLY }],
  ["/", { precedence: 2, kind: Kind.FLOOR_DIVIDE }],
  ["floordiv", { precedence: 2, kind: Kind.FLOOR_DIVIDE }],
  ["ceildiv", { precedence: 2, kind: Kind.CEIL_DIVIDE }],
  ["mod", { precedence: 2, kind: Kind.MODULO }],
]);
const FUNCTIONS = new Map([["min", Kind.MINIMUM], ["max", Kind.MAXIMUM]]);
const RESERVED = new Set(["min", "max", "mod", "floordiv", "ceildiv", "in", "domain"]);
const GROUPS = [
  { opening: "(", closing: ")", kind: Kind.DIMENSION, prefix: "d", field: "dimensions" },
  { opening: "[", closing: "]", kind: Kind.RANGE, prefix: "s", field: "ranges" },
  { opening: "{", closing: "}", kind: Kind.RUNTIME, prefix: "rt", field: "runtime" },
] as const;

/** An operator, or an opening parenthesis (precedence 0), that waits for what follows it. */
interface Waiting {
  precedence: number;
  token: string;
}

/** A leading minus binds tighter than all operators. */
const NEGATION: Waiting = { precedence: 3, token: "-" };

class Reader {
  private readonly message = create(IndexingMapSchema);
  /** The expression of each variable. */
  private readonly names = new Map<string, number>();
  private readonly pattern = /[ \t\r\n]*([0-9]+|[A-Za-z_]\w*|->|.|$)/suy;
  private token = "";
  private start = 0;
  private isAfterNewLine = false;

  constructor(private readonly text: string) {
    this.next();
  }

  map(): Message {
    for (const [i, { opening, closing, kind, prefix, field }] of GROUPS.entries()) {
      if (i === 0) {
        this.expect(opening);
      } else if (!this.accept(opening)) {
        continue;
      }
      const names = this.list(closing, () => this.newName());
      this.message[field] = names.map((name, number) => {
        this.names.set(name, this.add(kind, { value: BigInt(number) }));
        return create(VariableSchema, name === `${prefix}${number}` ? {} : { name });
      });
    }
    this.expect("->");
    this.expect("(");
    this.message.results = this.list(")", () => this.expression());
    this.accept(",");
    if (this.accept("domain")) {
      this.expect(":");
      this.domain();
    }
    if (this.token !== "") {
      this.fail("the end of the text");
    }
    for (const [name, expression] of this.names) {
      if (!this.variableOf(expression)?.bounds) {
        this.fail(`an interval for '${name}'`);
      }
    }
    return this.message;
  }

  private next(): void {
    const before = this.pattern.lastIndex;
    this.token = this.pattern.exec(this.text)?.[1] ?? "";
    this.start = this.token === "" ? this.text.length : this.pattern.lastIndex - this.token.length;
    this.isAfterNewLine = this.text.slice(before, this.start).includes("\n");
  }

  private fail(expected: string, found = this.token === "" ? "the end of the text" : `'${this.token.slice(0, 40)}'`): never {
    const lines = this.text.slice(0, this.start).split("\n");
    throw new XlashapeError({
      code: Code.InvalidArgument, reason: "PARSE", rawMessage: `expected ${expected}, found ${found}`, line: lines.length,
      column: Array.from(lines.at(-1)!).length + 1, details: { expected, found },
    });
  }

  private accept(token: string): boolean {
    if (this.token !== token) {
      return false;
    }
    this.next();
    return true;
  }

  private expect(token: string): void {
    if (!this.accept(token)) {
      this.fail(`'${token}'`);
    }
  }

  /** Items between commas, and the closing parenthesis. */
  private list<T>(closing: string, item: () => T): T[] {
    const items: T[] = [];
    if (this.accept(closing)) {
      return items;
    }
    for (;;) {
      items.push(item());
      if (this.accept(closing)) {
        return items;
      }
      if (!this.accept(",")) {
        this.fail(`',' or '${closing}'`);
      }
    }
  }

  private newName(): string {
    const name = this.token;
    if (!/^[A-Za-z_]/.test(name) || RESERVED.has(name) || this.names.has(name)) {
      this.fail("the name of a new variable");
    }
    this.names.set(name, 0); // its expression follows when the group is complete
    this.next();
    return name;
  }

  private domain(): void {
    while (this.token !== "") {
      if (this.accept("is_simplified")) {
        this.expect(":");
        this.next();
      } else {
        const expression = this.expression();
        this.expect("in");
        this.expect("[");
        const lower = this.integer();
        this.expect(",");
        const upper = this.integer();
        this.expect("]");
        this.bound(expression, lower, upper);
      }
      if (!this.accept(",") && !this.isAfterNewLine) {
        return;
      }
    }
  }

  private bound(expression: number, lower: bigint, upper: bigint): void {
    const bounds = { $typeName: "xlashape.v1.Interval", lower, upper } as const;
    const variable = this.variableOf(expression);
    if (!variable) {
      this.message.constraints.push({ $typeName: "xlashape.v1.Constraint", expression, bounds });
    } else if (variable.bounds) {
      const known = variable.bounds;
      variable.bounds = { ...known, lower: lower > known.lower ? lower : known.lower, upper: upper < known.upper ? upper : known.upper };
    } else {
      variable.bounds = bounds;
    }
  }

  private variableOf(expression: number): Variable | undefined {
    const { kind, value } = this.message.expressions[expression]!;
    const group = GROUPS.find((one) => one.kind === kind);
    return group && this.message[group.field][Number(value)];
  }

  private integer(): bigint {
    const isNegative = this.accept("-");
    if (!/^[0-9]/.test(this.token)) {
      this.fail("an integer");
    }
    return this.number(isNegative);
  }

  private number(isNegative: boolean): bigint {
    // Long digits are not worth reading: BigInt takes time that grows with their square.
    const magnitude = this.token.length > 40 && !/^0+[0-9]{1,20}$/.test(this.token) ? 2n ** 64n : BigInt(this.token);
    const value = isNegative ? -magnitude : magnitude;
    if (BigInt.asIntN(64, value) !== value) {
      this.fail("an integer of 64 bits");
    }
    this.next();
    return value;
  }

  private add(kind: Kind, { value = 0n, operands = [] }: { value?: bigint; operands?: number[] }): number {
    return this.message.expressions.push({ $typeName: "xlashape.v1.Expression", kind, value, operands }) - 1;
  }

  private negative(of: number): number {
    const minusOne = this.add(Kind.CONSTANT, { value: -1n });
    return this.add(Kind.MULTIPLY, { operands: [of, minusOne] });
  }

  /** Reads by operator precedence: an operator waits on a stack until one that does not bind tighter follows. */
  private expression(): number {
    const operands: number[] = [];
    const waiting: Waiting[] = [];
    for (;;) {
      if (!this.operand(operands, waiting)) {
        continue;
      }
      for (;;) {
        const operator = OPERATORS.get(this.token);
        while (waiting.length && waiting.at(-1)!.precedence >= Math.max(operator?.precedence ?? 0, 1)) {
          this.apply(waiting.pop()!, operands);
        }
        if (operator) {
          waiting.push({ precedence: operator.precedence, token: this.token });
          this.next();
          break;
        }
        const opened = waiting.at(-1);
        if (!opened) {
          return operands[0]!;
        }
        if (FUNCTIONS.has(opened.token)) {
          if (!this.accept(",")) {
            this.fail("an operator or ','");
          }
          waiting[waiting.length - 1] = { precedence: 0, token: `,${opened.token}` };
          break;
        }
        if (!this.accept(")")) {
          this.fail("an operator or ')'");
        }
        waiting.pop();
        const kind = FUNCTIONS.get(opened.token.slice(1));
        if (kind !== undefined) {
          operands.push(this.add(kind, { operands: operands.splice(-2) }));
        }
      }
    }
  }

  /** Reads an operand, or what may stand before one; whether it was an operand. */
  private operand(operands: number[], waiting: Waiting[]): boolean {
    const token = this.token;
    const known = this.names.get(token);
    if (known !== undefined) {
      operands.push(known);
    } else if (/^[0-9]/.test(token)) {
      // The least int64 has no positive counterpart, so the sign belongs to the number.
      const isNegative = waiting.at(-1) === NEGATION;
      operands.push(this.add(Kind.CONSTANT, { value: this.number(isNegative) }));
      if (isNegative) {
        waiting.pop();
      }
      return true;
    } else if (FUNCTIONS.has(token)) {
      waiting.push({ precedence: 0, token });
      this.next();
      this.expect("(");
      return false;
    } else if (token === "-" || token === "(") {
      waiting.push(token === "-" ? NEGATION : { precedence: 0, token });
      this.next();
      return false;
    } else {
      this.fail(/^[A-Za-z_]/.test(token) && !RESERVED.has(token) ? "a variable of the map" : "an expression");
    }
    this.next();
    return true;
  }

  private apply({ precedence, token }: Waiting, operands: number[]): void {
    const right = operands.pop()!;
    if (precedence === NEGATION.precedence) {
      operands.push(this.negative(right));
    } else {
      const last = token === "-" ? this.negative(right) : right;
      operands.push(this.add(OPERATORS.get(token)!.kind, { operands: [operands.pop()!, last] }));
    }
  }
}
