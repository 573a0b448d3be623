/** A report: its one number, the rest of its totals, and its tables. Everything about columns comes from the declarations of the reports. */

import { cellText, type Column, exactText, headingOf, type Value } from "../columns.js";
import type { Context, Copies, Mount, View } from "../context.js";
import { linkedCell } from "../cells.js";
import { columnChooser, dropdown, facts, FilterBox, select, targetSelect } from "../controls.js";
import { everySecond, h, replace } from "../dom.js";
import { markdownTable } from "../markdown.js";
import { type About, type Message, type Option, REPORTS, type ReportName, reportTable, type ReportTable } from "../reports.js";
import { amountOf, filterOf, filtersOf, isAmount, SelectionError, sorted } from "../selection.js";
import type { State } from "../state.js";
import { Table } from "../table.js";
import { timeAxis } from "../timeaxis.js";
import { timeline } from "../timeline.js";

/** What a report's page begins with: the first of these totals that is known and not 0, else the first known one, and what that is. */
const FIRST: Readonly<Record<ReportName, readonly (readonly [total: string, what: string])[]>> = {
  memory: [["peak_bytes", "live at the peak, in all memory spaces"]],
  copies: [["total_bytes", "read and written by instructions that only move data"]],
  reads: [["wasted_bytes", "fetched in vain"], ["again_bytes", "fetched again, at most"]],
  cost: [["least_time", "is the least time of a run"], ["flops", "FLOPs in a run"]],
  collectives: [["sent_bytes", "sent by each device in a run"], ["collective_count", "collectives"]],
  size: [["peak_bytes", "live at the peak"], ["bytes", "in all buffers"]],
  why: [["must_go_bytes", "must go"], ["peak_bytes", "live at the peak"], ["bytes", "in the buffers"]],
  verify: [["problem_count", "rules are broken"]],
  diff: [["delta_peak_bytes", "change of the peak"], ["delta_bytes", "change of the bytes of all buffers"]],
  profile: [["time", "of device time"]],
  equivalent: [["verdict", "is the verdict"]],
  summary: [["peak_bytes", "live at the peak"], ["argument_bytes", "of arguments"]],
};

/** Tables that stand whole above the others, since they say what to do. */
const LEADING: Partial<Record<ReportName, string>> = { why: "suggestions", copies: "suggestions" };
const LED = 4;
const LISTED = 12;

/** The view of a report. */
export function reportView(name: ReportName): Mount {
  return (container, context) => new ReportView(name, container, context);
}

class ReportView implements View {
  private readonly declaration;
  private readonly lead = h("div.lead");
  private readonly figure = h("div");
  private readonly advice = h("div.advice");
  private readonly tabs = h("div.tabs", { role: "group", "aria-label": "tables" });
  private readonly argument = h("span.argument");
  private readonly about = h("div.about");
  private readonly filter: FilterBox;
  private readonly tools = h("div.tools");
  private readonly target = targetSelect((h) => this.context.setState({ h, d: this.given().filter(([name]) => name !== "target").map((each) => each.join("=")).join(";"), j: undefined }));
  private readonly place = h("div.place");
  private tables = new Map<string, ReportTable>();
  private asked = "";
  private table: ReportTable | undefined;
  private grid: Table<Message> | undefined;
  private shown: readonly (Message | undefined)[] = [];
  private filtering = 0;
  private forget: (() => void) | undefined;

  constructor(private readonly name: ReportName, container: HTMLElement, private readonly context: Context) {
    this.declaration = REPORTS[name];
    const first = this.declaration.columns.find((each) => each.unit === "bytes" && each.rank > 0);
    this.filter = new FilterBox(first ? `${first.name}>=10MiB` : `${this.declaration.columns[0]?.name ?? ""}~…`, (f) => this.context.setState({ f, j: undefined }, { replace: true }));
    const chooser = columnChooser(() => this.table?.columns ?? [], () => extraOf(this.context.state), () => this.grid?.shownColumns ?? [],
      (names) => this.context.setState({ k: names.join(",") }, { replace: true }));
    this.tools.append(this.filter.element, chooser);
    if (!context.isRecorded && this.declaration.options.some(({ name }) => name === "target")) {
      this.tools.prepend(this.target);
    }
    if (this.declaration.options.length > 0) {
      this.tools.append(this.options());
    }
    container.append(h("section.report", { "aria-label": this.declaration.summary }, this.lead, this.figure, this.advice, h("div.bar", {}, this.tabs, this.argument, this.tools), this.about, this.place));
    if (context.state.m && !context.state.m2) {
      // Names are links as soon as the instructions are known.
      this.forget = context.program(context.module.name).onRows(() => {
        const main = this.tables.get("\n");
        if (main?.totals) {
          this.showTotals(main);
        }
        this.grid?.refresh();
        this.context.detailsChanged();
      });
    }
    this.update(context.state);
  }

  update(state: State): void {
    const asked = JSON.stringify([subjectKey(state), optionsOf(this.name, state)]);
    if (asked !== this.asked) {
      this.stop();
      this.asked = asked;
      this.tables = new Map();
      void this.begin();
    }
    this.target.value = optionsOf(this.name, state)["target"] ?? "";
    this.choose(state);
  }

  private given(): [string, string][] {
    return Object.entries(optionsOf(this.name, this.context.state));
  }

  dispose(): void {
    this.forget?.();
    this.stop();
    this.grid?.dispose();
  }

  details(): Node | undefined {
    const { j } = this.context.state;
    const row = j === undefined ? undefined : this.table?.rows[Number(j)];
    const table = this.table;
    if (!row || !table) {
      return undefined;
    }
    return facts(table.columns.flatMap((column) => {
      const value = table.get(row, column);
      const text = cellText(column, value);
      return text === "" ? [] : [[headingOf(column), this.cell(table, row, column, text.slice(0, 5000), false) ?? text.slice(0, 5000), `${column.meaning}: ${exactText(column, value).slice(0, 2000)}`] as const];
    }));
  }

  copies(): Copies {
    const { state } = this.context;
    const options = this.given();
    const subject = this.declaration.inputs.includes("a") ? ["A", "B"] : state.v === "why" && state.s && !state.m ? [state.s] : [state.r ? "REPORT" : "FILE"];
    const section = this.table?.section;
    return {
      markdown: () => {
        const rows = this.shown.filter((row) => row !== undefined).slice(0, 50);
        const lead = this.declaration.totals.flatMap((column) => {
          const text = cellText(column, this.table?.total_(column));
          return text === "" ? [] : [`- ${headingOf(column)}: ${text}`];
        });
        const columns = this.grid?.shownColumns ?? [];
        return `${lead.join("\n")}\n\n${markdownTable(columns, rows.map((row) => columns.map((column) => cellText(column, this.table?.get(row, column)))))}`;
      },
      python: () => {
        const call = `xs.${this.name}(${[...subject.map((each) => JSON.stringify(each)), ...options.map(([key, value]) => `${key}=${python(value)}`)].join(", ")})`;
        return `import xlashape as xs\n\nanswer = ${call}\nprint(answer)${section ? `\nprint(answer.section(${[section, ...this.argumentOf(state)].map((each) => JSON.stringify(each)).join(", ")}))` : ""}`;
      },
      shell: () => ["xlashape", this.name, ...subject.map(quoted), ...options.map(([key, value]) => (value === "true" ? `--${key.replaceAll("_", "-")}` : `--${key.replaceAll("_", "-")} ${quoted(value)}`)),
        ...filtersOf(state.f ?? "").map((each) => `--filter ${quoted(each)}`), ...(state.o ? [`--sort ${quoted(state.o)}`] : [])].join(" "),
      call: () => ({ method: `xlashape.v1.ReportService/${this.name[0]!.toUpperCase()}${this.name.slice(1)}`, request: this.table?.request("") }),
    };
  }

  private tableOf(section: string, argument: string): ReportTable {
    const key = `${section}\n${argument}`;
    let found = this.tables.get(key);
    if (!found) {
      found = reportTable(this.context.client, this.name, section, argument, subjectOf(this.context), optionsOf(this.name, this.context.state));
      this.tables.set(key, found);
    }
    return found;
  }

  private stop(): void {
    this.tables.forEach((table) => table.stop());
  }

  /** Asks for the main table, which has the totals, then for what stands above it. */
  private async begin(): Promise<void> {
    const { asked } = this;
    this.figure.replaceChildren();
    this.advice.replaceChildren();
    const main = this.tableOf("", "");
    const done = this.waiting();
    try {
      await main.load(0, 1).finally(done);
      if (asked !== this.asked) {
        return;
      }
      this.showTotals(main);
      if (main.total === 0 && !this.context.state.t) {
        await this.turnToRows(asked);
      }
      const leading = LEADING[this.name];
      if (leading) {
        const table = this.tableOf(leading, "");
        await table.load(0, 1);
        if (asked === this.asked) {
          this.showAdvice(table);
        }
      }
      if (this.name === "profile" && main.total > 1) {
        await main.loadAll();
        await this.drawTime(main, asked);
      }
      if (this.name === "memory") {
        const table = this.tableOf("timeline", "");
        await table.load(0, 1);
        await table.loadAll();
        if (asked === this.asked && table.total > 1) {
          const choose = ({ name: a }: { name: string }): void => this.context.setState({ t: "at", a, j: undefined, o: undefined, f: undefined });
          replace(this.figure, timeline(table.rows as Message[], table.get, table.columns, choose));
        }
      }
    } catch (error) {
      if (asked === this.asked && !main.isStopped) {
        this.lead.replaceChildren();
        this.context.say(error);
      }
    }
  }

  /** The time of a profile, in the order of the program and with its memory where its module is open. */
  private async drawTime(main: ReportTable, asked: string): Promise<void> {
    const { m } = this.context.state;
    const name = main.columns.find((column) => column.name === "name")!;
    const nameOf = (row: Message): string => String(main.get(row, name) ?? "");
    let place: ((row: Message) => number) | undefined;
    let live: ((row: Message) => number | undefined) | undefined;
    if (m) {
      const program = this.context.program(this.context.module.name);
      await program.ready;
      place = (row) => program.find(nameOf(row))?.number ?? Infinity;
      const steps = reportTable(this.context.client, "memory", "timeline", "", { module: { source: { case: "name", value: this.context.module.name } } }, {});
      await steps.loadAll();
      const [step, bytes] = ["name", "bytes"].map((each) => steps.columns.find((column) => column.name === each)!) as [Column, Column];
      const held = new Map((steps.rows as Message[]).map((row) => [String(steps.get(row, step)), Number(steps.get(row, bytes) ?? 0)]));
      live = (row) => held.get(nameOf(row));
    }
    if (asked === this.asked) {
      replace(this.figure, timeAxis(main.rows as Message[], main.get, main.columns, place, live, (row) => this.open(main, row)));
    }
  }

  /** Says how long it takes, and lets the reader end it. To be called when it has ended. */
  private waiting(): () => void {
    const began = Date.now();
    const text = h("span");
    const cancel = h("button", { type: "button", hidden: true, onclick: () => {
      this.stop();
      const again = h("button", { type: "button", onclick: () => {
        this.asked = "";
        this.table = undefined;
        this.update(this.context.state);
      } }, "Compute");
      replace(this.lead, h("p.busy", {}, "Cancelled. ", again));
    } }, "Cancel");
    replace(this.lead, h("p.busy", {}, text, " ", cancel));
    return everySecond(() => {
      const seconds = Math.floor((Date.now() - began) / 1000);
      text.textContent = seconds > 0 ? `Computing… ${seconds} s` : "Computing…";
      cancel.hidden = seconds === 0;
    });
  }

  /** Where the main table has no rows, the first table that has some is shown. */
  private async turnToRows(asked: string): Promise<void> {
    for (const { name, argument } of this.declaration.sections) {
      const table = argument ? undefined : this.tableOf(name, "");
      await table?.load(0, 1);
      if (asked === this.asked && table && table.total > 0) {
        this.context.setState({ t: name }, { replace: true });
        return;
      }
    }
  }

  private showTotals(table: ReportTable): void {
    const known = this.declaration.totals.flatMap((column) => {
      const value = table.total_(column);
      return cellText(column, value) === "" ? [] : [[column, value] as const];
    });
    const heroes = FIRST[this.name].map(([total, what]) => [known.find(([column]) => column.name === total), what] as const).filter(([found]) => found);
    const hero = heroes.find(([found]) => found![1] !== 0) ?? heroes[0];
    const [number, what] = hero ?? [known.find(([column]) => column.kind !== "text"), ""];
    // Whether numbers are exact is said beside the first one, where they are not; which modules a change is between, last.
    const rest = known.filter((each) => each !== number && each[1] !== 0 && each[1] !== false && !/^(peak_)?is_(estimate|exact)$/.test(each[0].name))
      .sort(([a], [b]) => Number(a.name.startsWith("fingerprint")) - Number(b.name.startsWith("fingerprint")));
    const isEstimate = known.some(([column, value]) => value === !column.name.endsWith("is_exact") && /^(peak_)?is_(estimate|exact)$/.test(column.name));
    const text = (column: Column, value: Value): string => `${column.name.startsWith("delta_") && Number(value) > 0 ? "+" : ""}${cellText(column, value)}`;
    const isLong = ([column, value]: readonly [Column, Value]): boolean => column.name === "notes" || cellText(column, value).length > 40;
    const isEmpty = this.name === "profile" && table.total === 0;
    replace(this.lead,
      isEmpty ? h("p.hero", {}, EMPTY.profile) : number && h("p.hero", { title: exactText(...number) }, h("strong", {}, text(...number)), " ", h("span", {}, what || headingOf(number[0]), isEstimate && ", an estimate")),
      facts(rest.filter((each) => !isLong(each)).map(([column, value]) => [headingOf(column).replace(/ bytes$/, "").replace(/^delta /, "Δ "), linkedCell(this.context, column, cellText(column, value), { inTable: false }) ?? text(column, value),
        `${column.meaning}: ${exactText(column, value)}`])),
      rest.filter(isLong).map(([column, value]) => (Array.isArray(value) ? value : [value]).map((text) => h("p.note", { title: column.meaning }, column.name !== "notes" && `${headingOf(column)}: `, String(text)))));
    this.context.announce(`${this.declaration.short} ${number ? `${cellText(...number)} ${what}` : ""}`);
  }

  private showAdvice(table: ReportTable): void {
    const [text, saved, jax, shape] = ["text", "saved_bytes", "jax", "shape"].map((name) => table.columns.find((column) => column.name === name));
    const rows = table.rows.slice(0, LED).filter((row) => row !== undefined);
    if (rows.length === 0 || !text) {
      return;
    }
    replace(this.advice, h("h2", {}, "What would help"), h("ol", {}, rows.map((row) => {
      const after = shape && cellText(shape, table.get(row, shape));
      const before = this.context.state.s ?? "";
      return h("li", {}, saved && h("b", {}, cellText(saved, table.get(row, saved))), h("span", {}, cellText(text, table.get(row, text)),
        jax && cellText(jax, table.get(row, jax)) && h("code", {}, cellText(jax, table.get(row, jax)))),
        after && h("a", { href: this.context.link({ v: "shape", s: before || after, b: before ? after : undefined }) }, "Show"));
    })));
    if (table.total > LED) {
      this.advice.append(h("a", { href: this.context.link({ t: table.section, j: undefined, o: undefined, f: undefined }) }, `All ${table.total} suggestions`));
    }
  }

  /** Whether the program fits, and each change in full. */
  private showFit(table: ReportTable): void {
    const [text, saved] = ["text", "saved_bytes"].map((name) => table.columns.find((column) => column.name === name));
    const of = (row: Message | undefined, column: Column | undefined): string => (row && column ? cellText(column, table.get(row, column)) : "");
    replace(this.about, h("p.verdict", { role: "status" }, table.headline), h("ol.fit", {}, table.rows.slice(0, LISTED).map((row) => h("li", {}, h("b", {}, of(row, saved)), ` ${of(row, text)}`))));
  }

  private argumentOf(state: State): string[] {
    const section = this.declaration.sections.find((each) => each.name === state.t);
    return section?.argument ? [state.a ?? section.argument.choices[0] ?? ""] : [];
  }

  /** The table that the state names, its filter and order. */
  private choose(state: State): void {
    const sections = this.declaration.sections;
    const section = sections.find((each) => each.name === state.t);
    const [argument = ""] = this.argumentOf(state);
    const tab = (name: string, title: string, meaning: string) =>
      h("a", { href: this.context.link({ t: name || undefined, a: undefined, f: undefined, o: undefined, j: undefined, k: undefined }), "aria-current": (section?.name ?? "") === name ? "true" : undefined, title: meaning }, title);
    replace(this.tabs, tab("", TITLES[this.declaration.rows === "rows" ? this.name : this.declaration.rows] ?? this.declaration.rows, this.declaration.summary),
      sections.filter((each) => each.name !== "timeline").map((each) => tab(each.name, TITLES[each.name] ?? each.name, each.meaning)));
    replace(this.argument, section?.argument && this.argumentControl(section.argument, argument));
    this.about.textContent = section ? sentence(section.meaning) : "";
    this.filter.set(state.f ?? "");
    const isAsked = !section?.argument || argument !== "";
    const table = isAsked ? this.tableOf(section?.name ?? "", section?.argument ? bytesOf(section.argument, argument) : argument) : undefined;
    if (table !== this.table || !table) {
      this.table = table;
      this.grid?.dispose();
      this.grid = undefined;
      replace(this.place, !table && h("p.none", {}, `Say ${section?.argument?.meaning ?? ""}.`));
      if (table) {
        this.grid = new Table<Message>({
          label: section?.meaning ?? this.declaration.summary,
          columns: table.columns,
          get: (row, column) => table.get(row, this.standIn(table, row, column)),
          cell: (row, column, text) => this.cell(table, row, column, text, true),
          open: (row) => this.open(table, row),
          isCurrent: (row) => this.context.state.j !== undefined && table.rows[Number(this.context.state.j)] === row,
          sort: (o) => this.context.setState({ o }, { replace: true }),
          need: (first, last) => void this.load(table, first, last),
        });
        this.place.append(this.grid.element);
      }
    }
    this.grid?.setExtra(extraOf(state));
    this.grid?.setOrder(state.o ?? "");
    if (table) {
      void this.fill(table);
    }
  }

  private argumentControl(argument: Option, value: string): Node {
    const changed = (a: string): void => this.context.setState({ a, j: undefined }, { replace: true });
    if (argument.choices.length > 0) {
      return h("label", {}, "by ", select(argument.meaning, argument.choices.map((each) => [each, each.replace("_", " ")] as const), value, changed));
    }
    const input = h("input", { type: "text", value, "aria-label": argument.meaning, placeholder: argument.name === "fit" ? "such as 16GiB" : argument.name, onchange: () => changed(input.value.trim()) });
    return input;
  }

  private async load(table: ReportTable, first: number, last: number): Promise<void> {
    try {
      await table.load(first, last);
    } catch (error) {
      if (table === this.table) {
        this.context.say(error);
      }
      return;
    }
    if (table === this.table) {
      await this.fill(table);
    }
  }

  /** Rows into the grid. A filter and an order need all rows. */
  private async fill(table: ReportTable): Promise<void> {
    const { f = "", o = "", j } = this.context.state;
    const turn = ++this.filtering;
    try {
      const test = filterOf(f, table.columns, table.get);
      this.filter.mistake("");
      if (!table.totals) {
        this.grid?.set([], 0, "Computing…");
      }
      await table.load(0, 1);
      if (table === this.table && table.section === "fit") {
        this.showFit(table);
      }
      if (j !== undefined && Number(j) < table.total) {
        await table.load(Number(j), Number(j) + 1);
      }
      if (test || o) {
        await table.loadAll();
      }
      if (table !== this.table || turn !== this.filtering) {
        return;
      }
      let rows: readonly (Message | undefined)[] = table.rows;
      if (test) {
        rows = (rows as Message[]).filter(test);
      }
      if (o) {
        rows = sorted(rows as Message[], o, table.columns, table.get);
      }
      this.shown = rows;
      this.grid?.set(rows, rows.length, test ? "No row is like this." : (table.section === "" && EMPTY[this.name]) || "There are no rows.");
      this.grid?.refresh(true);
      if (test) {
        this.context.announce(`${rows.length} of ${table.total} rows`);
      }
      this.context.detailsChanged();
    } catch (error) {
      if (error instanceof SelectionError) {
        this.filter.mistake(error.message);
      } else if (table === this.table) {
        this.context.say(error);
      }
    }
  }

  /** Of a change, where the width has no room for both names: what was removed stands where the new name would. */
  private standIn(table: ReportTable, row: Message, column: Column): Column {
    const a = this.name === "diff" && column.name === "b" && !table.get(row, column) ? table.columns.find((each) => each.name === "a") : undefined;
    return a && this.grid && !this.grid.shownColumns.includes(a) ? a : column;
  }

  private cell(table: ReportTable, row: Message, given: Column, text: string, inTable: boolean) {
    const column = inTable ? this.standIn(table, row, given) : given;
    if (this.name === "diff" && /^(a|b|source|source_a|source_b)$/.test(column.name) && text && !text.endsWith("…")) {
      const b = table.columns.find((each) => each.name === "b");
      const isFirst = column.name.endsWith("a") || (column.name === "source" && !(b && table.get(row, b)));
      const one = { v: "instructions", m: isFirst ? this.context.state.m : this.context.state.m2, x: isFirst ? this.context.state.x : this.context.state.x2, m2: undefined, x2: undefined };
      const what = column.name.startsWith("source") ? { f: `source=${text}`, i: undefined } : { f: undefined, i: text };
      return h("a", { href: this.context.link({ ...one, ...what, c: undefined, j: undefined, o: undefined, t: undefined }), tabindex: inTable ? -1 : undefined,
        title: `${text} in the ${isFirst ? "first" : "second"} module` }, text);
    }
    const computation = table.columns.find((each) => each.name === "computation");
    return linkedCell(this.context, column, text, { computation: computation && cellText(computation, table.get(row, computation)), inTable });
  }

  private open(table: ReportTable, row: Message): void {
    const j = String(table.rows.indexOf(row));
    const of = (name: string): string => {
      const column = table.columns.find((each) => each.name === name);
      return column ? cellText(column, table.get(row, column)) : "";
    };
    const isOfInstructions = this.name !== "diff" && table.columns.some((each) => each.name === "computation");
    const i = isOfInstructions ? of("instruction") || of("name") : "";
    this.context.setState({ j, i: i || undefined, c: i ? of("computation") : undefined });
  }

  private options(): HTMLElement {
    return dropdown("Options", (panel) => {
      const now = Object.fromEntries(this.given().filter(([name]) => name !== "target"));
      const change = (name: string, value: string): void => {
        const next = Object.entries({ ...now, [name]: value }).filter(([, each]) => each && each !== "false");
        this.context.setState({ d: next.map(([key, each]) => `${key}=${each}`).join(";"), j: undefined });
      };
      replace(panel, h("div.options", {}, this.declaration.options.filter(({ name }) => name !== "target").map((option) => {
        const value = now[option.name] ?? "";
        if (option.kind === "boolean") {
          const input = h("input", { type: "checkbox", onchange: () => change(option.name, String(input.checked)) });
          input.checked = value === "true";
          return h("label", {}, input, ` ${sentence(option.meaning)}`);
        }
        const control = option.choices.length > 0
          ? select(option.meaning, [["", "—"], ...option.choices.map((each) => [each, each] as const)], value, (chosen) => change(option.name, chosen))
          : h("input", { type: "text", value, "aria-label": option.meaning, onchange: (event: Event) => change(option.name, (event.target as HTMLInputElement).value.trim()) });
        return h("label", {}, h("b", {}, option.name.replaceAll("_", " ")), control, h("small", {}, sentence(option.meaning)));
      })));
    }, "optionbox");
  }
}

const TITLES: Readonly<Record<string, string>> = { copies: "copies", cost: "instructions", profile: "instructions", peak_buffers: "at the peak", by: "grouped", at: "at a step", fit: "make it fit", spaces: "memory spaces", against: "against another" };

const EMPTY: Partial<Record<ReportName, string>> = { verify: "Every rule is kept.", copies: "No instruction only moves data.", diff: "Nothing has changed.", equivalent: "Stages are compared in folders of dumps. These are two modules.", profile: "The profile has no events of HLO instructions." };

const extraOf = (state: State): string[] => (state.k ?? "").split(",").filter(Boolean);
/** Bytes may be given with a unit, and are asked for without. */
const bytesOf = ({ name }: Option, text: string): string => (name === "fit" && /[a-z]$/i.test(text) && isAmount(text) ? String(Math.floor(amountOf(text))) : text);
const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
const quoted = (text: string): string => (/^[\w./:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const python = (text: string): string => (text === "true" ? "True" : /^-?\d+(\.\d+)?$/.test(text) ? text : JSON.stringify(text));

/** The options of the state that this report has. A target that is not one of its choices is left out. */
function optionsOf(name: ReportName, state: State): Record<string, string> {
  const given: Record<string, string> = state.h ? { target: state.h } : {};
  for (const each of (state.d ?? "").split(";")) {
    const at = each.indexOf("=");
    if (at > 0) {
      given[each.slice(0, at)] = each.slice(at + 1);
    }
  }
  const options = REPORTS[name].options.filter((option) => given[option.name] && (option.choices.length === 0 || option.choices.includes(given[option.name]!)));
  return Object.fromEntries(options.map((option) => [option.name, given[option.name]!]));
}

const subjectKey = (state: State): string => [state.m, state.m2, state.r, state.m ? "" : state.s].join(" ");

/** What requests are about: the module, two modules, text, a shape or a profile. */
function subjectOf(context: Context): About {
  const { state } = context;
  const module = (digest: string) => ({ source: { case: "name" as const, value: `modules/${digest}` } });
  const content = context.content();
  if (state.m && state.m2 && REPORTS[state.v as ReportName]?.inputs.includes("a")) {
    return { a: module(state.m), b: module(state.m2) };
  }
  if (state.v === "profile" && content) {
    return { profile: content.bytes };
  }
  if (content?.kind === "report") {
    return { text: new TextDecoder().decode(content.bytes) };
  }
  return state.m ? { module: module(state.m) } : { shape: { form: { case: "text" as const, value: state.s ?? "" } } };
}

