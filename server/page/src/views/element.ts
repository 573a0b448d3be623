/** What an element, a tile or a warp of a result reads of each operand: on the operands' layouts, and in numbers beside the maps. */

import { EvaluableMap, type ShapeLike } from "@xlashape/client/browser";
import type { DrawResponse } from "@xlashape/client/gen/xlashape/v1/view_service_pb";
import { Knowledge, type ModuleInput, type Shape } from "@xlashape/client/gen/xlashape/v1/types_pb";

import type { Context, Copies, Mount, View } from "../context.js";
import { h, replace } from "../dom.js";
import { bitsOf, numbersOf, optionsOf, optionsText, PictureBox, placeText, type Pointed } from "../picture.js";
import type { Row } from "../program.js";
import { type Reads, readsOf, segmentsOf, type Source, sourcesOf } from "../reads.js";
import type { State } from "../state.js";

const LISTED = 24;

/** What is asked about: an instruction of a module, or a map alone. */
interface Subject {
  key: string;
  title: string;
  sources: Source[];
  /** What each operand is, as text and as a shape; undefined where only the map is known. */
  operands: { text: string; leaf(number: number): Promise<ShapeLike | undefined> }[];
  draw: Parameters<Context["client"]["views"]["draw"]>[0];
  /** The rank of the output, if it is known. */
  rank: number | undefined;
  outputs: number;
}

class ReadsView implements View {
  private readonly head = h("div.shape-head");
  private readonly bar = h("div.shape-options");
  private readonly picture = new PictureBox({ point: (at) => this.point(at), pick: (at) => this.pick(at) });
  private readonly readout = h("p.readout", { role: "status" });
  private readonly side = h("div.element-side");
  private readonly body = h("div.element-body", {}, h("div.shape-main", {}, this.picture.element, this.readout), this.side);
  private readonly index: HTMLInputElement;
  private readonly amount: HTMLInputElement;
  private readonly mode: HTMLSelectElement;
  private readonly output: HTMLSelectElement;
  private subject: Subject | undefined;
  private shown = "";
  private state: State = {};
  private generation = 0;
  private readonly unlisten: (() => void) | undefined;

  constructor(
    container: HTMLElement,
    private readonly context: Context,
    private readonly isMap: boolean,
  ) {
    this.index = h("input", { name: "element", spellcheck: "false", autocomplete: "off", "aria-label": "index of the element", onchange: () => this.typed() });
    this.amount = h("input", { name: "amount", size: 8, spellcheck: "false", autocomplete: "off", "aria-label": "how many", onchange: () => this.chosen() });
    this.mode = h("select", { "aria-label": "what reads", onchange: () => this.chosen(true) }, [["element", "an element"], ["tile", "a tile"], ["warp", "a warp"]].map(([value, text]) => h("option", { value }, text)));
    this.output = h("select", { "aria-label": "output", onchange: () => this.option({ out: this.output.value === "0" ? undefined : this.output.value }, undefined) });
    replace(this.bar, h("label", {}, "what ", this.mode, " ", this.amount, " reads"), h("label", {}, "at ", this.index), this.output);
    container.append(h("div.shape-view", {}, this.head, this.bar, this.body));
    if (!isMap) {
      const program = context.program(context.module.name);
      this.unlisten = program.onRows(() => this.update(this.state));
      program.ready.catch((error: unknown) => context.say(error));
    }
    this.update(context.state);
  }

  update(state: State): void {
    const begin = this.isMap || state.i ? undefined : this.context.program(this.context.module.name).result();
    this.state = begin ? { ...state, i: begin.name, c: begin.computation } : state;
    this.body.hidden = this.bar.hidden = !this.isMap && !this.state.i;
    const key = JSON.stringify([this.state.i, this.state.c, state.p, state.e, state.z]);
    if (key === this.shown) return;
    if (!this.isMap && !this.context.program(this.context.module.name).isComplete) {
      replace(this.head, h("p.soft", {}, "loading…"));
      return;
    }
    this.shown = key;
    void this.load();
  }

  // -- the subject -----------------------------------------------------------------------------

  private async load(): Promise<void> {
    const generation = ++this.generation;
    const options = optionsOf(this.state.z);
    try {
      const subject = this.isMap ? await this.ofMap() : await this.ofInstruction(Number(options["out"] ?? 0) || 0);
      if (generation !== this.generation) return;
      this.subject = subject;
      if (!subject) return;
      const at = this.at();
      const [tile, warp] = [options["tile"], Number(options["warp"] ?? 0) || 0];
      this.mode.value = tile ? "tile" : warp > 0 ? "warp" : "element";
      this.amount.hidden = this.mode.value === "element";
      this.amount.value = tile ?? (warp > 0 ? String(warp) : "");
      this.index.value = at.join(", ");
      replace(this.output, Array.from({ length: subject.outputs }, (_, n) => h("option", { value: n }, `output ${n}`)));
      this.output.hidden = subject.outputs < 2;
      this.output.value = options["out"] ?? "0";
      this.fillHead();
      await this.fillSide(generation, []);
      if (subject.outputs === 0) {
        this.picture.clear();
        return;
      }
      const answer = await this.drawn({ ...subject.draw, at, tile: (tile && numbersOf(tile)) || [], warp });
      if (generation !== this.generation) return;
      this.picture.show(new TextDecoder().decode(answer.picture), answer.title);
      this.rest();
      await this.fillSide(generation, answer.facts);
    } catch (error) {
      if (generation !== this.generation) return;
      this.picture.clear();
      this.context.say(error, this.isMap ? "p" : "i");
    }
  }

  /** The picture. A file carries that of the first element alone, on which others are pointed at as well. */
  private async drawn(request: Subject["draw"]): Promise<DrawResponse> {
    const { client, isRecorded } = this.context;
    try {
      return await client.views.draw(request);
    } catch (error) {
      const first = this.first();
      if (!isRecorded || request.tile?.length || request.warp || String(request.at) === String(first)) throw error;
      const { picture, title } = await client.views.draw({ ...request, at: first });
      return { picture, title, facts: [] as string[] } as DrawResponse;
    }
  }

  private at(): bigint[] {
    const { e } = this.state;
    const given = e === undefined ? undefined : numbersOf(e);
    return given ?? this.first();
  }

  private first(): bigint[] {
    const first = this.subject?.sources.find(({ maps }) => maps.length > 0)?.maps[0]?.map.message.dimensions;
    return first?.map(({ bounds }) => bounds?.lower ?? 0n) ?? Array.from({ length: this.subject?.rank ?? 0 }, () => 0n);
  }

  private async ofMap(): Promise<Subject> {
    const text = this.state.p ?? "";
    const parsed = await this.context.client.parseMap(text);
    const map = new EvaluableMap(parsed.map!);
    return {
      key: text, title: text, sources: [{ operand: 0, name: "operand", leaf: 0, knowledge: Knowledge.EXACT, maps: [{ map, text, runtime: [] }] }],
      operands: [{ text: "", leaf: async () => undefined }], draw: { subject: { case: "map", value: { form: { case: "text", value: text } } } }, rank: map.message.dimensions.length, outputs: 1,
    };
  }

  private async ofInstruction(output: number): Promise<Subject | undefined> {
    const program = this.context.program(this.context.module.name);
    const row = program.find(this.state.i, this.state.c);
    if (!row) {
      replace(this.head, h("p", {}, "Choose an instruction in the list, the graph or the text."));
      replace(this.side);
      this.picture.clear();
      return undefined;
    }
    const module = { source: { case: "name" as const, value: this.context.module.name } };
    const name = { instruction: row.name, computation: row.computation };
    const { client } = this.context;
    const described = await client.describeShape(row.shape);
    const answer = described.leafCount > 0 ? await client.indexing.indexingMaps({ module, ...name, output: BigInt(output), structured: true }) : { maps: [] };
    const array = leafOf(described.shape, output);
    return {
      key: row.name, title: `${row.name} (${row.opcode})`, sources: sourcesOf(answer.maps), operands: program.operandsOf(row).map((operand) => this.operand(operand)),
      draw: { subject: { case: "module", value: module }, ...name, output }, rank: array?.dimensions.length, outputs: Number(described.leafCount),
    };
  }

  private operand(row: Row): Subject["operands"][number] {
    return { text: row.shape, leaf: async (number) => (row.shape.startsWith("(") ? leafOf((await this.context.client.describeShape(row.shape)).shape, number) : row.shape) };
  }

  // -- what it reads ---------------------------------------------------------------------------

  private fillHead(): void {
    const { title, sources, outputs } = this.subject!;
    replace(this.head, h("h1", {}, title), sources.length === 0 && h("p.soft", {}, "It has no operands: it reads nothing."), outputs === 0 && h("p.soft", {}, "It makes no array."));
    this.body.hidden = this.bar.hidden = outputs === 0;
  }

  private async fillSide(generation: number, facts: readonly string[]): Promise<void> {
    const { sources, operands } = this.subject!;
    const at = this.at();
    const isOne = this.mode.value === "element";
    const tiles = this.isMap || this.mode.value !== "tile" ? [] : await this.tiles();
    const parts = await Promise.all(sources.map(async (source) => {
      const operand = operands[source.operand];
      const lines: (HTMLElement | string)[] = [];
      if (source.maps.length === 0) lines.push(source.knowledge === Knowledge.UNKNOWN ? "What it reads is not known." : "Nothing of it is read.");
      if (isOne && source.maps.length > 0) {
        const reads = readsOf(source.maps, at.map(Number));
        lines.push(h("p", {}, this.sentence(reads)));
        const rows = await this.places(reads, operand, source.leaf);
        if (rows) lines.push(rows);
      }
      return h("section", { "data-operand": source.operand }, h("h2", {}, `operand ${source.operand}: `, h("code", {}, source.name)), operand?.text && h("p.soft", {}, h("code", {}, operand.text)),
        source.knowledge === Knowledge.EVERY_ELEMENT && h("p.soft", {}, "Which elements are read is known at run time: it may be any."),
        tiles.filter(({ operand: number }) => number === source.operand).map(({ text }) => h("p.tile", {}, text)),
        source.maps.map(({ text, runtime }) => h("p.map", {}, h("code", {}, text), runtime.length > 0 && h("span.soft", {}, ` with ${runtime.join(", ")} at run time`))), lines);
    }));
    if (generation !== this.generation) return;
    replace(this.side, facts.length > 0 && h("section", {}, facts.map((fact) => h("p", {}, fact))), parts);
  }

  /** The tile of each operand that the tile of the output reads. */
  private async tiles(): Promise<{ operand: number; text: string }[]> {
    const { subject, instruction, computation, output } = this.subject!.draw as { subject: { value: ModuleInput }; instruction: string; computation: string; output: number };
    const module = subject.value;
    const sizes = numbersOf(optionsOf(this.state.z)["tile"] ?? "") ?? [];
    try {
      const answer = await this.context.client.reports.tile({ module, instruction, computation, output: BigInt(output), at: this.at(), sizes });
      return answer.tiles.filter(({ isTile }) => isTile).map(({ operand, offsets, sizes: read, strides }) => ({
        operand: Number(operand), text: `reads the tile at (${offsets.join(", ")}) of ${read.join(" × ")}${strides.some((each) => each > 1n) ? ` with steps of ${strides.join(", ")}` : ""}`,
      }));
    } catch {
      return []; // what is read is no tile: the picture and the maps say it
    }
  }

  private sentence({ indices, count, isCut, hasRuntime }: Reads): string {
    const times = count > indices.length && !isCut ? ` in ${count.toLocaleString("en")} reads` : "";
    const what = isCut ? `reads ${count.toLocaleString("en")} elements or fewer, of which the first are` : `reads ${indices.length.toLocaleString("en")} element${indices.length === 1 ? "" : "s"}${times}`;
    return `The element ${what}${hasRuntime ? ", with offsets that are known at run time at their lowest" : ""}.`;
  }

  private async places({ indices }: Reads, operand: Subject["operands"][number] | undefined, leaf: number): Promise<HTMLElement | undefined> {
    if (indices.length === 0) return undefined;
    const shape = await operand?.leaf(leaf);
    const shown = indices.slice(0, LISTED);
    let positions: bigint[] = [];
    let bits = 0n;
    let segments: HTMLElement | undefined;
    if (shape !== undefined && indices[0]!.length > 0) {
      try {
        const [all, described] = await Promise.all([this.context.client.linearIndices(shape, indices.flat().map(BigInt)), this.context.client.describeShape(shape)]);
        positions = Array.from(all);
        bits = bitsOf(described);
        const bytes = BigInt(Number(optionsOf(this.state.z)["segment"] ?? 128) || 128);
        const counted = segmentsOf(positions, bits, bytes);
        segments = h("p", {}, `They lie in ${counted.segments.toLocaleString("en")} segment${counted.segments === 1 ? "" : "s"} of ${bytes} bytes, at least ${counted.least.toLocaleString("en")} needed.`);
      } catch {
        positions = []; // an index outside, of a read that is guarded
      }
    }
    const isPlaced = positions.length > 0;
    const rows = shown.map((index, k) => h("tr", {}, [`(${index.join(", ")})`, ...(isPlaced ? [String(positions[k]), placeText(positions[k]!, bits)] : [])].map((each) => h("td", {}, each))));
    return h("div", {}, segments, h("div.scrolls", {}, h("table.reads", {}, h("thead", {}, h("tr", {}, ["index", ...(isPlaced ? ["position", "in memory"] : [])].map((each) => h("th", {}, each)))), h("tbody", {}, rows))),
      indices.length > LISTED && h("p.soft", {}, `… and ${(indices.length - LISTED).toLocaleString("en")} more`));
  }

  private rest(): void {
    this.readout.textContent = "Point at an element of the output: what it reads lights up. A click keeps it; arrow keys move.";
    this.picture.mark(new Map());
  }

  /** What the element under the pointer reads lights up at once: the maps are evaluated here. */
  private point(at: Pointed | undefined): void {
    const { subject } = this;
    if (!at || !subject) {
      this.rest();
      return;
    }
    const marks = new Map<number, Set<string>>();
    if (at.array !== 0 || !at.index || at.panel === "tiles") {
      this.readout.textContent = at.text;
      this.picture.mark(marks);
      return;
    }
    const index = at.index.map(Number);
    const found: string[] = [];
    for (const { operand, name, maps } of subject.sources) {
      if (maps.length === 0) continue;
      const { indices } = readsOf(maps, index);
      const all = marks.get(operand + 1) ?? new Set<string>();
      for (const each of indices) all.add(each.join(","));
      marks.set(operand + 1, all);
      found.push(`${name} ${indices.slice(0, 6).map((each) => `(${each.join(", ")})`).join(" ")}${indices.length > 6 ? ` and ${indices.length - 6} more` : ""}`);
    }
    // A map alone has its operand's cells as those of operand 0.
    this.readout.textContent = `${at.text} reads ${found.join("; ") || "nothing"}`;
    this.picture.mark(marks);
  }

  private pick(at: Pointed): void {
    if (at.array === 0 && at.index) this.context.setState({ e: at.index.join(",") }, { replace: true });
  }

  private typed(): void {
    const numbers = numbersOf(this.index.value);
    if (!numbers || (this.subject?.rank !== undefined && numbers.length !== this.subject.rank)) {
      this.context.say(new Error(`expected ${this.subject?.rank ?? "some"} numbers with commas between them, found '${this.index.value.slice(0, 60)}'`), "e");
      return;
    }
    this.context.setState({ e: numbers.join(",") }, { replace: true });
  }

  private chosen(isOther = false): void {
    const mode = this.mode.value;
    const rank = this.subject?.rank ?? 1;
    const usual = mode === "tile" ? Array.from({ length: rank }, (_, i) => (i === rank - 1 ? 32 : i === rank - 2 ? 8 : 1)).join(",") : "32";
    const amount = isOther || !this.amount.value ? usual : (numbersOf(this.amount.value)?.join(",") ?? usual);
    this.option({ tile: mode === "tile" ? amount : undefined, warp: mode === "warp" ? amount : undefined });
  }

  private option(patch: Record<string, string | undefined>, e: string | undefined = this.state.e): void {
    this.context.setState({ z: optionsText({ ...optionsOf(this.state.z), ...patch }), e }, { replace: true });
  }

  copies(): Copies {
    const { i, p } = this.state;
    const at = this.at().join(", ");
    const { tile, warp } = optionsOf(this.state.z);
    const more = `${at ? `, at=(${at}${at.includes(",") ? "" : ","})` : ""}${tile ? `, tile=(${tile}${tile.includes(",") ? "" : ","})` : ""}${warp ? `, warp=${warp}` : ""}`;
    const flags = `${at ? ` --at ${at.replaceAll(" ", "")}` : ""}${tile ? ` --tile ${tile}` : ""}${warp ? ` --warp ${warp}` : ""}`;
    return {
      svg: () => this.picture.text,
      python: () => (this.isMap ? `xs.draw(${JSON.stringify(p ?? "")}${more})` : `xs.draw(xs.HloModule.load(FILE).instruction(${JSON.stringify(i ?? "")})${more})`),
      shell: () => (this.isMap ? `xlashape draw '${p ?? ""}'${flags}` : `xlashape draw FILE ${i ?? ""}${flags}`),
      markdown: () => this.subject?.sources.map(({ name, maps }) => maps.map(({ text }) => `- \`${name}\`: \`${text}\`\n`).join("")).join("") ?? "",
      call: () => ({ method: "xlashape.v1.IndexingService/IndexingMaps", request: { module: { name: this.context.module.name }, instruction: i } }),
    };
  }

  dispose(): void {
    this.generation++;
    this.unlisten?.();
  }
}

/** An array of a tuple by its number, depth first. */
function leafOf(shape: Shape | undefined, number: number): Shape | undefined {
  const leaves: Shape[] = [];
  const walk = (each: Shape) => {
    if (each.tupleShapes.length > 0) each.tupleShapes.forEach(walk);
    else leaves.push(each);
  };
  if (shape) walk(shape);
  return leaves[number];
}

export const mount: Mount = (container, context) => new ReadsView(container, context, false);
export const mountMap: Mount = (container, context) => new ReadsView(container, context, true);
