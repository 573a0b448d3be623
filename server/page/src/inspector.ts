/** What stands beside a view: the row that was chosen, and the instruction that the state names, with what it reads, who reads it, and what else can be asked. */

import { bytesText } from "./columns.js";
import { link } from "./cells.js";
import type { Context, View } from "./context.js";
import { facts } from "./controls.js";
import { type Child, h, replace } from "./dom.js";
import type { Row } from "./program.js";

const LISTED = 12;
const SHOWN = 2000; // characters of a name

export class Inspector {
  readonly element = h("aside.inspector", { "aria-label": "details", hidden: true });
  private stop: (() => void) | undefined;

  constructor(private readonly context: Context) {}

  show(view: View | undefined): void {
    this.stop?.();
    this.stop = undefined;
    const { state } = this.context;
    const details = view?.details?.();
    const name = state.m && state.v !== "diff" && state.v !== "shape" ? state.i : undefined;
    this.element.hidden = !details && !name;
    if (this.element.hidden) {
      this.element.replaceChildren();
      return;
    }
    const program = name ? this.context.program(this.context.module.name) : undefined;
    const row = program?.find(name, state.c);
    if (program && !program.isComplete) {
      this.stop = program.onRows(() => this.show(view));
    }
    const close = h("button.close", { type: "button", "aria-label": "close the details", onclick: () => this.context.setState({ i: undefined, c: undefined, j: undefined }) }, "×");
    replace(this.element, close, row ? this.head(row) : name && h("p.busy", {}, program?.isComplete ? `There is no instruction ${name.slice(0, SHOWN)}.` : "…"),
      details && [h("h3", {}, "In this report"), details], row && this.instruction(row));
  }

  private head(row: Row): Child {
    const { context } = this;
    const at = { i: row.name, c: row.computation, j: undefined, t: undefined, f: undefined, o: undefined };
    const view = (v: string, text: string, about: string, patch = {}): Child =>
      h("a", { href: context.link({ ...at, v, ...patch }), title: about, "aria-current": context.state.v === v ? "page" : undefined }, text);
    return [
      h("h2", { title: row.name.slice(0, SHOWN) }, shortened(row.name)),
      h("div.asks", { role: "group", "aria-label": "more about this instruction" },
        view("graph", "Graph", "this instruction and its neighbours"),
        view("element", "What it reads", "which elements of its operands an element reads"),
        view("text", "Text", "its line in the module's text", { n: undefined }),
        view("why", "Why so large", "why its result is as large as it is", { d: `instruction=${row.name}` })),
    ];
  }

  private instruction(row: Row): Child {
    const { context } = this;
    const program = context.program(context.module.name);
    const name = (each: Row): Child => h("li", {}, link(context, { i: each.name, c: each.computation, j: undefined }, shortened(each.name), { title: each.shape.slice(0, SHOWN) }), " ", h("small", {}, each.opcode));
    const list = (title: string, rows: readonly Row[]): Child => rows.length > 0 && [
      h("h3", {}, title, " ", h("small", {}, String(rows.length))), h("ul.names", {}, rows.slice(0, LISTED).map(name)), rows.length > LISTED && h("p.more", {}, `and ${rows.length - LISTED} more`),
    ];
    return [
      h("h3", {}, "Instruction"),
      facts([
        ["opcode", row.opcode],
        ["shape", link(context, { v: "shape", s: row.shape }, shortened(row.shape), { title: "where its elements lie" })],
        ...(row.bytes === undefined ? [] : [["bytes", `${bytesText(row.bytes)}${row.paddingBytes ? `, ${bytesText(row.paddingBytes)} of them padding` : ""}`] as const]),
        ...(row.index === undefined ? [] : [[row.opcode === "parameter" ? "parameter" : "element", String(row.index)] as const]),
        ["computation", h("span", {}, link(context, { v: "instructions", f: `computation=${row.computation}`, o: undefined, j: undefined, t: undefined }, shortened(row.computation)), row.isRoot && " · its root")],
        ...(row.source ? [["source", link(context, { v: "instructions", f: `source=${row.source}`, o: undefined, j: undefined, t: undefined }, row.source)] as const] : []),
        ...(row.opName ? [["op_name", shortened(row.opName)] as const] : []),
      ]),
      program.callsOf(row).length > 0 && [h("h3", {}, "Calls"), h("ul.names", {}, program.callsOf(row).slice(0, LISTED).map((each) =>
        h("li", {}, link(context, { v: "instructions", f: `computation=${each}`, o: undefined, j: undefined, t: undefined }, shortened(each)))))],
      list("Operands", program.operandsOf(row)),
      list("Read by", program.usersOf(row)),
    ];
  }
}

function shortened(text: string): string {
  return text.length > 400 ? `${text.slice(0, 200)}…${text.slice(-100)}` : text;
}
