import assert from "node:assert/strict";
import { test } from "node:test";

import type { Row } from "../program.js";
import { graphOf, type Scope, type Source } from "./model.js";
import { type Flow, Parts, rangeText } from "./parts.js";
import { repeats } from "./repeats.js";

/** Instructions as lines: `name opcode operands…`, `!` for the root; `opcode#2` has the number 2; `opcode@c` calls c. `computation:` begins one. */
function source(text: string): Source {
  const rows: Row[] = [];
  const operands = new Map<Row, string[]>();
  const calls = new Map<Row, string[]>();
  let computation = "";
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    if (line.endsWith(":")) {
      computation = line.slice(0, -1);
      continue;
    }
    const [name = "", what = "", ...rest] = line.replace("!", "").split(" ");
    const [opcode = "", index] = what.split("@")[0]!.split("#");
    const row: Row = {
      number: rows.length, name, opcode, shape: "f32[8]{0}", computation, isRoot: line.startsWith("!"), index: index === undefined ? undefined : Number(index), opName: "", bytes: 32,
      paddingBytes: 0, source: "",
    };
    rows.push(row);
    operands.set(row, rest);
    if (what.includes("@")) calls.set(row, [what.split("@")[1]!]);
  }
  const find = (row: Row, name: string) => rows.find((each) => each.name === name && each.computation === row.computation);
  return { rows, operandsOf: (row) => operands.get(row)!.map((name) => find(row, name)), callsOf: (row) => calls.get(row) ?? [] };
}

function edgesOf(given: Source, scope: Partial<Scope> = {}): string[] {
  const { nodes, edges } = graphOf(given, { grouping: "layers", computation: "e", ...scope });
  return edges.map(({ from, to }) => `${nodes[from]!.title} ${nodes[to]!.title}`).sort();
}

const TUPLES = source(`
  f:
  q parameter#0
  r parameter#1
  !s add q r
  e:
  a parameter#0
  b parameter#1
  k constant
  kk broadcast k
  t tuple a b
  g get-tuple-element#1 t
  x add g kk
  y fusion@f x a
  !z negate y`);

test("constants and tuples are folded: an element leads to what it was made of", () => {
  assert.deepEqual(edgesOf(TUPLES), ["a y", "b x", "x y", "y z"]);
  const { nodes } = graphOf(TUPLES, { grouping: "layers", computation: "e" });
  assert.deepEqual(nodes.find(({ title }) => title === "x")!.constants.map(({ name }) => name), ["kk"]);
});

test("a fusion that is opened is its instructions, and its parameters are its operands", () => {
  assert.deepEqual(edgesOf(TUPLES, { opened: ["y"] }), ["a s", "b x", "s z", "x s"]);
});

test("surroundings, and everything between two instructions", () => {
  const row = (name: string) => TUPLES.rows.find((each) => each.name === name)!;
  assert.deepEqual(edgesOf(TUPLES, { center: row("x"), distance: 1 }), ["b x", "x y"]);
  assert.deepEqual(edgesOf(TUPLES, { center: row("b"), to: row("z") }), ["b x", "x y", "y z"]);
  assert.deepEqual(edgesOf(TUPLES, { center: row("z"), to: row("b") }), ["b x", "x y", "y z"]);
});

test("computations call each other", () => {
  const { nodes, edges } = graphOf(TUPLES, { grouping: "computations", computation: "e" });
  assert.deepEqual(nodes.map(({ title }) => title), ["f", "e"]);
  assert.deepEqual(edges.map(({ from, to, shape }) => [from, to, shape]), [[1, 0, "fusion"]]);
});

test("runs that repeat are found with their period", () => {
  const layer = ["a", "b", "c", "b", "d"];
  const words = ["x", "y", ...Array.from({ length: 12 }, () => layer).flat(), "z"];
  assert.deepEqual(repeats(words), [{ start: 2, period: 5, copies: 12 }]);
  assert.deepEqual(repeats(["a", "b", "a", "b"]), []);
  assert.deepEqual(repeats([]), []);
});

/** The parts of instructions `layer/opcode`, by what each reads: the numbers of others. */
function partsOf(lines: readonly (readonly [name: string, ...reads: number[]])[]): string[] {
  const rows = lines.map(([name], number): Row => {
    const [layer = "", opcode = ""] = name.split("/");
    return { number, name: `i${number}`, opcode, shape: "f32[8]{0}", computation: "e", isRoot: false, index: undefined, opName: layer && `f/${layer}/op`, bytes: 32, paddingBytes: 0, source: "" };
  });
  const flows = lines.flatMap(([, ...reads], number): Flow[] => reads.map((from) => ({ from: rows[from]!, to: rows[number]!, shape: "f32[8]" })));
  return new Parts(rows, flows, new Map(), 1).boxes([]).boxes.map(({ title, times, isChain }) => `${title}${times > 1 ? ` ×${times} ${isChain ? "in sequence" : "in parallel"}` : ""}`);
}

test("layers are one where they follow each other, with what is between them, and never around anything else", () => {
  const chain = [0, 1, 2, 3].map((n): [string, ...number[]] => [`conv_${n}/dot`, ...(n > 0 ? [n] : [])]);
  assert.deepEqual(partsOf([["in/exp"], ...chain.map(([name], n): [string, ...number[]] => [name, n])]), ["in", "conv_0…3 ×4 in sequence"]);
  assert.deepEqual(partsOf([["in/exp"], ...chain.map(([name]): [string, ...number[]] => [name, 0]), ["out/add", 1, 2, 3, 4]]), ["in", "conv_0…3 ×4 in parallel", "out"]);
  const alternating = [0, 1, 2].flatMap((n): [string, ...number[]][] => [[`conv_${n}/dot`, 2 * n], ["norm/add", 2 * n + 1]]);
  assert.deepEqual(partsOf([["in/exp"], ...alternating]), ["in", "conv_0…2, norm ×3 in sequence"]);
  // What reads the first and is read by the second stands between them.
  assert.deepEqual(partsOf([["conv_0/dot"], ["pool/max", 0], ["conv_1/dot", 1], ["conv_2/dot", 2]]), ["conv_0", "pool", "conv_1", "conv_2"]);
});

test("layers have a range of names", () => {
  assert.equal(rangeText(["layer_0", "layer_2", "layer_1"]), "layer_0…2");
  assert.equal(rangeText(["a", "b"]), "a…");
});
