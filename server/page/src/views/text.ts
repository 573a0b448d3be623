/** The text of a module: only the lines that are seen are fetched and are elements. Every name is a link to its definition; who reads it stands beside. */

import type { GetTextResponse, TextDefinitions } from "@xlashape/client/gen/xlashape/v1/view_service_pb";

import { grouped } from "../columns.js";
import type { Context, Copies, Mount, View } from "../context.js";
import { h, replace } from "../dom.js";
import { partsOfLine } from "../highlighting.js";
import type { Program } from "../program.js";
import type { State } from "../state.js";

const SLICE = 400;
const LETTERS = 4000; // of a line; the rest is left out
const OVERSCAN = 20;

export const mount: Mount = (container, context) => new Text(container, context);

class Text implements View {
  private readonly program: Program;
  private readonly scroller = h("div.text", { tabindex: 0, role: "region", "aria-label": "text of the module" });
  private readonly body = h("div.lines");
  private readonly input: HTMLInputElement;
  private readonly found = h("span.found", { role: "status" });
  private readonly where = h("p.where");
  private readonly slices = new Map<number, Promise<readonly string[]>>();
  private readonly lines = new Map<number, HTMLElement>();
  private readonly stopped = new AbortController();
  private readonly observer: ResizeObserver;
  private definitions: TextDefinitions | undefined;
  private lineOf = new Map<string, number>();
  private computations = new Map<string, number>();
  private hits: readonly number[] = [];
  private hitSet: ReadonlySet<number> = new Set();
  private searched = "";
  private count = 0;
  private height = 18;
  private shown = "";
  private frame = 0;

  constructor(container: HTMLElement, private readonly context: Context) {
    this.program = context.program(context.module.name);
    this.input = h("input.filter", {
      type: "search", placeholder: "Find in the text", "aria-label": "find in the text", spellcheck: "false", autocomplete: "off", "data-focus": "filter",
      onchange: () => context.setState({ q: this.input.value || undefined }, { replace: true }),
      onkeydown: (event: KeyboardEvent) => {
        if (event.key === "Enter" && this.input.value === this.searched) {
          this.step(event.shiftKey ? -1 : 1);
        }
      },
    });
    const button = (label: string, text: string, step: number) => h("button", { type: "button", "aria-label": label, onclick: () => this.step(step) }, text);
    this.scroller.append(this.body);
    container.append(h("section.report", { "aria-label": "text" }, h("div.bar", {}, this.where, h("div.tools", {}, h("div.filterbox", {}, this.input), this.found, button("previous hit", "↑", -1), button("next hit", "↓", 1))),
      h("div.place", {}, this.scroller)));
    this.scroller.addEventListener("scroll", () => (this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    })), { passive: true });
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(this.scroller);
    void this.begin();
  }

  update(state: State): void {
    this.input.value = state.q ?? "";
    void this.search(state.q ?? "");
    this.show(state);
  }

  dispose(): void {
    this.stopped.abort();
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  copies(): Copies {
    const first = Math.floor(this.scroller.scrollTop / this.height);
    return {
      markdown: () => `\`\`\`\n${[...this.lines].filter(([number]) => number >= first).sort(([a], [b]) => a - b).map(([, line]) => line.lastElementChild?.textContent ?? "").join("\n")}\n\`\`\``,
      python: () => 'import xlashape as xs\n\nprint(xs.HloModule.of("FILE").to_text())',
      shell: () => "xlashape convert FILE -",
      call: () => ({ method: "xlashape.v1.ViewService/GetText", request: { module: { name: this.context.module.name }, firstLine: String(first), maxLines: SLICE } }),
    };
  }

  private async begin(): Promise<void> {
    try {
      const [answer] = await Promise.all([this.ask({ includeDefinitions: true, maxLines: SLICE }), this.program.ready]);
      this.slices.set(0, Promise.resolve(answer.lines));
      this.count = Number(answer.lineCount);
      this.definitions = answer.definitions;
      const numbers = this.definitions?.instructionLines ?? [];
      this.definitions?.instructions.forEach((name, i) => this.lineOf.set(name, Number(numbers[i])));
      this.definitions?.computations.forEach((name, i) => this.computations.set(name, Number(this.definitions?.computationLines[i])));
      this.height = Number.parseFloat(getComputedStyle(this.scroller).lineHeight) || 18;
      this.body.style.height = `${this.count * this.height}px`;
      replace(this.where, h("strong", {}, grouped(this.count)), " lines");
      this.update(this.context.state);
      this.paint();
    } catch (error) {
      this.context.say(error);
    }
  }

  private ask(what: Record<string, unknown>): Promise<GetTextResponse> {
    return this.context.client.getText({ module: { name: this.context.module.name }, ...what }, { signal: this.stopped.signal });
  }

  /** The line that the state names, by its number or by the instruction that is defined there. */
  private lineOfState({ n, i, c }: State): number | undefined {
    if (n) {
      return Number(n) - 1;
    }
    const ofComputation = this.definitions && c && this.program.find(i, c) ? this.inComputation(i, c) : undefined;
    return ofComputation ?? (i ? this.lineOf.get(i) : c ? this.computations.get(c) : undefined);
  }

  /** Names may be the same in several computations. */
  private inComputation(i: string | undefined, c: string): number | undefined {
    const from = this.computations.get(c);
    if (from === undefined || !this.definitions) {
      return undefined;
    }
    const at = this.definitions.instructionLines.findIndex((line, number) => Number(line) > from && this.definitions?.instructions[number] === i);
    return at < 0 ? undefined : Number(this.definitions.instructionLines[at]);
  }

  private show(state: State): void {
    const line = this.lineOfState(state);
    const key = `${line ?? ""}`;
    if (line !== undefined && key !== this.shown) {
      const top = line * this.height;
      const isSeen = top >= this.scroller.scrollTop + this.height && top <= this.scroller.scrollTop + this.scroller.clientHeight - 2 * this.height;
      if (!isSeen) {
        this.scroller.scrollTop = top - this.scroller.clientHeight / 3;
      }
    }
    this.shown = key;
    this.again();
  }

  private async search(text: string): Promise<void> {
    if (text === this.searched) {
      return;
    }
    this.searched = text;
    this.hits = [];
    this.found.textContent = "";
    if (text) {
      try {
        const answer = await this.ask({ find: text, maxLines: 1 });
        if (text !== this.searched) {
          return;
        }
        this.hits = answer.foundLines.map(Number);
        const all = Number(answer.foundCount);
        this.found.textContent = all === 0 ? "not found" : `${grouped(all)} ${all === 1 ? "line" : "lines"}`;
        this.hitSet = new Set(this.hits);
        const now = this.lineOfState(this.context.state);
        if (this.hits.length > 0 && (now === undefined || !this.hitSet.has(now))) {
          this.step(1);
        }
      } catch (error) {
        this.context.say(error);
      }
    }
    this.hitSet = new Set(this.hits);
    this.again();
  }

  private step(by: 1 | -1 | number): void {
    const now = this.lineOfState(this.context.state) ?? -1;
    const next = by > 0 ? this.hits.find((line) => line > now) ?? this.hits[0] : this.hits.findLast((line) => line < now) ?? this.hits.at(-1);
    if (next !== undefined) {
      this.context.setState({ n: String(next + 1), i: undefined, c: undefined }, { replace: true });
    }
  }

  private slice(number: number): Promise<readonly string[]> {
    let slice = this.slices.get(number);
    if (!slice) {
      slice = this.whole(number * SLICE);
      this.slices.set(number, slice);
      slice.catch(() => this.slices.delete(number));
    }
    return slice;
  }

  /** An answer has fewer lines than were asked for where they are long. */
  private async whole(first: number): Promise<readonly string[]> {
    const lines: string[] = [];
    const wanted = Math.min(SLICE, this.count - first);
    while (lines.length < wanted) {
      const answer = await this.ask({ firstLine: BigInt(first + lines.length), maxLines: wanted - lines.length });
      if (answer.lines.length === 0) {
        break;
      }
      lines.push(...answer.lines);
    }
    return lines;
  }

  private again(): void {
    this.lines.clear();
    this.body.replaceChildren();
    this.paint();
  }

  private paint(): void {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / this.height) - OVERSCAN);
    const last = Math.min(this.count, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / this.height) + OVERSCAN);
    for (const [number, line] of this.lines) {
      if (number < first || number >= last) {
        line.remove();
        this.lines.delete(number);
      }
    }
    for (let slice = Math.floor(first / SLICE); slice * SLICE < last; slice++) {
      void this.put(slice, first, last);
    }
  }

  private async put(slice: number, first: number, last: number): Promise<void> {
    let lines: readonly string[];
    try {
      lines = await this.slice(slice);
    } catch (error) {
      this.context.say(error);
      return;
    }
    const current = this.lineOfState(this.context.state);
    const added = document.createDocumentFragment();
    for (let number = Math.max(first, slice * SLICE); number < Math.min(last, slice * SLICE + lines.length); number++) {
      if (!this.lines.has(number)) {
        const line = this.line(number, lines[number - slice * SLICE] ?? "", number === current);
        this.lines.set(number, line);
        added.append(line);
      }
    }
    this.body.append(added);
  }

  private line(number: number, text: string, isCurrent: boolean): HTMLElement {
    const whole = text.length > LETTERS ? `${text.slice(0, LETTERS)}… ${grouped(text.length - LETTERS)} more characters` : text;
    const element = h("div.line", { "aria-current": isCurrent ? "true" : undefined },
      h("a.no", { href: this.context.link({ n: String(number + 1), i: undefined, c: undefined }), tabindex: -1, "aria-hidden": "true" }, String(number + 1)),
      h("code", { dir: "ltr" }, partsOfLine(whole).map((part) => {
        if (part.kind === "text") {
          return part.text;
        }
        const name = part.text.replace(/^%/, "");
        if ((part.kind === "name" || part.kind === "opcode") && this.lineOf.has(name) && (part.kind === "name" || part.text.startsWith("%"))) {
          const isDefinition = this.lineOf.get(name) === number;
          return h(isDefinition ? "a.name.definition" : "a.name", { href: this.context.link({ i: name, c: this.program.find(name, this.computationAt(number))?.computation, n: undefined }) }, part.text);
        }
        if ((part.kind === "name" || part.kind === "opcode") && this.computations.has(name) && (part.text.startsWith("%") || part.kind === "name")) {
          return h("a.name", { href: this.context.link({ c: name, i: undefined, n: undefined }) }, part.text);
        }
        if (part.kind === "shape") {
          return h("a.shape", { href: this.context.link({ v: "shape", s: part.text, n: undefined }), tabindex: -1 }, part.text);
        }
        return part.kind === "name" ? part.text : h(`span.${part.kind}`, {}, part.text);
      })));
    element.classList.toggle("hit", this.hitSet.has(number));
    element.style.transform = `translateY(${number * this.height}px)`;
    return element;
  }

  private computationAt(line: number): string | undefined {
    const lines = this.definitions?.computationLines ?? [];
    let [low, high] = [0, lines.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      Number(lines[middle]) <= line ? (low = middle + 1) : (high = middle);
    }
    return this.definitions?.computations[low - 1];
  }
}
