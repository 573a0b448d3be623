/** Reports of the server: what their declarations say, and rows that are fetched as they are needed. */

import { type Client } from "@xlashape/client/browser";
import { ReportService } from "@xlashape/client/gen/xlashape/v1/report_service_pb";
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";

import type { Column, Value } from "./columns.js";
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

/** One table of a report about something. Pages are fetched once each. */
export class ReportTable {
  readonly columns: readonly Column[];
  rows: (Message | undefined)[] = [];
  total = 0;
  totals: Message | undefined;
  headline = "";
  private readonly response: DescMessage;
  private readonly field: DescField;
  private readonly pages = new Map<number, Promise<void>>();
  private readonly stopped = new AbortController();
  private underWay = 0;

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

  /** The request for the rows from one on. */
  request(firstRow: number): Record<string, unknown> {
    const request: Record<string, unknown> = { firstRow: BigInt(firstRow), maxRows: ROWS_OF_A_PAGE, section: this.section, argument: this.argument, ...this.about };
    for (const [name, text] of Object.entries(this.options)) {
      const field = fieldOf(ReportService.method[this.name].input, name);
      if (field && text) {
        request[field.localName] = readOption(field, text);
      }
    }
    return request;
  }

  /** Fetches the rows from `first` to `last`, where they are not there yet. */
  async load(first: number, last: number): Promise<void> {
    const wanted: Promise<void>[] = [];
    for (let page = Math.floor(first / ROWS_OF_A_PAGE); page * ROWS_OF_A_PAGE < Math.max(last, 1); page++) {
      let coming = this.pages.get(page);
      if (!coming) {
        coming = this.fetch(page * ROWS_OF_A_PAGE);
        this.pages.set(page, coming);
        coming.catch(() => this.pages.delete(page));
      }
      wanted.push(coming);
    }
    await Promise.all(wanted);
  }

  /** All rows, one page after another. */
  async loadAll(): Promise<void> {
    for (let first = 0; first < Math.max(1, this.total); first += ROWS_OF_A_PAGE) {
      await this.load(first, first + 1);
    }
  }

  get isComplete(): boolean {
    return this.pages.size > 0 && this.rows.length === this.total && !this.rows.includes(undefined);
  }

  /** Ends calls that are under way. */
  stop(): void {
    if (this.underWay > 0) {
      this.stopped.abort();
    }
  }

  get isStopped(): boolean {
    return this.stopped.signal.aborted;
  }

  readonly get = (row: Message, column: Column): Value => valueOf(row, this.field.message, column.name);

  total_(column: Column): Value {
    return this.totals && valueOf(this.totals, fieldOf(this.response, "totals")?.message, column.name);
  }

  private async fetch(first: number): Promise<void> {
    const ask = this.client.reports[this.name] as unknown as (request: unknown, options: unknown) => Promise<Record<string, unknown>>;
    for (let next = first; ;) {
      this.underWay++;
      const answer = await ask(this.request(next), { signal: this.stopped.signal, timeoutMs: 300_000 }).finally(() => this.underWay--);
      this.totals = answer["totals"] as Message | undefined;
      this.headline = answer["headline"] as string;
      this.total = Number(answer["rowCount"]);
      this.rows.length = this.total;
      const came = answer[this.field.localName] as Message[];
      came.forEach((row, i) => (this.rows[next + i] = row));
      next += came.length;
      // An answer has fewer rows than were asked for where their texts are long.
      if (came.length === 0 || next >= Math.min(this.total, first + ROWS_OF_A_PAGE)) {
        return;
      }
    }
  }
}

const LOCAL_NAMES = new WeakMap<DescMessage, Map<string, string>>();

/** The value of a field by its name in the schema. Integers that are exact as numbers are numbers. */
function valueOf(message: Message, type: DescMessage | undefined, name: string): Value {
  let names = type && LOCAL_NAMES.get(type);
  if (type && !names) {
    names = new Map(type.fields.map((field) => [field.name, field.localName]));
    LOCAL_NAMES.set(type, names);
  }
  const value = (message as Record<string, Value>)[names?.get(name) ?? name];
  return typeof value === "bigint" && value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

function fieldOf(type: DescMessage, name: string): DescField | undefined {
  return type.fields.find((field) => field.name === name);
}

function readOption(field: DescField, text: string): unknown {
  if (field.fieldKind === "list") {
    return text.split(",");
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
