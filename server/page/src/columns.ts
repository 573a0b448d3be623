/** Columns of tables, as reports declare them, and their values as people read them. */

export type Kind = "text" | "integer" | "number" | "boolean" | "texts" | "integers" | "counts";

export interface Column {
  readonly name: string;
  readonly kind: Kind;
  readonly unit: string;
  readonly meaning: string;
  /** 0: shown when it is asked for; 1: stays longest where it is narrow. */
  readonly rank: number;
  readonly heading: string;
  /** The values of a column of texts, if they are a closed list. */
  readonly choices?: readonly string[];
}

export type Value = string | number | bigint | boolean | readonly string[] | undefined;

export const headingOf = (column: Column): string => column.heading || column.name.replaceAll("_", " ");
export const isNumber = (column: Column): boolean => column.kind === "integer" || column.kind === "number";

const BINARY = [["EiB", 60], ["PiB", 50], ["TiB", 40], ["GiB", 30], ["MiB", 20], ["KiB", 10]] as const;
const DECIMAL = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]] as const;
const SECONDS = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]] as const;

/** A number of bytes in at most nine characters. */
export function bytesText(size: number): string {
  if (size < 0) {
    return `−${bytesText(-size)}`;
  }
  for (const [unit, exponent] of BINARY) {
    const amount = size / 2 ** exponent;
    if (amount >= 1) {
      return `${amount.toFixed(amount < 9.995 ? 2 : 1)} ${unit}`;
    }
  }
  return `${plain(size)} B`;
}

/** A cycle of a clock takes about a nanosecond: less is no time of anything that runs. */
export const secondsText = (seconds: number): string =>
  seconds === 0 || Math.abs(seconds) >= 1e-9 ? scaled(seconds, SECONDS) : seconds > 0 ? "< 1 ns" : "> −1 ns";

/** The value as a cell shows it; empty where it is not known. */
export function cellText(column: Column, value: Value): string {
  if (value === undefined || value === null) {
    return "";
  }
  if (typeof value === "object") {
    return value.join(", ");
  }
  if (typeof value === "boolean") {
    return value ? "yes" : "no";
  }
  if (typeof value === "string") {
    return value;
  }
  const number = Number(value);
  switch (column.unit) {
    case "bytes":
      return bytesText(number);
    case "fraction":
      return `${(100 * number).toFixed(1)}%`;
    case "seconds":
      return secondsText(number);
    case "flops":
      return scaled(number, DECIMAL);
    case "flops/s":
      return rate(number, "FLOP/s");
    case "bytes/s":
      return rate(number, "B/s");
    default:
      return column.kind !== "integer" ? plain(number) : Math.abs(number) < 1e7 ? grouped(value) : scaled(number, DECIMAL);
  }
}

/** The whole value, for what is pointed at: numbers with all their digits. */
export function exactText(column: Column, value: Value): string {
  const unit = column.unit && column.unit !== "fraction" ? ` ${column.unit}` : "";
  return typeof value === "bigint" || typeof value === "number" ? `${column.kind === "integer" ? grouped(value) : value}${unit}` : cellText(column, value);
}

export function grouped(value: number | bigint): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",").replace(/^-/, "−");
}

function scaled(value: number, units: readonly (readonly [string, number])[]): string {
  for (const [unit, factor] of units) {
    if (Math.abs(value) >= factor) {
      return `${plain(value / factor)} ${unit}`;
    }
  }
  return plain(value);
}

/** `12.8 GB/s` */
function rate(value: number, unit: string): string {
  const text = scaled(value, DECIMAL);
  return `${text}${text.includes(" ") ? "" : " "}${unit}`;
}

function plain(value: number): string {
  const rounded = Number(value.toPrecision(4));
  return Number.isInteger(rounded) && Math.abs(rounded) < 1e15 ? grouped(rounded) : String(rounded).replace(/^-/, "−");
}
