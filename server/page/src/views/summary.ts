/** What stands out in a program: findings, each with its share, where it is and what mends it; and what is fine. */

import { linkedCell } from "../cells.js";
import { cellText, exactText, headingOf } from "../columns.js";
import type { Context, Copies, View } from "../context.js";
import { facts, targetSelect } from "../controls.js";
import { h, replace } from "../dom.js";
import { type Message, REPORTS, type ReportName, type ReportTable, reportTable } from "../reports.js";
import type { State } from "../state.js";

export function mount(container: HTMLElement, context: Context): View {
  return new SummaryView(container, context);
}

class SummaryView implements View {
  private readonly declaration = REPORTS.summary;
  private readonly place = h("section.report", { "aria-label": this.declaration.summary });
  private readonly target = targetSelect((h) => this.context.setState({ h }));
  private asked = "";
  private findings: ReportTable | undefined;
  private forget: (() => void) | undefined;

  constructor(container: HTMLElement, private readonly context: Context) {
    container.append(this.place);
    this.update(context.state);
  }

  update(state: State): void {
    const asked = `${state.m} ${state.h}`;
    if (state.m && asked !== this.asked) {
      this.asked = asked;
      this.forget?.();
      this.target.value = state.h ?? "";
      void this.load(state.m, asked);
    }
  }

  dispose(): void {
    this.asked = "";
    this.forget?.();
  }

  copies(): Copies {
    return {
      markdown: () => (this.findings?.rows ?? []).flatMap((row) => (row ? [`1. ${this.shareOf(row)}: ${this.text(row, "text")}${this.text(row, "fix") && ` → ${this.text(row, "fix")}`}`] : [])).join("\n"),
      python: () => "import xlashape as xs\n\nprint(xs.summary(\"FILE\"))",
      shell: () => "xlashape FILE",
      call: () => ({ method: "xlashape.v1.ReportService/Summary", request: this.findings?.request("") }),
    };
  }

  private async load(module: string, asked: string): Promise<void> {
    const about = { module: { source: { case: "name" as const, value: `modules/${module}` } } };
    const [findings, fine] = ["", "fine"].map((section) => reportTable(this.context.client, "summary", section, "", about, this.context.state.h ? { target: this.context.state.h } : {})) as [ReportTable, ReportTable];
    replace(this.place, h("p.busy", {}, "Computing…"));
    try {
      await findings.load(0, 1);
      await fine.load(0, 1);
    } catch (error) {
      if (asked === this.asked) {
        this.place.replaceChildren();
        this.context.say(error);
      }
      return;
    }
    if (asked === this.asked) {
      this.findings = findings;
      this.show(findings, fine);
      // Names are links as soon as the instructions are known.
      this.forget = this.context.program(this.context.module.name).onRows(() => this.show(findings, fine));
      this.context.announce(findings.headline);
    }
  }

  private show(findings: ReportTable, fine: ReportTable): void {
    const isEstimate = this.declaration.totals.some((column) => column.name === "is_estimate" && findings.total_(column) === true);
    const totals = this.declaration.totals.flatMap((column) => {
      const value = findings.total_(column);
      const text = cellText(column, value);
      const heading = column.name === "peak_bytes" && isEstimate ? "peak, an estimate" : headingOf(column);
      return text === "" || column.kind === "boolean" || column.name === "module" || column.kind === "texts" ? [] : [[heading, text, `${column.meaning}: ${exactText(column, value)}`] as const];
    });
    const notes = this.declaration.totals.find((column) => column.kind === "texts");
    const said = notes ? findings.total_(notes) : undefined;
    const rows = findings.rows.filter((row) => row !== undefined);
    const [mended, others] = [rows.filter((row) => this.text(row, "fix")), rows.filter((row) => !this.text(row, "fix"))];
    const texts = fine.rows.flatMap((row) => (row ? [cellText(fine.columns[1]!, fine.get(row, fine.columns[1]!))] : []));
    replace(this.place,
      h("div.lead", {}, h("div.bar", {}, facts(totals), !this.context.isRecorded && this.target), Array.isArray(said) && said.map((text) => h("p.note", {}, String(text)))),
      mended.length > 0 && h("ol.findings", {}, mended.map((row) => this.finding(row))),
      others.length > 0 && h("p.about", {}, mended.length > 0
        ? "Where most of it goes, without a change that is sure to help:"
        : "No change is known that is sure to help. Where most of it goes:"),
      others.length > 0 && h("ol.findings", {}, others.map((row) => this.finding(row))),
      texts.length > 0 && h("p.about", {}, `Fine: ${texts.join("; ")}.`));
  }

  private finding(row: Message): Node {
    const kind = this.text(row, "kind") as ReportName;
    const places = ["source", "instruction"].flatMap((name) => {
      const column = this.column(name);
      const text = column ? this.text(row, name) : "";
      return text ? [h("span", {}, linkedCell(this.context, column!, text, { inTable: false }) ?? text)] : [];
    });
    return h("li", {},
      h("b", {}, this.shareOf(row)),
      h("div", {},
        h("p", {}, this.text(row, "text")),
        this.text(row, "fix") && h("p.fix", {}, this.text(row, "fix")),
        h("p.where", {}, places, h("a", { href: this.context.link({ v: kind, t: undefined, f: undefined, o: undefined, j: undefined }) }, `All of ${kind}`))));
  }

  private column(name: string) {
    return this.declaration.columns.find((each) => each.name === name);
  }

  private text(row: Message, name: string): string {
    const column = this.column(name);
    return column && this.findings ? cellText(column, this.findings.get(row, column)) : "";
  }

  private shareOf(row: Message): string {
    return `${this.text(row, "share")} of the ${this.text(row, "measure")}`;
  }
}
