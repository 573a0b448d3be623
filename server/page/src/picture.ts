/**
 * A picture of the server that answers to the pointer and the keyboard. Its cells say by attributes which element they show: `data-i` its index, `data-p` its position,
 * `data-k` what cells of one element share, `data-t` what to read. It is in a shadow tree, so that its style sheet is its own.
 */

import { h } from "./dom.js";

export interface Pointed {
  cell: SVGElement;
  /** 0 for the array or the output, the number of an operand plus 1; of two layouts 0 and 1. */
  array: number;
  panel: string;
  /** Undefined for padding. */
  index: bigint[] | undefined;
  position: bigint | undefined;
  text: string;
}

export interface PictureEvents {
  /** The pointer or the arrow keys are at a cell, or at none. */
  point(at: Pointed | undefined): void;
  /** A cell was clicked, or Enter pressed. */
  pick(at: Pointed): void;
}

const RULES = `
svg { display: block; }
rect.xsl { fill: none !important; }
svg text { pointer-events: none; }
[data-t] { cursor: crosshair; }
rect.framed { stroke: var(--accent) !important; stroke-width: 3 !important; }
rect.read { stroke: var(--bad) !important; stroke-width: 3 !important; }
`;

export class PictureBox {
  readonly element = h("div.picture", { tabindex: "0", role: "group", "aria-label": "picture" });
  private readonly root = this.element.attachShadow({ mode: "open" });
  private readonly place = document.createElement("div");
  private cells: SVGElement[] = [];
  private byKey = new Map<string, SVGElement[]>();
  private framed: SVGElement[] = [];
  private at: SVGElement | undefined;
  /** The text of the picture's file. */
  text = "";

  constructor(private readonly events: PictureEvents) {
    this.root.append(this.place);
    const cellOf = (event: Event) => (event.composedPath()[0] as Element | undefined)?.closest?.("[data-t]") as SVGElement | null | undefined;
    this.place.addEventListener("pointerover", (event) => this.point(cellOf(event) ?? undefined));
    this.place.addEventListener("pointerleave", () => this.point(undefined));
    this.place.addEventListener("click", (event) => {
      const cell = cellOf(event);
      if (cell) events.pick(pointedOf(cell));
    });
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  show(text: string, label: string): void {
    this.text = text;
    // The page's policy forbids style elements, and not style sheets that a script makes.
    const rules = [RULES];
    const plain = text.replace(/<style>([^<]*)<\/style>/g, (_, found: string) => {
      rules.push(found);
      return "";
    });
    const parsed = new DOMParser().parseFromString(plain, "image/svg+xml");
    const made = document.importNode(parsed.documentElement, true);
    if (made.nodeName !== "svg") throw new Error("the picture is not SVG");
    const sheets = rules.map((each) => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(each);
      return sheet;
    });
    // As wide as there is place, but not so small that it cannot be read.
    const width = Number(made.getAttribute("width")) || 600;
    Object.assign((made as unknown as SVGSVGElement).style, { width: "100%", height: "auto", maxWidth: `${width}px`, minWidth: `${Math.min(width, 860)}px` });
    for (const each of made.querySelectorAll("style, script, foreignObject, a")) each.remove();
    this.root.adoptedStyleSheets = sheets;
    this.place.replaceChildren(made);
    this.element.setAttribute("aria-label", `${label}. Arrow keys move from cell to cell, Enter chooses.`);
    this.cells = [...made.querySelectorAll<SVGElement>("[data-t]")];
    this.byKey = new Map();
    this.at = undefined;
    this.framed = [];
    for (const cell of this.cells) {
      const key = cell.dataset["k"];
      if (key === undefined) continue;
      const word = `${arrayOf(cell)} ${key}`;
      const all = this.byKey.get(word);
      all ? all.push(cell) : this.byKey.set(word, [cell]);
    }
  }

  clear(): void {
    this.place.replaceChildren();
    this.cells = [];
    this.text = "";
  }

  /** Marks what is read: the cells with these indices, by array. */
  mark(reads: ReadonlyMap<number, ReadonlySet<string>>): void {
    for (const cell of this.cells) {
      const index = cell.dataset["i"];
      cell.classList.toggle("read", index !== undefined && panelOf(cell) !== "tiles" && (reads.get(arrayOf(cell))?.has(index) ?? false));
    }
  }

  private point(cell: SVGElement | undefined): void {
    for (const each of this.framed) each.classList.remove("framed");
    const key = cell?.dataset["k"];
    // Of an array in two layouts, an element has one key in both.
    const same = cell && key !== undefined ? [0, 1].flatMap((array) => (array === arrayOf(cell) || this.isTwice ? (this.byKey.get(`${array} ${key}`) ?? []) : [])) : [];
    this.framed = cell ? [cell, ...same] : [];
    for (const each of this.framed) each.classList.add("framed");
    this.at = cell;
    this.events.point(cell && pointedOf(cell));
  }

  /** Whether the picture shows one array in two layouts. */
  isTwice = false;

  private key(event: KeyboardEvent): void {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter" && this.at) this.events.pick(pointedOf(this.at));
    else if (event.key === "Escape") this.point(undefined);
    else if (way && this.cells.length > 0) {
      const next = this.at ? this.nearest(this.at, way[0]!, way[1]!) : this.cells[0];
      if (next) {
        this.point(next);
        next.scrollIntoView({ block: "nearest", inline: "nearest" });
      }
    } else return;
    event.preventDefault();
  }

  private nearest(from: SVGElement, dx: number, dy: number): SVGElement | undefined {
    const here = from.getBoundingClientRect();
    let best: SVGElement | undefined;
    let least = Infinity;
    for (const cell of this.cells) {
      const there = cell.getBoundingClientRect();
      const along = (there.x - here.x) * dx + (there.y - here.y) * dy;
      const aside = Math.abs((there.x - here.x) * dy) + Math.abs((there.y - here.y) * dx);
      if (along > 1 && along + 4 * aside < least) [least, best] = [along + 4 * aside, cell];
    }
    return best;
  }
}

function arrayOf(cell: SVGElement): number {
  return Number(cell.closest<SVGElement>("[data-array]")?.dataset["array"] ?? 0);
}

function panelOf(cell: SVGElement): string {
  return cell.closest<SVGElement>("[data-panel]")?.dataset["panel"] ?? "";
}

function pointedOf(cell: SVGElement): Pointed {
  const { i, p, t } = cell.dataset;
  return {
    cell, array: arrayOf(cell), panel: panelOf(cell), text: t ?? "",
    index: i === undefined ? undefined : i === "" ? [] : i.split(",").map(BigInt),
    position: p === undefined ? undefined : BigInt(p),
  };
}

/** `at=2,3;color=bank` as a record, and back: the options of a picture in the address. */
export function optionsOf(text: string | undefined): Record<string, string> {
  const pairs = (text ?? "").split(";").map((each) => [each.slice(0, each.indexOf("=")), each.slice(each.indexOf("=") + 1)] as const);
  return Object.fromEntries(pairs.filter(([name, value]) => name && value));
}

export function optionsText(options: Record<string, string | undefined>): string | undefined {
  const pairs = Object.entries(options).filter(([, value]) => value);
  return pairs.length > 0 ? pairs.map(([name, value]) => `${name}=${value}`).join(";") : undefined;
}

/** Numbers that are separated by commas, in brackets or not; undefined if it is anything else. */
export function numbersOf(text: string): bigint[] | undefined {
  const inner = text.trim().replace(/^[[(]|[\])]$/g, "").trim();
  if (inner === "") return [];
  const parts = inner.split(/[\s,]+/).filter(Boolean);
  return parts.every((part) => /^-?\d{1,19}$/.test(part)) ? parts.map(BigInt) : undefined;
}

/** How many bits lie from one element to the next. */
export function bitsOf(description: { size?: { logicalBytes: bigint; elementCount: bigint } | undefined; shape?: { layout?: { elementSizeInBits: bigint } | undefined } | undefined }): bigint {
  const own = description.shape?.layout?.elementSizeInBits ?? 0n;
  const { logicalBytes = 0n, elementCount = 0n } = description.size ?? {};
  return own > 0n ? own : elementCount > 0n ? (8n * logicalBytes) / elementCount : 8n;
}

/** The bytes, or the bits of a byte, that an element takes. */
export function placeText(position: bigint, bits: bigint): string {
  const [first, last] = [position * bits, (position + 1n) * bits - 1n];
  if (bits % 8n === 0n) return bits === 8n ? `byte ${first / 8n}` : `bytes ${first / 8n}–${last / 8n}`;
  return first / 8n === last / 8n ? `bits ${first % 8n}–${last % 8n} of byte ${first / 8n}` : `bit ${first % 8n} of byte ${first / 8n} to bit ${last % 8n} of byte ${last / 8n}`;
}
