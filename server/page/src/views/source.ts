/** What the layers, operations and lines of the program cost, as a tree. */

import { cellText, type Column, grouped, type Value } from "../columns.js";
import type { Context, Copies, Mount, View } from "../context.js";
import { select } from "../controls.js";
import { h, replace } from "../dom.js";
import { type Amounts, type Layer, layersOf, linesOf, partsOf } from "../layers.js";
import { markdownTable } from "../markdown.js";
import { type Message, type ReportTable, reportTable } from "../reports.js";
import { sorted } from "../selection.js";
import type { State } from "../state.js";
import { Table } from "../table.js";

const number = (name: string, unit: string, meaning: string, rank: number, heading = ""): Column => ({ name, kind: "integer", unit, meaning, rank, heading });
const COLUMNS: readonly Column[] = [
  { name: "name", kind: "text", unit: "", meaning: "the layer, operation, file or line", rank: 1, heading: "" },
  number("bytes", "bytes", "read and written by its instructions in a run", 1),
  { name: "share", kind: "number", unit: "fraction", meaning: "its part of the time of a run, or of the bytes where no target is known", rank: 2, heading: "" },
  number("flops", "flops", "its floating-point operations in a run", 3),
  number("instructions", "", "its instructions", 2),
];

const MOST = 0.5;
const GROUPINGS = [["op_name", "layers and operations"], ["source", "files and lines"]] as const;

export const mount: Mount = (container, context) => new Source(container, context);

class Source implements View {
  private readonly hero = h("p.hero");
  private readonly control = h("span");
  private readonly grid: Table<Layer>;
  private table: ReportTable | undefined;
  private root: Layer | undefined;
  private readonly open = new Set<string>();
  private shown: Layer[] = [];

  constructor(container: HTMLElement, private readonly context: Context) {
    this.grid = new Table<Layer>({
      label: "layers, operations and lines of the program",
      columns: COLUMNS,
      get,
      cell: (layer, column, text) =>
        column.name === "instructions" ? h("a", { href: context.link(this.instructions(layer)), tabindex: -1, title: "these instructions" }, text) : undefined,
      open: (layer) => (layer.children.length > 0 ? this.toggle(layer) : context.setState(this.instructions(layer))),
      sort: (o) => context.setState({ o }, { replace: true }),
      tree: { level: (layer) => layer.level - 1, isOpen: (layer) => (layer.children.length > 0 ? this.open.has(keyOf(layer)) : undefined), toggle: (layer) => this.toggle(layer) },
    });
    container.append(h("section.report", { "aria-label": "what the layers of the program cost" }, h("div.lead", {}, this.hero), h("div.bar", {}, this.control), h("div.place", {}, this.grid.element)));
    this.update(context.state);
  }

  update(state: State): void {
    const grouping = state.g === "source" ? "source" : "op_name";
    replace(this.control, h("label", {}, "by ", select("grouping", GROUPINGS, grouping, (g) => this.context.setState({ g: g === "op_name" ? undefined : g, o: undefined }, { replace: true }))));
    this.grid.setOrder(state.o ?? "bytes:desc");
    const table = reportTable(this.context.client, "cost", "by", grouping, { module: { source: { case: "name", value: this.context.module.name } } }, {});
    if (table !== this.table) {
      this.table = table;
      this.root = undefined;
      this.hero.textContent = "Computing…";
      table.load(0, 1).then(() => table.loadAll()).then(() => {
        if (table === this.table) {
          this.made(table, grouping);
        }
      }, (error: unknown) => {
        this.hero.textContent = "";
        this.context.say(error);
      });
    } else if (this.root) {
      this.list();
    }
  }

  dispose(): void {
    this.table?.stop();
    this.grid.dispose();
  }

  copies(): Copies {
    const by = this.context.state.g === "source" ? "source" : "op_name";
    return {
      markdown: () => markdownTable(COLUMNS, this.shown.slice(0, 100).map((layer) => COLUMNS.map((column) => `${column.name === "name" ? "  ".repeat(layer.level - 1) : ""}${cellText(column, get(layer, column))}`))),
      python: () => `import xlashape as xs\n\nprint(xs.cost("FILE").section("by", "${by}"))`,
      shell: () => `xlashape cost FILE --by ${by}`,
      call: () => ({ method: "xlashape.v1.ReportService/Cost", request: this.table?.request("") }),
    };
  }

  private made(table: ReportTable, grouping: string): void {
    const value = (row: Message, name: string): Value => table.get(row, table.columns.find((each) => each.name === name)!);
    const amount = (row: Message, name: string): number => Number(value(row, name) ?? 0);
    const operations = (table.rows as Message[]).map((row): readonly [string, Amounts] => [String(value(row, "group")), {
      instructions: amount(row, "instructions"), flops: amount(row, "flops"), bytes: amount(row, "bytes"), paddedBytes: amount(row, "padded_bytes"), share: amount(row, "share"),
    }]);
    this.root = layersOf(operations, grouping === "source" ? linesOf : partsOf);
    this.open.clear();
    // What holds most is opened, so that what differs is seen first.
    for (let at: Layer | undefined = this.root; at; at = at.children.find((each) => each.bytes > MOST * at!.bytes)) {
      this.open.add(keyOf(at));
    }
    const known = operations.filter(([name]) => !name.startsWith("(no ")).length;
    replace(this.hero, known > 0 ? [h("strong", {}, grouped(known)), " ", h("span", {}, grouping === "source" ? "lines of the program" : "operations of the program")]
      : h("span", {}, `The module does not say from which ${grouping === "source" ? "lines" : "operations"} its instructions come.`));
    this.list();
  }

  private list(): void {
    const order = this.context.state.o ?? "bytes:desc";
    this.shown = [];
    const stack = [...(this.root?.children ?? [])];
    const pending = sorted(stack, order, COLUMNS, get).reverse();
    for (let at = pending.pop(); at; at = pending.pop()) {
      this.shown.push(at);
      if (this.open.has(keyOf(at))) {
        pending.push(...sorted(at.children, order, COLUMNS, get).reverse());
      }
    }
    this.grid.set(this.shown);
  }

  private toggle(layer: Layer): void {
    const key = keyOf(layer);
    this.open.has(key) ? this.open.delete(key) : this.open.add(key);
    this.context.announce(`${layer.label} ${this.open.has(key) ? "opened" : "closed"}`);
    this.list();
  }

  private instructions(layer: Layer) {
    const column = this.context.state.g === "source" ? "source" : "op_name";
    const start = layer.path.replace(/[\\^$.|?+()[\]{};]/g, (letter) => (letter === ";" ? "." : `\\${letter}`)).replaceAll("*", layer.folded ? "\\d+" : "\\*");
    return { v: "instructions", f: `${column}~^${start}`, o: undefined, g: undefined };
  }
}

const keyOf = (layer: Layer): string => `${layer.folded}${layer.path}`;

function get(layer: Layer, column: Column): Value {
  switch (column.name) {
    case "name":
      return layer.folded ? `${layer.label} ×${layer.folded}` : layer.label;
    case "bytes":
      return layer.bytes;
    case "flops":
      return layer.flops;
    case "share":
      return layer.share;
    default:
      return layer.instructions;
  }
}
