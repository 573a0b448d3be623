/** A shape: its picture, where each element lies, what its size comes from, and what would be smaller. Controls change tile, order and element type; the link follows. */

import { TargetSchema, WhyTable } from "@xlashape/client/gen/xlashape/v1/report_service_pb";
import type { ShapeDescription } from "@xlashape/client/gen/xlashape/v1/shape_service_pb";
import { ElementType, type Shape } from "@xlashape/client/gen/xlashape/v1/types_pb";

import { bytesText } from "../columns.js";
import type { Context, Copies, Mount, View } from "../context.js";
import { h, replace } from "../dom.js";
import { bitsOf, numbersOf, optionsOf, optionsText, PictureBox, type Pointed } from "../picture.js";
import { enumNumber } from "../reports.js";
import type { State } from "../state.js";

const COLOURS = ["memory", "tile", "row", "bank", "segment"];
const LABELS = ["position", "index", "byte", "tile", "bank", "segment"];
const TYPES = ["F32", "BF16", "F16", "F64", "S32", "S16", "S8", "S4", "U32", "U16", "U8", "U4", "S64", "U64", "PRED", "F8E4M3FN", "F8E5M2", "F4E2M1FN", "C64", "C128"] as const;
const TILES = [
  ["no tiles", ""],
  ["TPU, 32 bits: (8,128)", "8,128"],
  ["TPU, 16 bits: (8,128)(2,1)", "8,128;2,1"],
  ["TPU, 16 bits, large: (16,128)(2,1)", "16,128;2,1"],
  ["TPU, 8 bits: (8,128)(4,1)", "8,128;4,1"],
  ["TPU, two rows: (2,128)", "2,128"],
  ["TPU, one dimension: (1024)", "1024"],
] as const;
const MOST_EXPONENT = 11;

class ShapeView implements View {
  private readonly head = h("div.shape-head");
  private readonly controls = h("form.shape-controls", { "aria-label": "the layout", onsubmit: (event: Event) => event.preventDefault() });
  private readonly picture = new PictureBox({ point: (at) => this.point(at), pick: (at) => this.pick(at) });
  private readonly second = new PictureBox({ point: (at) => this.point(at), pick: () => undefined });
  private readonly readout = h("p.readout", { role: "status" });
  private readonly facts = h("div.shape-facts");
  private readonly boxes = { index: this.box("index", "index"), position: this.box("position", "position"), byte: this.box("byte", "byte"), bit: this.box("bit", "bit") };
  private readonly options = h("div.shape-options");
  private description: ShapeDescription | undefined;
  /** The shape that was asked for last, until its description is there: a further change starts from it. */
  private asked: Shape | undefined;
  private state: State = {};
  private generation = 0;
  private timer = 0;

  constructor(
    container: HTMLElement,
    private readonly context: Context,
  ) {
    const places = Object.entries(this.boxes).map(([name, input]) => h("label", {}, h("span", {}, name), input));
    container.append(h("div.shape-view", {},
      this.head,
      h("div.shape-body", {},
        this.controls,
        h("div.shape-main", {}, this.options, h("div.places", { role: "group", "aria-label": "where an element lies" }, places), this.picture.element, this.second.element, this.readout, this.facts))));
    this.rest();
    this.update(context.state);
  }

  update(state: State): void {
    const isSame = state.s === this.state.s && state.b === this.state.b && state.z === this.state.z && state.e === this.state.e && state.h === this.state.h;
    if (isSame && this.description) return;
    const isOther = state.s !== this.state.s || state.h !== this.state.h;
    this.state = state;
    void this.load(isOther);
  }

  private async load(isOther: boolean): Promise<void> {
    const generation = ++this.generation;
    const { s = "", b } = this.state;
    const { client } = this.context;
    try {
      if (isOther || !this.description) {
        const description = await client.describeShape(s);
        if (generation !== this.generation) return;
        this.description = description;
        this.asked = undefined;
        this.fillControls();
        void this.fillFacts(generation);
      }
      this.fillHead();
      this.fillOptions();
      const outside = await this.mark().catch((error: unknown) => error);
      if (generation !== this.generation) return;
      const draw = { ...this.options_(), at: this.marked?.index ?? [] };
      const about = (text: string) => ({ subject: { case: "shape" as const, value: { form: { case: "text" as const, value: text } } } });
      const request = { ...draw, ...about(s) };
      const after = b ? { after: { form: { case: "text" as const, value: b } } } : {};
      let twice = false;
      const [first, second] = await client.views.draw({ ...request, ...after }).then(
        (answer) => {
          twice = b !== undefined;
          return [answer, undefined] as const;
        },
        async (error: unknown) => {
          if (!b) throw error;
          // Another shape: the two have no elements in common that could be followed.
          const plain = { ...draw, at: [], rows: "", columns: "" };
          return Promise.all([client.views.draw(request), client.views.draw({ ...plain, ...about(b) })]);
        },
      );
      if (generation !== this.generation) return;
      const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
      this.picture.isTwice = twice;
      this.picture.show(text(first.picture), first.title);
      this.second.element.hidden = second === undefined;
      if (second) this.second.show(text(second.picture), second.title);
      this.rest();
      if (outside) this.context.say(outside, this.state.e === this.at ? "e" : "z");
    } catch (error) {
      if (generation !== this.generation) return;
      this.picture.clear();
      this.second.element.hidden = true;
      this.context.say(error, "s");
    }
  }

  private options_() {
    const { color = "", label = "", rows = "", columns = "", path } = optionsOf(this.state.z);
    return { color, label, rows, columns, withoutPath: path === "no" };
  }

  /** The index of the element that is marked, as the link has it. */
  private get at(): string | undefined {
    return optionsOf(this.state.z).at ?? this.state.e;
  }

  private setOption(name: string, value: string | undefined): void {
    this.context.setState({ ...(name === "at" ? { e: undefined } : {}), z: optionsText({ ...optionsOf(this.state.z), [name]: value }) }, { replace: true });
  }

  // -- what it is ------------------------------------------------------------------------------

  private fillHead(): void {
    const { text, size, dimensions, elementType } = this.description!;
    const padding = size ? size.physicalBytes - size.logicalBytes : 0n;
    replace(this.head, h("h1", {}, text), size && h("p.large", {}, h("strong", {}, bytesText(Number(size.physicalBytes))),
      padding > 0n ? ` buffer, ${((100 * Number(padding)) / Number(size.physicalBytes)).toFixed(1)} % of it padding` : " buffer, without padding"),
      size && h("p.soft", {}, `${dimensions.length > 0 ? dimensions.map((each) => each.toLocaleString("en")).join(" × ") : "1"} ${ElementType[elementType]?.toLowerCase() ?? ""}: elements ${Number(size.logicalBytes).toLocaleString("en")} bytes, buffer ${Number(size.physicalBytes).toLocaleString("en")} bytes`),
      this.comparison());
  }

  private comparison(): HTMLElement | false {
    const { b } = this.state;
    return b !== undefined && h("p.compared", {}, "compared with ", h("code", {}, b), " ", h("a", { href: this.context.link({ s: b, b: undefined, e: undefined, z: undefined }) }, "take it"), " · ", h("a", { href: this.context.link({ b: undefined }) }, "back to one"));
  }

  private async fillFacts(generation: number): Promise<void> {
    const { client } = this.context;
    const shape = { form: { case: "text" as const, value: this.state.s ?? "" } };
    const about = { subject: { case: "shape" as const, value: shape }, target: enumNumber(TargetSchema, this.state.h ?? "") };
    try {
      const [why, causes, suggestions] = await Promise.all([
        client.reports.why(about), client.reports.why({ ...about, table: WhyTable.CAUSES }), client.reports.why({ ...about, table: WhyTable.SUGGESTIONS }),
      ]);
      if (generation !== this.generation && this.description?.text !== this.state.s) return;
      const bytes = Number(why.totals?.bytes ?? 0n);
      const rows = suggestions.suggestions.map((row) => {
        const size = Number(row.bytes ?? 0n);
        const share = bytes > 0 ? `${((100 * size) / bytes).toFixed(size * 10 < bytes ? 1 : 0)} %` : "";
        return h("tr", {}, h("td", {}, h("code", {}, row.jax || row.text || "")), h("td", {}, bytesText(size)), h("td", {}, share), h("td", {}, row.isLossless === false ? "is lost" : "stays"),
          h("td", {}, row.shape && h("a", { href: this.context.link({ b: row.shape, e: undefined, z: undefined }) }, "show")));
      });
      replace(this.facts,
        causes.causes.length > 0 && h("section", {}, h("h2", {}, "Why"), h("ul", {}, causes.causes.map((row) => h("li", {}, row.text ?? "")))),
        rows.length > 0 && h("section", {}, h("h2", {}, "What would be smaller"),
          h("div.scrolls", {}, h("table", {}, h("thead", {}, h("tr", {}, ["instead", "buffer", "of now", "precision", "before and after"].map((each) => h("th", {}, each)))), h("tbody", {}, rows)))));
    } catch (error) {
      if (generation === this.generation) replace(this.facts, h("p.soft", {}, `Why it is as large as it is, is not known: ${error instanceof Error ? error.message : String(error)}`));
    }
  }

  // -- controls --------------------------------------------------------------------------------

  private fillControls(): void {
    const { shape } = this.description!;
    if (!shape?.layout || this.context.isRecorded) {
      this.controls.hidden = true;
      return;
    }
    this.controls.hidden = false;
    const { layout } = shape;
    const focused = (document.activeElement as HTMLElement | null)?.id;
    const tiles = layout.tiles.map(({ dimensions }) => dimensions.map((size) => (size < 0n ? "*" : String(size))).join(","));
    const type = h("select", { id: "shape-type", "aria-label": "element type", onchange: () => this.change((made) => (made.elementType = ElementType[type.value as keyof typeof ElementType])) },
      [...new Set<string>([ElementType[shape.elementType], ...TYPES])].map((name) => h("option", { value: name }, name.toLowerCase())));
    type.value = ElementType[shape.elementType];
    const order = [...layout.minorToMajor].reverse();
    const swap = (at: number) => this.change((made) => {
      const all = [...order];
      [all[at], all[at + 1]] = [all[at + 1]!, all[at]!];
      made.layout!.minorToMajor = all.reverse();
    });
    const orders = h("div.shape-order", { role: "group", "aria-label": "order, from major to minor" }, order.flatMap((d, at) => [
      h("span.dimension", {}, `d${d}`, h("small", {}, String(shape.dimensions[Number(d)] ?? ""))),
      at + 1 < order.length && h("button", { type: "button", id: `shape-swap-${at}`, title: `swap d${d} and d${order[at + 1]}`, "aria-label": `swap d${d} and d${order[at + 1]}`, onclick: () => swap(at) }, "⇄"),
    ]));
    const preset = h("select", { id: "shape-preset", "aria-label": "tiles", onchange: () => this.setTiles(preset.value ? preset.value.split(";") : []) },
      TILES.map(([text, value]) => h("option", { value }, text)), TILES.every(([, value]) => value !== tiles.join(";")) && h("option", { value: tiles.join(";") }, `T${tiles.map((each) => `(${each})`).join("")}`));
    preset.value = tiles.join(";");
    const sliders = tiles.map((tile, t) => h("fieldset", {}, h("legend", {}, t === 0 ? "tile" : t === 1 ? "inside of it" : "inside of that"),
      tile.split(",").map((size, i) => {
        const value = Number(size);
        const shown = h("output", { for: `shape-tile-${t}-${i}` }, size);
        const set = (text: string) => {
          shown.textContent = text;
          const sizes = tile.split(",");
          sizes[i] = text;
          clearTimeout(this.timer);
          this.timer = window.setTimeout(() => this.setTiles(tiles.map((each, at) => (at === t ? sizes.join(",") : each))), 60);
        };
        const slider = h("input", { type: "range", id: `shape-tile-${t}-${i}`, min: "0", max: String(MOST_EXPONENT), step: "1", value: String(Number.isFinite(value) ? Math.round(Math.log2(value)) : 0),
          "aria-label": `size ${i} of tile ${t}`, "aria-valuetext": size, disabled: size === "*", oninput: () => set(String(2 ** Number(slider.value))) });
        return h("div.slider", {}, slider, shown);
      }),
      h("button", { type: "button", onclick: () => this.setTiles(tiles.filter((_, at) => at !== t)) }, "remove")));
    const rank = order.length;
    const add = h("button", { type: "button", onclick: () => this.setTiles([...tiles, tiles.length === 0 ? Array.from({ length: Math.min(rank, 2) }, (_, i, n = Math.min(rank, 2)) => (i === n - 1 ? "128" : "8")).join(",") : "2,1"]) },
      tiles.length === 0 ? "add a tile" : "add a tile inside");
    replace(this.controls, h("label", {}, "element type", type), h("div.label", {}, "order, major to minor", orders), rank > 0 && h("label", {}, "tiles", preset), sliders, rank > 0 && tiles.length < 3 && add);
    if (focused) document.getElementById(focused)?.focus();
  }

  private setTiles(tiles: readonly string[]): void {
    this.change((made) => {
      const template = made.layout!.tiles;
      made.layout!.tiles = tiles.map((tile) => ({ $typeName: "xlashape.v1.LayoutTile", dimensions: tile.split(",").map((size) => (size === "*" ? -(2n ** 63n) : BigInt(size))) }) as (typeof template)[number]);
    });
  }

  /** Another shape from this one: the server says its text, or what is wrong with it. */
  private change(edit: (shape: Shape) => void): void {
    const from = this.asked ?? this.description!.shape!;
    const shape = structuredClone(from);
    edit(shape);
    const isType = shape.elementType !== from.elementType;
    if (isType && shape.layout) shape.layout.elementSizeInBits = 0n;
    this.asked = shape;
    this.context.client.describeShape(shape).then(
      ({ text }) => this.context.setState({ s: text, b: undefined, e: undefined, z: optionsText({ ...optionsOf(this.state.z), at: undefined }) }, { replace: true }),
      (error: unknown) => {
        if (this.asked === shape) this.asked = undefined;
        this.context.say(error, "s");
      });
  }

  private fillOptions(): void {
    const { color = "memory", label = "position", path, rows = "", columns = "" } = optionsOf(this.state.z);
    const select = (name: string, values: readonly string[], value: string) => {
      const made = h("select", { onchange: () => this.setOption(name, made.value === values[0] ? undefined : made.value) }, values.map((each) => h("option", { value: each }, each)));
      made.value = value;
      return made;
    };
    const range = (name: string, value: string) => {
      const made = h("input", { value, placeholder: "8:16", size: 7, "aria-label": name, onchange: () => this.setOption(name, made.value) });
      return made;
    };
    if (this.options.contains(document.activeElement)) return; // a person is at it
    replace(this.options, h("label", {}, "colour ", select("color", COLOURS, color)), h("label", {}, "label ", select("label", LABELS, label)),
      h("label", {}, "rows ", range("rows", rows)), h("label", {}, "columns ", range("columns", columns)),
      h("label", {}, h("input", { type: "checkbox", checked: path !== "no", onchange: (event: Event) => this.setOption("path", (event.target as HTMLInputElement).checked ? undefined : "no") }), " path"));
  }

  // -- where an element lies -------------------------------------------------------------------

  private box(name: string, what: string): HTMLInputElement {
    const made = h("input", { name, inputmode: "numeric", spellcheck: "false", autocomplete: "off", "aria-label": what, onchange: () => void this.typed(name, made.value) });
    return made;
  }

  private async typed(name: string, value: string): Promise<void> {
    const { s = "" } = this.state;
    const { client } = this.context;
    const numbers = numbersOf(value);
    try {
      if (!numbers || (name !== "index" && numbers.length !== 1)) throw new Error(`expected ${name === "index" ? "numbers with commas between them" : "a number"}, found '${value.slice(0, 40)}'`);
      const bits = bitsOf(this.description!);
      if (name === "index") {
        await client.linearIndex(s, numbers); // refuses an index outside
        this.setOption("at", numbers.join(","));
        return;
      }
      const given = numbers[0]!;
      const position = name === "position" ? given : (name === "byte" ? given * 8n : given) / bits;
      const index = await client.multiIndex(s, position);
      if (index) this.setOption("at", index.join(","));
      else this.fillPlaces(undefined, position, "padding");
    } catch (error) {
      this.context.say(error);
    }
  }

  private fillPlaces(index: readonly bigint[] | undefined, position: bigint | undefined, otherwise = ""): void {
    const bits = this.description ? bitsOf(this.description) : 8n;
    const { boxes } = this;
    boxes.index.value = index ? index.join(", ") : otherwise;
    boxes.position.value = position === undefined ? "" : String(position);
    boxes.byte.value = position === undefined ? "" : String((position * bits) / 8n);
    boxes.bit.value = position === undefined ? "" : String(position * bits);
  }

  /** Finds the element that is marked; an error for one that the shape has not. */
  private async mark(): Promise<void> {
    const { at } = this;
    this.marked = undefined;
    if (at === undefined) return;
    const index = numbersOf(at);
    if (!index) throw new Error(`expected an index such as 2,3, found '${at.slice(0, 40)}'`);
    if (index.length > 0) this.marked = { index, position: await this.context.client.linearIndex(this.state.s ?? "", index) };
  }

  private marked: { index: bigint[]; position: bigint } | undefined;

  private rest(): void {
    this.fillPlaces(this.marked?.index, this.marked?.position);
    this.readout.textContent = "Point at a cell: index ↔ position ↔ byte. A click keeps it; arrow keys move.";
  }

  private point(at: Pointed | undefined): void {
    if (!at) {
      this.rest();
      return;
    }
    this.readout.textContent = at.text;
    if (at.array === 0 && at.panel !== "tiles") this.fillPlaces(at.index, at.position, "padding");
  }

  private pick(at: Pointed): void {
    if (at.array === 0 && at.index) this.setOption("at", at.index.join(","));
  }

  copies(): Copies {
    const { s = "", b, z } = this.state;
    const { at = this.state.e, color, label, rows, columns, path } = optionsOf(z);
    const python = { after: b && JSON.stringify(b), at: at && `(${at}${at.includes(",") ? "" : ","})`, color: color && JSON.stringify(color), label: label && JSON.stringify(label), rows: rows && JSON.stringify(rows), columns: columns && JSON.stringify(columns), path: path && "False" };
    const given = Object.entries(python).filter(([, value]) => value);
    const flags = given.map(([name, value]) => (name === "path" ? "--no-path" : `--${name} '${value!.replace(/^[("]|,?[)"]$/g, "")}'`));
    return {
      svg: () => this.picture.text,
      python: () => `xs.draw(${[JSON.stringify(s), ...given.map(([name, value]) => `${name}=${value}`)].join(", ")})`,
      shell: () => ["xlashape draw", `'${s}'`, ...flags].join(" "),
      markdown: () => `\`${s}\`: ${this.head.querySelector(".large")?.textContent ?? ""}\n`,
      call: () => ({ method: "xlashape.v1.ViewService/Draw", request: { shape: { text: s }, ...(b ? { after: { text: b } } : {}), ...(at ? { at: at.split(",") } : {}) } }),
    };
  }

  dispose(): void {
    this.generation++;
    clearTimeout(this.timer);
  }
}

export const mount: Mount = (container, context) => new ShapeView(container, context);
