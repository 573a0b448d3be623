/**
 * A table of any number of rows: only those that are seen are elements. It is a grid for screen readers and the keyboard: arrows, Page Up and Down, Home, End;
 * Enter opens the row. Columns leave by their rank where it is narrow.
 */

import { cellText, type Column, exactText, headingOf, isNumber, type Value } from "./columns.js";
import { type Child, h, replace } from "./dom.js";
import { orderOf, SelectionError } from "./selection.js";

export interface Tree<Row> {
  level(row: Row): number;
  /** undefined where there is nothing below. */
  isOpen(row: Row): boolean | undefined;
  toggle(row: Row): void;
}

export interface TableOptions<Row> {
  /** For screen readers. */
  label: string;
  columns: readonly Column[];
  get(row: Row, column: Column): Value;
  /** In place of the value's text. */
  cell?(row: Row, column: Column, text: string): Child;
  /** What Enter and a click on a row do. */
  open?(row: Row): void;
  /** Whether this is the row that is shown elsewhere. */
  isCurrent?(row: Row): boolean;
  /** What a click on a heading does, with `name:asc` or `name:desc`, or nothing for the order of the report. */
  sort?(order: string | undefined): void;
  tree?: Tree<Row>;
  /** Rows that are not there yet are asked for. */
  need?(first: number, last: number): void;
}

const GAP = 16;
const MOST = 64; // characters of a cell that columns are made wide for
const LEAST = 14;
const SHORTEST = 8;
const SHOWN = 300; // characters of a cell that are put on the page

let made = 0;

export class Table<Row> {
  readonly element: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly head: HTMLElement;
  private readonly body: HTMLElement;
  private readonly none = h("p.none", { hidden: true });
  private readonly id = `table${++made}`;
  private readonly cells = new Map<number, HTMLElement>();
  private readonly observer: ResizeObserver;
  private rows: readonly (Row | undefined)[] = [];
  private total = 0;
  private columns: Column[] = [];
  private extra: readonly string[] = [];
  private order = "";
  private active = 0;
  private height = 26;
  private frame = 0;

  constructor(private readonly options: TableOptions<Row>) {
    this.head = h("div.row.head", { role: "row", "aria-rowindex": 1 });
    this.body = h("div.body", { role: "rowgroup" });
    this.scroller = h("div.table", { role: options.tree ? "treegrid" : "grid", "aria-label": options.label, tabindex: 0, "aria-readonly": "true" },
      h("div.top", { role: "rowgroup" }, this.head), this.body);
    this.element = h("div.tablebox", {}, this.scroller, this.none);
    this.scroller.addEventListener("scroll", () => this.later(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("pointerover", (event) => this.point(event));
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(this.scroller);
  }

  /** Shows these rows. `total` counts also those that are not there yet. */
  set(rows: readonly (Row | undefined)[], total = rows.length, nothing = "There are no rows."): void {
    this.rows = rows;
    this.total = total;
    this.active = Math.min(this.active, Math.max(0, total - 1));
    this.none.hidden = total > 0;
    this.none.textContent = nothing;
    this.scroller.setAttribute("aria-rowcount", String(total + 1));
    this.layout();
  }

  setOrder(order: string): void {
    if (order !== this.order) {
      this.order = order;
      this.heading();
    }
  }

  /** Shows these columns besides those of the narrow table. */
  setExtra(names: readonly string[]): void {
    if (names.join() !== this.extra.join()) {
      this.extra = names;
      this.layout();
    }
  }

  get shownColumns(): readonly Column[] {
    return this.columns;
  }

  /** Marks what is current again, and shows it if `scroll`. */
  refresh(scroll = false): void {
    if (scroll && this.options.isCurrent) {
      const at = this.rows.findIndex((row) => row !== undefined && this.options.isCurrent?.(row));
      if (at >= 0) {
        this.active = at;
        this.scrollTo(at, true);
      }
    }
    this.clear();
    this.paint();
  }

  focus(): void {
    this.scroller.focus();
  }

  dispose(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  private later(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  /** Chooses the columns for the width, and begins again. */
  private layout(): void {
    const width = this.scroller.clientWidth;
    if (width === 0) {
      return;
    }
    const style = getComputedStyle(this.scroller);
    this.height = Number.parseFloat(style.getPropertyValue("--row")) || 26;
    const letter = Number.parseFloat(style.fontSize) * 0.6;
    const sample = this.sample();
    const widths = new Map<Column, [least: number, natural: number, longest: number]>();
    const usable = this.options.columns.filter((column) => {
      if (column.rank === 0 && !this.extra.includes(column.name)) {
        return false;
      }
      let longest = 0;
      for (const row of sample) {
        longest = Math.max(longest, this.text(row, column).length + (this.options.tree && column === this.options.columns[0] ? 2 * this.options.tree.level(row) + 2 : 0));
      }
      const saysNothing = longest === 0 || (column.name === "times" && sample.every((row) => this.text(row, column) === "1"));
      if (saysNothing && sample.length > 0 && !this.extra.includes(column.name)) {
        return false;
      }
      const heading = headingOf(column).length + 2;
      const natural = Math.max(Math.min(longest, MOST), heading);
      widths.set(column, [isNumber(column) ? natural : Math.min(natural, Math.max(LEAST, heading)), natural, Math.max(longest, heading)]);
      return true;
    });
    const room = (width - 2 * GAP) / letter;
    const ranked = [...usable].sort((a, b) => Number(this.extra.includes(b.name)) - Number(this.extra.includes(a.name)) || a.rank - b.rank);
    let taken = 0;
    let chosen = new Set<Column>();
    const choose = (): void => {
      [taken, chosen] = [0, new Set()];
      for (const column of ranked) {
        const least = widths.get(column)![0] + GAP / letter;
        if (chosen.size < 2 && column.rank === 1 || taken + least <= room || this.extra.includes(column.name)) {
          taken += least;
          chosen.add(column);
        }
      }
    };
    choose();
    // Names are cut before bytes and times that matter are left out.
    if (usable.some((column) => ["bytes", "seconds"].includes(column.unit) && column.rank <= 2 && !chosen.has(column))) {
      for (const [column, all] of widths) if (!isNumber(column)) all[0] = Math.min(all[0], SHORTEST);
      choose();
    }
    this.columns = usable.filter((column) => chosen.has(column));
    const tracks = this.columns.map((column) => widths.get(column)![0]);
    let spare = Math.max(0, room - taken);
    for (const size of [1, 2]) {
      this.columns.forEach((column, i) => {
        const more = Math.max(0, Math.min(spare, widths.get(column)![size]! - tracks[i]!));
        spare -= more;
        tracks[i]! += more;
      });
    }
    this.scroller.style.setProperty("--columns", `${tracks.map((each, i) => (i === 0 && this.options.tree ? `minmax(${Math.ceil(each * letter)}px, 1fr)` : `${Math.ceil(each * letter)}px`)).join(" ")}${this.options.tree ? "" : " 1fr"}`);
    this.scroller.style.setProperty("--least", `${Math.ceil((taken + 2) * letter)}px`);
    this.scroller.setAttribute("aria-colcount", String(this.columns.length));
    this.heading();
    this.body.style.height = `${this.total * this.height}px`;
    this.clear();
    this.paint();
  }

  private sample(): Row[] {
    const sample: Row[] = [];
    const step = Math.max(1, Math.floor(this.rows.length / 500));
    for (let i = 0; i < this.rows.length; i += i < 40 ? 1 : step) {
      const row = this.rows[i];
      if (row !== undefined) {
        sample.push(row);
      }
    }
    return sample;
  }

  private text(row: Row, column: Column): string {
    return cellText(column, this.options.get(row, column));
  }

  private heading(): void {
    let sorting: { column: Column; descends: boolean } | undefined;
    try {
      sorting = this.order ? orderOf(this.order, this.options.columns) : undefined;
    } catch (error) {
      if (!(error instanceof SelectionError)) {
        throw error;
      }
    }
    replace(this.head, this.columns.map((column, i) => {
      const isSorted = sorting?.column === column;
      const order = isSorted ? (sorting?.descends ? "descending" : "ascending") : undefined;
      const title = `${column.meaning}${column.unit && column.unit !== "fraction" ? `, in ${column.unit}` : ""}`;
      const mark = h("span.order", { "aria-hidden": "true" }, order === "descending" ? "▾" : order ? "▴" : "");
      const next = (): string | undefined => {
        const first = isNumber(column) ? "desc" : "asc";
        const now = sorting?.descends ? "desc" : "asc";
        return !isSorted ? `${column.name}:${first}` : now === first ? `${column.name}:${first === "desc" ? "asc" : "desc"}` : undefined;
      };
      const button = this.options.sort && h("button", { type: "button", title, tabindex: -1, onclick: () => this.options.sort?.(next()) }, headingOf(column), mark);
      return h(isNumber(column) ? "div.number" : "div", { role: "columnheader", "aria-colindex": i + 1, "aria-sort": order, title }, button ?? headingOf(column));
    }));
    for (const button of this.head.querySelectorAll("button")) {
      button.removeAttribute("tabindex");
    }
  }

  private clear(): void {
    this.cells.clear();
    this.body.replaceChildren();
  }

  private paint(): void {
    const top = Math.max(0, this.scroller.scrollTop);
    const first = Math.max(0, Math.floor(top / this.height) - 8);
    const last = Math.min(this.total, Math.ceil((top + this.scroller.clientHeight) / this.height) + 8);
    for (const [number, element] of this.cells) {
      if (number < first || number >= last) {
        element.remove();
        this.cells.delete(number);
      }
    }
    let isMissing = false;
    const added = document.createDocumentFragment();
    for (let number = first; number < last; number++) {
      const row = this.rows[number];
      isMissing ||= row === undefined;
      if (!this.cells.has(number)) {
        const element = this.made(number, row);
        this.cells.set(number, element);
        added.append(element);
      }
    }
    this.body.append(added);
    if (this.total > 0) {
      this.scroller.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    } else {
      this.scroller.removeAttribute("aria-activedescendant");
    }
    if (isMissing) {
      this.options.need?.(first, last);
    }
  }

  private made(number: number, row: Row | undefined): HTMLElement {
    const isCurrent = row !== undefined && (this.options.isCurrent?.(row) ?? false);
    const tree = this.options.tree;
    const isOpen = row !== undefined && tree ? tree.isOpen(row) : undefined;
    const element = h("div.row", {
      role: "row", id: `${this.id}-${number}`, "data-row": number, "aria-rowindex": number + 2, "aria-selected": this.options.isCurrent ? String(isCurrent) : undefined,
      "aria-level": row !== undefined ? tree && tree.level(row) + 1 : undefined, "aria-expanded": isOpen === undefined ? undefined : String(isOpen),
    }, row === undefined ? h("div.waiting", { role: "gridcell" }, "…") : this.columns.map((column, i) => {
      const value = this.options.get(row, column);
      const whole = cellText(column, value);
      const text = whole.length > SHOWN ? `${whole.slice(0, SHOWN)}…` : whole;
      const twist = tree && i === 0 && h("span.twist", { "aria-hidden": "true" }, isOpen === undefined ? "" : isOpen ? "▾" : "▸");
      const cell = h(isNumber(column) ? "div.number" : "div", { role: "gridcell", "aria-colindex": i + 1 },
        twist, this.options.cell?.(row, column, text) ?? text);
      if (column.unit === "fraction" && typeof value === "number") {
        cell.classList.add("part");
        cell.style.setProperty("--part", `${Math.max(0, Math.min(100, 100 * value))}%`);
      }
      if (value === 0) {
        cell.classList.add("zero");
      }
      if (tree && i === 0) {
        cell.style.paddingInlineStart = `${tree.level(row) * 14}px`;
      }
      return cell;
    }));
    element.classList.toggle("active", number === this.active);
    element.style.transform = `translateY(${number * this.height}px)`;
    return element;
  }

  /** The whole value, for the cell that is pointed at. */
  private point(event: Event): void {
    const cell = (event.target as Element).closest<HTMLElement>("[role=gridcell]");
    const row = this.rows[Number(cell?.parentElement?.dataset["row"])];
    const column = this.columns[Number(cell?.getAttribute("aria-colindex")) - 1];
    if (cell && row !== undefined && column && !cell.title) {
      cell.title = exactText(column, this.options.get(row, column)).slice(0, 2000);
    }
  }

  private click(event: MouseEvent): void {
    const target = event.target as Element;
    const element = target.closest<HTMLElement>(".row");
    if (!element || target.closest("a, button")) {
      return;
    }
    this.move(Number(element.dataset["row"]));
    const row = this.rows[this.active];
    if (row !== undefined && this.options.tree?.isOpen(row) !== undefined) {
      this.options.tree.toggle(row);
    } else if (row !== undefined && !getSelection()?.toString()) {
      this.options.open?.(row);
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.scroller || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 2);
    const row = this.rows[this.active];
    const isOpen = row === undefined ? undefined : this.options.tree?.isOpen(row);
    const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total };
    const step = steps[event.key];
    if (step !== undefined) {
      this.move(this.active + step);
    } else if (event.key === "Enter" && row !== undefined) {
      this.options.open ? this.options.open(row) : this.options.tree?.toggle(row);
    } else if (row !== undefined && ((event.key === "ArrowRight" && isOpen === false) || (event.key === "ArrowLeft" && isOpen === true))) {
      this.options.tree?.toggle(row);
    } else {
      return;
    }
    event.preventDefault();
  }

  private move(to: number): void {
    this.cells.get(this.active)?.classList.remove("active");
    this.active = Math.max(0, Math.min(this.total - 1, to));
    this.scrollTo(this.active, false);
    this.paint();
    this.cells.get(this.active)?.classList.add("active");
  }

  private scrollTo(number: number, centre: boolean): void {
    const head = this.head.offsetHeight;
    const view = this.scroller.clientHeight - head;
    const at = number * this.height;
    if (at < this.scroller.scrollTop || at + this.height > this.scroller.scrollTop + view) {
      this.scroller.scrollTop = centre ? at - view / 2 : at < this.scroller.scrollTop ? at : at + this.height - view;
    }
  }
}
