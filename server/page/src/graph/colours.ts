/** What the colours of a graph mean. Text on each is black, with a contrast of 4.5 at least. */

import type { GraphNode } from "./model.js";

export interface Colouring {
  fills: string[];
  legend: { colour: string; text: string }[];
}

const KINDS: readonly (readonly [colour: string, text: string, opcodes: readonly string[]])[] = [
  ["#8cb6e8", "matrix products and convolutions", ["dot", "convolution", "ragged-dot", "scaled-dot", "cholesky", "triangular-solve", "fft"]],
  ["#f0a878", "data movement", ["copy", "transpose", "reshape", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad", "gather", "scatter", "reverse", "bitcast", "bitcast-convert", "copy-start", "copy-done", "broadcast"]],
  ["#a5d6a0", "reductions", ["reduce", "reduce-window", "select-and-scatter", "sort", "reduce-precision", "topk"]],
  ["#f2a0b5", "collectives", ["all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute", "collective-broadcast", "all-reduce-start", "all-reduce-done", "all-gather-start", "all-gather-done", "send", "recv", "send-done", "recv-done"]],
  ["#c9b3e6", "fusions, calls and loops", ["fusion", "while", "conditional", "call", "custom-call", "async-start", "async-done", "async-update", "map"]],
  ["#d4d2cb", "parameters, constants and tuples", ["parameter", "constant", "iota", "tuple", "get-tuple-element", "opt-barrier", "after-all", "partition-id", "replica-id", "infeed", "outfeed"]],
  ["#f3e3a1", "elementwise and others", []],
];
const GROUP = "#bcd9dd";
const KIND_OF = new Map(KINDS.flatMap(([colour, , opcodes]) => opcodes.map((opcode) => [opcode, colour] as const)));

/** From little to much. */
const SCALE = ["#f5f3c1", "#ddecbf", "#c2e3d2", "#a8d8dc", "#8dcbe4", "#7bbce7", "#88a5dd", "#a58fcf"] as const;
const NOTHING = "#e4e4e0";

export function byOpcode(nodes: readonly GraphNode[]): Colouring {
  const fills = nodes.map(({ opcode }) => (opcode === "group" ? GROUP : (KIND_OF.get(opcode) ?? KINDS.at(-1)![0])));
  const used = new Set(fills);
  const legend = KINDS.filter(([colour]) => used.has(colour)).map(([colour, text]) => ({ colour, text }));
  return { fills, legend: used.has(GROUP) ? [...legend, { colour: GROUP, text: "layers" }] : legend };
}

/** By a number of each node, on a scale of logarithms. */
export function byNumber(values: readonly number[], text: (value: number) => string, what: string): Colouring {
  const known = values.filter((value) => value > 0);
  const most = known.reduce((a, b) => Math.max(a, b), 0);
  const least = Math.max(known.reduce((a, b) => Math.min(a, b), Infinity), most / 1e6);
  const span = Math.log(most / least) || 1;
  const fills = values.map((value) => (value > 0 ? SCALE[Math.max(0, Math.min(SCALE.length - 1, Math.floor((Math.log(value / least) / span) * SCALE.length)))]! : NOTHING));
  if (known.length === 0) return { fills, legend: [{ colour: NOTHING, text: `no ${what}` }] };
  const legend = [0, SCALE.length >> 1, SCALE.length - 1].map((step) => ({ colour: SCALE[step]!, text: text(least * Math.exp((span * (step + (step === 0 ? 0 : step === SCALE.length - 1 ? 1 : 0.5))) / SCALE.length)) }));
  return { fills, legend: [{ colour: NOTHING, text: `no ${what}` }, ...legend] };
}
