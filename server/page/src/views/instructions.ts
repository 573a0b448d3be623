/** Every instruction of a module, and above them the numbers of its reports. */

import { linkedCell } from "../cells.js";
import { cellText, type Column, grouped, type Value } from "../columns.js";
import type { Context, Copies, Mount, View } from "../context.js";
import { columnChooser, FilterBox } from "../controls.js";
import { h } from "../dom.js";
import { markdownTable } from "../markdown.js";
import type { Program, Row } from "../program.js";
import { REPORTS, type ReportName, reportTable } from "../reports.js";
import { filterOf, SelectionError, sorted } from "../selection.js";
import type { State } from "../state.js";
import { Table } from "../table.js";

const text = (name: string, meaning: string, rank: number): Column => ({ name, kind: "text", unit: "", meaning, rank, heading: "" });
const bytes = (name: string, meaning: string, rank: number, heading: string): Column => ({ name, kind: "integer", unit: "bytes", meaning, rank, heading });

const COLUMNS: readonly Column[] = [
  text("name", "the name of the instruction", 1),
  text("opcode", "what it does", 2),
  text("shape", "the shape of its result, with its layout", 3),
  bytes("bytes", "the bytes of its result, padding included", 1, ""),
  bytes("padding_bytes", "how many of them are padding", 4, "padding"),
  text("source", "the line of the program that it comes from", 3),
  text("op_name", "the operation of the program that it comes from", 5),
  text("computation", "the computation that it is in", 6),
  { name: "is_root", kind: "boolean", unit: "", meaning: "whether it is the root of its computation", rank: 0, heading: "" },
];

const READ: Readonly<Record<string, (row: Row) => Value>> = {
  name: (row) => row.name, opcode: (row) => row.opcode, shape: (row) => row.shape, bytes: (row) => row.bytes, padding_bytes: (row) => row.paddingBytes,
  source: (row) => row.source || undefined, op_name: (row) => row.opName || undefined, computation: (row) => row.computation,
  is_root: (row) => row.isRoot,
};
const get = (row: Row, column: Column): Value => READ[column.name]?.(row);

/** The one number of each report, which leads there. */
const NUMBERS: readonly (readonly [ReportName, string, string])[] = [
  ["memory", "peak_bytes", "at the peak of memory"],
  ["copies", "total_bytes", "moved by copies"],
  ["cost", "flops", "FLOPs in a run"],
  ["reads", "wasted_bytes", "fetched in vain"],
  ["reads", "again_bytes", "fetched again, at most"],
  ["verify", "problem_count", "broken rules"],
];

export const mount: Mount = (container, context) => new Instructions(container, context);

class Instructions implements View {
  private readonly program: Program;
  private readonly count = h("p.hero");
  private readonly numbers = h("div.numbers", { role: "group", "aria-label": "reports" });
  private readonly filter: FilterBox;
  private readonly grid: Table<Row>;
  private readonly stop: () => void;
  private shown: readonly Row[] = [];
  private key = "";
  private isGone = false;

  constructor(container: HTMLElement, private readonly context: Context) {
    this.program = context.program(context.module.name);
    this.filter = new FilterBox("bytes>=10MiB; opcode=fusion", (f) => context.setState({ f }, { replace: true }));
    this.grid = new Table<Row>({
      label: "instructions",
      columns: COLUMNS,
      get,
      cell: (row, column, shown) => (column.name === "name" ? undefined : linkedCell(context, column, shown, { computation: row.computation })),
      open: (row) => context.setState({ i: row.name, c: row.computation }),
      isCurrent: (row) => row.name === context.state.i && row.computation === (context.state.c ?? row.computation),
      sort: (o) => context.setState({ o }, { replace: true }),
    });
    const chooser = columnChooser(() => COLUMNS, () => (context.state.k ?? "").split(",").filter(Boolean), () => this.grid.shownColumns, (names) => context.setState({ k: names.join(",") }, { replace: true }));
    container.append(h("section.report", { "aria-label": "instructions" }, h("div.lead", {}, this.count, this.numbers), h("div.bar", {}, h("div.tools", {}, this.filter.element, chooser)), h("div.place", {}, this.grid.element)));
    this.stop = this.program.onRows(() => this.fill(true));
    this.program.ready.then(() => this.reports(), (error: unknown) => context.say(error));
    this.update(context.state);
  }

  update(state: State): void {
    this.filter.set(state.f ?? "");
    this.grid.setExtra((state.k ?? "").split(",").filter(Boolean));
    this.grid.setOrder(state.o ?? "");
    this.fill(false);
  }

  dispose(): void {
    this.isGone = true;
    this.stop();
    this.grid.dispose();
  }

  copies(): Copies {
    const { f, o } = this.context.state;
    return {
      markdown: () => {
        const columns = this.grid.shownColumns;
        return markdownTable(columns, this.shown.slice(0, 100).map((row) => columns.map((column) => cellText(column, get(row, column)))));
      },
      python: () => 'import xlashape as xs\n\nmodule = xs.HloModule.of("FILE")\nfor instruction in module.entry.instructions:\n    print(instruction.name, instruction.opcode, instruction.shape)',
      shell: () => `xlashape size FILE --order module${f ? ` --filter '${f}'` : ""}${o ? ` --sort ${o}` : ""}`,
      call: () => ({ method: "xlashape.v1.HloService/ListInstructions", request: { module: { name: this.context.module.name }, pageSize: 1000 } }),
    };
  }

  private fill(isNew: boolean): void {
    const { f = "", o = "", i, c } = this.context.state;
    const key = JSON.stringify([f, o]);
    if (isNew || key !== this.key) {
      this.key = key;
      try {
        const test = filterOf(f, COLUMNS, get);
        this.filter.mistake("");
        const all = this.program.entryFirst();
        const rows = test ? all.filter(test) : all;
        this.shown = o ? sorted(rows, o, COLUMNS, get) : rows;
        const isComplete = this.program.isComplete;
        this.grid.set(this.shown, this.shown.length, isComplete ? "No instruction is like this." : "Reading the module…");
        this.count.replaceChildren(h("strong", {}, isComplete ? grouped(this.shown.length) : "…"), " ", h("span", {}, test ? `of ${grouped(this.program.rows.length)} instructions` : "instructions"));
        if (test) {
          this.context.announce(`${this.shown.length} instructions`);
        }
      } catch (error) {
        if (!(error instanceof SelectionError)) {
          throw error;
        }
        this.filter.mistake(error.message);
      }
    }
    this.grid.refresh(Boolean(i ?? c));
  }

  /** One after another, so that what a person asks for meanwhile has its turn. */
  private async reports(): Promise<void> {
    for (const [name, total, what] of NUMBERS) {
      if (this.isGone) {
        return;
      }
      const place = h("a", { href: this.context.link({ v: name, t: undefined, f: undefined, o: undefined, i: undefined, c: undefined, j: undefined, k: undefined }), title: REPORTS[name].summary }, h("strong", {}, "…"), h("span", {}, what));
      this.numbers.append(place);
      const column = REPORTS[name].totals.find((each) => each.name === total)!;
      const table = reportTable(this.context.client, name, "", "", { module: { source: { case: "name", value: this.context.module.name } } }, {});
      try {
        await table.load(0, 1);
        place.firstElementChild!.textContent = cellText(column, table.total_(column)) || "—";
      } catch {
        place.firstElementChild!.textContent = "—"; // the view of the report says why
      }
    }
  }
}
