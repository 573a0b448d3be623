/**
 * Which rows of a table are wanted, and in which order, as `--filter` and `--sort` of the command line take it: `bytes>=10MiB`, `opcode=copy`, `name~^fusion`,
 * or a text that the first column of text has in it. Several filters are separated by `;`.
 */

import { cellText, type Column, isNumber, type Value } from "./columns.js";

export type Get<Row> = (row: Row, column: Column) => Value;

/** A mistake in a filter or an order, in a sentence. */
export class SelectionError extends Error {}

const FILTER = /^\s*(\w+(?:[ -]+\w+)*)\s*(!=|<=|>=|!~|=|<|>|~)([\s\S]*)$/;
const AMOUNT = /^([+-]?(?:\d[\d_,]*)?(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(%|[kKMGT]i?B?|B)?$/;
const UNITS: Readonly<Record<string, number>> = { "%": 0.01, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12 };
const BINARY: Readonly<Record<string, number>> = { k: 2 ** 10, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

/** What all filters take. */
export function filterOf<Row>(text: string, columns: readonly Column[], get: Get<Row>): ((row: Row) => boolean) | undefined {
  const tests = filtersOf(text).map((each) => testOf(each, columns, get));
  return tests.length === 0 ? undefined : (row) => tests.every((test) => test(row));
}

/** The filters that a text has in it. */
export function filtersOf(text: string): string[] {
  return text.split(";").map((each) => each.trim()).filter(Boolean);
}

/** The rows in the order of `name:asc` or `name:desc`. Rows without a value come last. */
export function sorted<Row>(rows: readonly Row[], order: string, columns: readonly Column[], get: Get<Row>): Row[] {
  const { column, descends } = orderOf(order, columns);
  const keyed = rows.map((row) => [keyOf(column, get(row, column)), row] as const);
  const sign = descends ? -1 : 1;
  keyed.sort(([a], [b]) => (a === undefined ? (b === undefined ? 0 : 1) : b === undefined ? -1 : a < b ? -sign : a > b ? sign : 0));
  return keyed.map(([, row]) => row);
}

export function orderOf(order: string, columns: readonly Column[]): { column: Column; descends: boolean } {
  const match = /^(.*?)(?::(asc|desc))?$/.exec(order);
  const column = columnOf(match?.[1] ?? "", columns);
  return { column, descends: match?.[2] ? match[2] === "desc" : isNumber(column) };
}

function keyOf(column: Column, value: Value): string | number | undefined {
  if (value === undefined || value === null) {
    return undefined;
  }
  return isNumber(column) || typeof value === "boolean" ? Number(value) : cellText(column, value);
}

function columnOf(name: string, columns: readonly Column[]): Column {
  const wanted = name.trim().toLowerCase();
  const key = wanted.replace(/[ -]/g, "_");
  const begun = columns.filter((each) => key && each.name.startsWith(key));
  const found = columns.find((each) => each.name === key) ?? columns.find((each) => each.heading.toLowerCase() === wanted)
    ?? (begun.length === 1 ? begun[0] : undefined);
  if (!found) {
    throw new SelectionError(`there is no column '${wanted}'; there are ${columns.map((each) => each.name).join(", ")}`);
  }
  return found;
}

function testOf<Row>(text: string, columns: readonly Column[], get: Get<Row>): (row: Row) => boolean {
  const match = FILTER.exec(text);
  if (!match) {
    const column = columns.find((each) => each.kind === "text");
    const wanted = text.replace(/^%/, "");
    return column ? (row) => ((get(row, column) as string | undefined) ?? "").includes(wanted) : () => true;
  }
  const [, name = "", sign = "", rest = ""] = match;
  const value = rest.trim();
  const column = columnOf(name, columns);
  if (sign.endsWith("~")) {
    let pattern: RegExp;
    try {
      pattern = new RegExp(value, "u");
    } catch {
      throw new SelectionError(`'${value}' is not a valid regular expression`);
    }
    return (row) => {
      const found = get(row, column);
      return (found !== undefined && pattern.test(typeof found === "object" ? cellText(column, found) : String(found))) === (sign === "~");
    };
  }
  const isUnequal = sign === "!=";
  const compare = <T extends string | number | boolean>(wanted: T, read: (value: Value) => T) => (row: Row): boolean => {
    const found = get(row, column);
    return found === undefined ? isUnequal : compared(read(found), sign, wanted);
  };
  if (isNumber(column)) {
    return compare(amountOf(value), Number);
  }
  if (column.kind === "text") {
    return compare(value, String);
  }
  if (sign !== "=" && !isUnequal) {
    throw new SelectionError(`${column.name} has no order: expected =, !=, ~ or !~`);
  }
  if (typeof column.kind === "string" && ["texts", "integers", "counts"].includes(column.kind)) {
    return (row) => ((get(row, column) as readonly string[] | undefined) ?? []).includes(value) !== isUnequal;
  }
  if (!/^(true|false)$/i.test(value)) {
    throw new SelectionError(`${column.name} is true or false, not '${value}'`);
  }
  return compare(value.toLowerCase() === "true", Boolean);
}

function compared<T extends string | number | boolean>(a: T, sign: string, b: T): boolean {
  switch (sign) {
    case "=":
      return a === b;
    case "!=":
      return a !== b;
    case "<":
      return a < b;
    case "<=":
      return a <= b;
    case ">":
      return a > b;
    default:
      return a >= b;
  }
}

export const isAmount = (text: string): boolean => AMOUNT.test(text) && /\d/.test(text);

/** A number, with %, k, M, G, T (decimal) or KiB, MiB, GiB, TiB behind it. */
export function amountOf(text: string): number {
  const match = AMOUNT.exec(text);
  const digits = match?.[1]?.replace(/[_,]/g, "");
  const number = digits ? Number(digits) : NaN;
  if (Number.isNaN(number)) {
    throw new SelectionError(`expected a number such as 128, 10MiB or 50%, found '${text.slice(0, 60)}'`);
  }
  const unit = match?.[2];
  return !unit || unit === "B" ? number : number * ((unit.includes("i") ? BINARY : UNITS)[unit[0] ?? ""] ?? 1);
}
