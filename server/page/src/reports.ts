/** Reports of the server: what their declarations say, and rows that are fetched as they are needed. */

import { type Client } from "@xlashape/client/browser";
import { ReportService } from "@xlashape/client/gen/xlashape/v1/report_service_pb";
import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";

import { type Column, grouped, type Value } from "./columns.js";
import declared from "./reports.json";

export interface Option {
  readonly name: string;
  readonly kind: string;
  readonly meaning: string;
  readonly choices: readonly string[];
  readonly unit: string;
}

export interface Section {
  readonly name: string;
  readonly meaning: string;
  readonly columns: readonly Column[];
  readonly argument: Option | null;
}

export interface Declaration {
  readonly short: string;
  readonly summary: string;
  readonly rows: string;
  readonly inputs: readonly string[];
  readonly columns: readonly Column[];
  readonly totals: readonly Column[];
  readonly sections: readonly Section[];
  readonly options: readonly Option[];
}

export type ReportName = keyof typeof declared.reports;
export const REPORTS = declared.reports as unknown as Readonly<Record<ReportName, Declaration>>;

/** A row or the totals: a message of the report. */
export type Message = object;

/** What a report is asked about: fields of its request. */
export type About = Readonly<Record<string, unknown>>;

const ROWS_OF_A_PAGE = 2000;

const KEPT = new WeakMap<Client, Map<string, ReportTable>>();
const MOST_KEPT = 40;

/** A table of a report. The page keeps the last ones, so that going back shows them at once. */
export function reportTable(client: Client, name: ReportName, section: string, argument: string, about: About, options: Readonly<Record<string, string>>): ReportTable {
  const kept = KEPT.get(client) ?? new Map<string, ReportTable>();
  KEPT.set(client, kept);
  const key = JSON.stringify([name, section, argument, options, about], (_, value: unknown) => (value instanceof Uint8Array ? identity(value) : value));
  const found = kept.get(key);
  const table = found && !found.isStopped ? found : new ReportTable(client, name, section, argument, about, options);
  kept.delete(key);
  kept.set(key, table);
  if (kept.size > MOST_KEPT) {
    kept.delete(kept.keys().next().value ?? "");
  }
  return table;
}

const IDENTITIES = new WeakMap<Uint8Array, number>();
let identities = 0;

function identity(bytes: Uint8Array): number {
  const found = IDENTITIES.get(bytes) ?? ++identities;
  IDENTITIES.set(bytes, found);
  return found;
}

/** One table of a report about something. Its pages are fetched one after another, once each. */
export class ReportTable {
  readonly columns: readonly Column[];
  rows: (Message | undefined)[] = [];
  total = 0;
  totals: Message | undefined;
  headline = "";
  private readonly response: DescMessage;
  private readonly field: DescField;
  private readonly stopped = new AbortController();
  private loaded = 0;
  /** The token of the next page; undefined after the last one. */
  private pageToken: string | undefined = "";
  private coming: Promise<void> | undefined;

  constructor(
    private readonly client: Client,
    private readonly name: ReportName,
    readonly section: string,
    private readonly argument: string,
    private readonly about: About,
    private readonly options: Readonly<Record<string, string>>,
  ) {
    const declaration = REPORTS[name];
    this.response = ReportService.method[name].output;
    this.field = fieldOf(this.response, section || declaration.rows)!;
    this.columns = section ? declaration.sections.find((each) => each.name === section)?.columns ?? [] : declaration.columns;
  }

  /** The request for a page. */
  request(pageToken: string): Record<string, unknown> {
    const request: Record<string, unknown> = { pageSize: ROWS_OF_A_PAGE, pageToken };
    const { input } = ReportService.method[this.name];
    for (const [name, value] of Object.entries(this.about)) {
      const oneof = fieldOf(input, name)?.oneof;
      request[oneof?.localName ?? name] = oneof ? { case: name, value } : value;
    }
    for (const [name, text] of Object.entries({ ...this.options, table: this.section, [this.section]: this.argument })) {
      const field = fieldOf(input, name);
      if (field && text) {
        request[field.localName] = readOption(field, text);
      }
    }
    return request;
  }

  /** Fetches the rows up to `last`, where they are not there yet. */
  async load(_first: number, last: number): Promise<void> {
    while (this.pageToken !== undefined && this.loaded < Math.max(last, 1)) {
      this.coming ??= this.fetch(this.pageToken).finally(() => (this.coming = undefined));
      await this.coming;
    }
  }

  /** All rows. */
  async loadAll(): Promise<void> {
    await this.load(0, Infinity);
  }

  get isComplete(): boolean {
    return this.pageToken === undefined;
  }

  /** Ends a call that is under way. */
  stop(): void {
    if (this.coming) {
      this.stopped.abort();
    }
  }

  get isStopped(): boolean {
    return this.stopped.signal.aborted;
  }

  readonly get = (row: Message, column: Column): Value => valueOf(row, this.field.message, column);

  total_(column: Column): Value {
    return this.totals && valueOf(this.totals, fieldOf(this.response, "totals")?.message, column);
  }

  private async fetch(pageToken: string): Promise<void> {
    const ask = this.client.reports[this.name] as unknown as (request: unknown, options: unknown) => Promise<Record<string, unknown>>;
    const answer = await ask(this.request(pageToken), { signal: this.stopped.signal, timeoutMs: 300_000 });
    this.totals = answer["totals"] as Message | undefined;
    this.headline = answer["headline"] as string;
    this.total = Number(answer["rowCount"]);
    this.rows.length = this.total;
    const came = answer[this.field.localName] as Message[];
    came.forEach((row, i) => (this.rows[this.loaded + i] = row));
    this.loaded += came.length;
    this.pageToken = (answer["nextPageToken"] as string) || undefined;
  }
}

const FIELDS = new WeakMap<DescMessage, Map<string, DescField>>();

/** The value of a column. Integers that are exact as numbers are numbers, values of enums are their texts. */
function valueOf(message: Message, type: DescMessage | undefined, column: Column): Value {
  let fields = type && FIELDS.get(type);
  if (type && !fields) {
    fields = new Map(type.fields.map((field) => [field.name, field]));
    FIELDS.set(type, fields);
  }
  const field = fields?.get(column.name);
  const value = (message as Record<string, unknown>)[field?.localName ?? column.name];
  if (Array.isArray(value)) {
    return value.map((each: unknown) => (field?.enum ? textOf(field.enum, column, Number(each)) ?? "" : String(each)));
  }
  if (field?.enum) {
    return textOf(field.enum, column, Number(value));
  }
  if (column.kind === "counts") {
    return Object.entries((value ?? {}) as Record<string, bigint>).map(([key, count]) => `${key}: ${grouped(count)}`);
  }
  return typeof value === "bigint" && value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : (value as Value);
}

/** The text of a value of an enum, as the column's declaration has it; undefined for 0, which stands for none. */
function textOf(type: DescEnum, column: Column, number: number): string | undefined {
  const name = type.value[number]?.localName;
  return number === 0 ? undefined : column.choices?.find((each) => memberOf(each) === name) ?? `unknown_${number}`;
}

const memberOf = (text: string): string => text.replace(/[^A-Za-z0-9]/g, "_").toUpperCase();

function fieldOf(type: DescMessage, name: string): DescField | undefined {
  return type.fields.find((field) => field.name === name);
}

/** The number of a text among the values of an enum; 0, which stands for none, for another text. */
export function enumNumber(type: DescEnum, text: string): number {
  return type.values.find((each) => each.localName.replace(/^_/, "") === memberOf(text))?.number ?? 0;
}

function readOption(field: DescField, text: string): unknown {
  if (field.enum) {
    return field.fieldKind === "list" ? text.split(",").map((each) => enumNumber(field.enum, each)) : enumNumber(field.enum, text);
  }
  if (field.fieldKind === "list") {
    return field.scalar === ScalarType.INT64 ? text.split(",").map(BigInt) : text.split(",");
  }
  switch (field.scalar) {
    case ScalarType.INT64:
      return BigInt(text);
    case ScalarType.DOUBLE:
    case ScalarType.INT32:
      return Number(text);
    case ScalarType.BOOL:
      return text === "true";
    default:
      return text;
  }
}
