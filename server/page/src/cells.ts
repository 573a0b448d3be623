/** Cells that link to what they name: instructions, shapes, lines of a program. */

import { type Column } from "./columns.js";
import type { Context } from "./context.js";
import { type Child, h } from "./dom.js";
import type { Patch } from "./state.js";

const INSTRUCTIONS = new Set(["name", "instruction", "operand_name", "producer", "consumer", "forced_by", "mover", "parameter", "peak_instruction", "a_name"]);
const SHAPES = new Set(["shape", "operand_shape"]);

/** A link within the page. `inTable`: the keyboard reaches the row, and what Enter opens has the same link. */
export function link(context: Context, patch: Patch, text: string, { title, inTable = false }: { title?: string; inTable?: boolean } = {}): HTMLAnchorElement {
  return h("a", { href: context.link(patch), title, tabindex: inTable ? -1 : undefined }, text);
}

/** What a cell shows in place of its text; undefined where the text is all. */
export function linkedCell(context: Context, column: Column, text: string, { computation, inTable = true }: { computation?: string | undefined; inTable?: boolean } = {}): Child {
  if (!text || text.endsWith("…")) {
    return undefined;
  }
  if (SHAPES.has(column.name) && /^[a-z]\w*\[/.test(text)) {
    return link(context, { v: "shape", s: text }, text, { title: `${text}: where its elements lie`, inTable });
  }
  if (column.name === "source" && context.state.m) {
    return link(context, { v: "instructions", f: `source=${text}`, o: undefined, j: undefined, i: undefined, c: undefined }, text, { title: `the instructions of ${text}`, inTable });
  }
  if (INSTRUCTIONS.has(column.name) && context.state.m) {
    const found = context.program(context.module.name).find(text, computation);
    return found && link(context, { i: text, c: found.computation, j: undefined }, text, { title: text, inTable });
  }
  return undefined;
}
