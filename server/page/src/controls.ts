/** The controls that several views have. */

import { type Column, headingOf } from "./columns.js";
import { type Child, h, replace } from "./dom.js";
import { REPORTS } from "./reports.js";

let made = 0;

/** A box for filters, with what is wrong below it. */
export class FilterBox {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly wrong: HTMLElement;
  private timer = 0;

  constructor(example: string, private readonly changed: (text: string) => void) {
    const id = `filter${++made}`;
    this.input = h("input.filter", {
      type: "search", placeholder: `Filter: ${example}`, "aria-label": `filter, such as ${example}`, "aria-describedby": id, spellcheck: "false", autocomplete: "off", "data-focus": "filter",
      oninput: () => this.later(), onchange: () => this.now(),
    });
    this.wrong = h("p.wrong", { id, role: "alert" });
    this.element = h("div.filterbox", {}, this.input, this.wrong);
  }

  set(text: string): void {
    if (document.activeElement !== this.input) {
      this.input.value = text;
    }
  }

  mistake(text: string): void {
    this.wrong.textContent = text;
    this.input.setAttribute("aria-invalid", String(text !== ""));
  }

  private later(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), 150);
  }

  private now(): void {
    clearTimeout(this.timer);
    this.changed(this.input.value);
  }
}

/** The chip that times are least times of, and layouts those on it. All views have the same one. */
export function targetSelect(changed: (target: string) => void): HTMLSelectElement {
  const { choices } = REPORTS.cost.options.find(({ name }) => name === "target")!;
  return select("target", [["", "no target"], ...choices.map((each) => [each, each] as const)], "", changed);
}

/** A button that opens a panel below it. Escape and a click elsewhere close it. */
export function dropdown(label: string, fill: (panel: HTMLElement, close: () => void) => void, classes = ""): HTMLElement {
  const panel = h("div.panel", { hidden: true });
  const button = h("button", { type: "button", "aria-expanded": "false" }, label);
  const box = h("div.dropdown", {}, button, panel);
  if (classes) {
    box.classList.add(classes);
  }
  const close = (): void => {
    panel.hidden = true;
    button.setAttribute("aria-expanded", "false");
    removeEventListener("pointerdown", outside);
  };
  const outside = (event: Event): void => {
    if (!box.contains(event.target as Node)) {
      close();
    }
  };
  button.addEventListener("click", () => {
    if (!panel.hidden) {
      close();
      return;
    }
    panel.replaceChildren();
    fill(panel, close);
    panel.hidden = false;
    button.setAttribute("aria-expanded", "true");
    addEventListener("pointerdown", outside);
    panel.querySelector<HTMLElement>("button, input, a, select")?.focus();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) {
      event.stopPropagation();
      close();
      button.focus();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !panel.hidden) {
      const all = [...panel.querySelectorAll<HTMLElement>("button, input, a")];
      const at = all.indexOf(document.activeElement as HTMLElement) + (event.key === "ArrowDown" ? 1 : -1);
      all[(at + all.length) % all.length]?.focus();
      event.preventDefault();
    }
  });
  return box;
}

/** Chooses columns that are shown besides the usual ones. */
export function columnChooser(columns: () => readonly Column[], extra: () => readonly string[], shown: () => readonly Column[], changed: (names: string[]) => void): HTMLElement {
  return dropdown("Columns", (panel) => {
    replace(panel, h("ul.choices", {}, columns().map((column) => {
      const input = h("input", { type: "checkbox" });
      input.checked = extra().includes(column.name) || shown().includes(column);
      input.disabled = shown().includes(column) && !extra().includes(column.name);
      input.addEventListener("change", () => changed(input.checked ? [...extra(), column.name] : extra().filter((each) => each !== column.name)));
      return h("li", {}, h("label", { title: column.meaning }, input, ` ${headingOf(column)}`));
    })));
  }, "columns");
}

/** A list of choices as a labelled select; the first is chosen where none is. */
export function select(label: string, choices: readonly (readonly [value: string, text: string])[], value: string, changed: (value: string) => void): HTMLSelectElement {
  const element = h("select", { "aria-label": label, onchange: () => changed(element.value) }, choices.map(([each, text]) => h("option", { value: each }, text)));
  element.value = value;
  return element;
}

/** Facts: names above values. */
export function facts(entries: readonly (readonly [name: string, value: Child, title?: string])[]): HTMLElement {
  return h("dl.facts", {}, entries.map(([name, value, title]) => h("div", { title }, h("dt", {}, name), h("dd", {}, value))));
}
