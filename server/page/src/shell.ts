/** The frame around the views: what was given, where one is, what went wrong, and the state in the address. */

import { type Client, Code, connect, XlashapeError } from "@xlashape/client/browser";

import { unpacked } from "./carried.js";
import type { Content, Context, Subject, View, ViewInfo } from "./context.js";
import { copyMenu } from "./copying.js";
import { h, replace } from "./dom.js";
import { Inspector } from "./inspector.js";
import { Intake } from "./intake.js";
import { isModuleGone, told } from "./mistakes.js";
import { openedAll } from "./opening.js";
import { Program } from "./program.js";
import { recordedClient } from "./recorded.js";
import { addressWith, type Field, fragmentOf, patched, type Patch, type State, stateOf } from "./state.js";
import { FIRST_VIEW, VIEWS } from "./views/index.js";

const PROGRAMS = 3;

export class Shell implements Context {
  client: Client;
  readonly isRecorded: boolean;
  state: State;
  private readonly recorded = document.getElementById("xlashape-recorded");
  private readonly programs = new Map<string, Program>();
  private readonly contents = new Map<string, Content>();
  private readonly status = h("p.spoken", { role: "status", "aria-live": "polite" });
  private readonly errors = h("div.errors");
  private readonly nav = h("nav", { "aria-label": "views" });
  private readonly heading = h("h1.spoken");
  private readonly place = h("div.view", { id: "view" });
  private readonly subject = h("div.subject");
  private readonly intake: Intake;
  private readonly inspector = new Inspector(this);
  private shown: { info: ViewInfo; view: View; key: string } | undefined;
  private token: string | undefined;
  private restoring = "";

  constructor(private readonly body: HTMLElement) {
    this.isRecorded = this.recorded !== null;
    this.state = this.addressed();
    this.token = this.state.token;
    if (this.token && !isLoopback()) {
      this.state = patched(this.state, { token: undefined });
      history.replaceState(null, "", addressWith(fragmentOf(this.state))); // it stays in memory alone
    }
    if (this.isRecorded && this.state.r) {
      // The file's answers are about one text or profile, and do not repeat it.
      this.contents.set(this.state.r, { kind: this.state.v === "profile" ? "profile" : "report", bytes: new Uint8Array() });
    }
    this.client = this.connected();
    this.intake = new Intake(() => this.client, {
      isRecorded: this.isRecorded,
      token: (token) => this.authorize(token),
      opened: ({ state, content }) => {
        if (content && state.r) {
          this.contents.set(state.r, content);
        }
        // A profile stands beside the module that is open.
        const m = content?.kind === "profile" && !state.m && !this.state.m2 ? this.state.m : undefined;
        this.go(fragmentOf(m ? { ...state, m } : state));
      },
      announce: (text) => this.announce(text),
    });
  }

  get module(): { name: string } {
    return { name: `modules/${this.state.m ?? ""}` };
  }

  start(): void {
    const menu = copyMenu(this, () => this.shown?.view);
    const skip = h("a.skip", { href: "#view", onclick: (event: Event) => {
      event.preventDefault();
      this.place.querySelector<HTMLElement>("[tabindex='0'], a, button, input")?.focus();
    } }, "Skip to the view");
    const home = h("a.home", { href: fragmentOf({ token: this.state.token }) }, "xlashape");
    this.body.append(skip, h("header", {}, home, this.subject, this.intake.opener, menu), h("main", {}, this.intake.element, h("div.frame", {}, this.nav, h("div.content", {}, this.heading, this.errors, this.place), this.inspector.element)), this.status);
    addEventListener("popstate", () => this.changed(this.addressed()));
    addEventListener("click", (event) => this.follow(event));
    addEventListener("keydown", (event) => this.key(event));
    this.intake.listen();
    this.changed(this.state);
  }

  setState(patch: Patch, { replace: inPlace = false } = {}): void {
    const state = patched(this.state, patch);
    if (fragmentOf(state) !== fragmentOf(this.state)) {
      history[inPlace ? "replaceState" : "pushState"](null, "", addressWith(fragmentOf(state)));
      this.changed(state);
    }
  }

  link(patch: Patch): string {
    return fragmentOf(patched(this.state, patch));
  }

  go(link: string): void {
    const state = patched(stateOf(link), { token: this.state.token });
    if (fragmentOf(state) !== fragmentOf(this.state)) {
      history.pushState(null, "", addressWith(fragmentOf(state)));
    }
    this.changed(state);
  }

  say(error: unknown, field?: Field): void {
    if (error instanceof XlashapeError && error.code === Code.Canceled) {
      return;
    }
    if (error instanceof XlashapeError && isModuleGone(error) && this.state.m && this.state.x && this.restoring !== this.state.x) {
      void this.restore();
      return;
    }
    const again = h("button", { type: "button", onclick: () => this.retry() }, "Try again");
    const close = h("button.close", { type: "button", "aria-label": "dismiss", onclick: () => this.errors.replaceChildren() }, "×");
    replace(this.errors, h("div.error", { role: "alert" }, h("p", {}, field && h("b", {}, `${field}: `), told(error).slice(0, 2000)), again, close));
    if (error instanceof XlashapeError && error.code === Code.Unauthenticated) {
      this.intake.askToken();
    }
  }

  announce(text: string): void {
    this.status.textContent = text;
  }

  program(module: string): Program {
    let found = this.programs.get(module);
    if (!found) {
      found = new Program(module, this.client);
      found.ready.catch(() => this.programs.delete(module));
      this.programs.set(module, found);
      if (this.programs.size > PROGRAMS) {
        this.programs.delete(this.programs.keys().next().value ?? "");
      }
    }
    return found;
  }

  content(): Content | undefined {
    return this.contents.get(this.state.r ?? "");
  }

  detailsChanged(): void {
    this.inspector.show(this.shown?.view);
  }

  /** What the address says. In the page of one file it may say the view alone: `#v=graph`, or `#graph`. */
  private addressed(): State {
    const said = stateOf(location.hash);
    const recorded = this.recorded?.dataset["state"];
    return !recorded || said.m || said.s || said.p || said.r ? said : patched(stateOf(recorded), said);
  }

  private connected(): Client {
    return this.recorded ? recordedClient(this.recorded) : connect({ baseUrl: new URL(".", location.href).href, ...(this.token ? { token: this.token } : {}) });
  }

  private authorize(token: string): void {
    this.token = token;
    this.client.close();
    this.client = this.connected();
    this.programs.clear();
    this.retry();
  }

  private retry(): void {
    this.errors.replaceChildren();
    this.shown?.view.dispose();
    this.shown = undefined;
    this.changed(this.state);
  }

  /** Anchors within the page change the state without loading anything. */
  private follow(event: MouseEvent): void {
    const anchor = (event.target as Element).closest?.("a");
    const href = anchor?.getAttribute("href");
    if (href?.startsWith("#") && !event.defaultPrevented && event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.go(href);
    }
  }

  private key(event: KeyboardEvent): void {
    const isTyping = (event.target as Element).matches("input, textarea, select");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
      const filter = this.place.querySelector<HTMLElement>("[data-focus='filter']");
      if (filter) {
        event.preventDefault();
        filter.focus();
      }
    } else if (event.key === "Escape" && !event.defaultPrevented && !isTyping && (this.state.i || this.state.j)) {
      this.setState({ i: undefined, c: undefined, j: undefined });
      this.place.querySelector<HTMLElement>("[role='grid'], [role='treegrid']")?.focus();
    }
  }

  /** What the link carries, again: the server no longer has it, or never had it. */
  private async restore(): Promise<void> {
    const { x = "", x2, m, m2, r } = this.state;
    this.restoring = x;
    this.announce("sending what the link carries to the server");
    try {
      const found = await openedAll(this.client, await Promise.all([x, x2].filter((each) => each !== undefined).map(unpacked)), AbortSignal.timeout(300_000), () => undefined);
      if (found.content && found.state.r) {
        this.contents.set(found.state.r, found.content);
      }
      const names = { m: found.state.m, m2: found.state.m2, r: found.state.r };
      if (names.m !== m || names.m2 !== m2 || names.r !== r) {
        this.setState({ ...found.state, ...this.state, ...names }, { replace: true });
      } else {
        this.retry();
      }
    } catch (error) {
      this.say(error);
    }
  }

  private subjects(state: State): Set<Subject> {
    const subjects = new Set<Subject>();
    if (state.m && state.m2) {
      subjects.add("diff");
    } else if (state.m) {
      subjects.add("module");
    }
    if (state.s) {
      subjects.add("shape");
    }
    if (state.p) {
      subjects.add("map");
    }
    if (state.r) {
      subjects.add(this.contents.get(state.r)?.kind ?? (state.v === "profile" ? "profile" : "report"));
    }
    return subjects;
  }

  private changed(state: State): void {
    this.state = state;
    this.errors.replaceChildren();
    const subjects = this.subjects(state);
    const views = VIEWS.filter((each) => each.subjects.some((subject) => subjects.has(subject)));
    const info = views.find((each) => each.name === state.v) ?? views.find((each) => [...subjects].some((subject) => FIRST_VIEW[subject] === each.name));
    if (info && state.v !== info.name) {
      history.replaceState(null, "", addressWith(fragmentOf({ ...state, v: info.name })));
      this.state = state = { ...state, v: info.name };
    }
    document.body.classList.toggle("start", !info);
    this.intake.show(!info);
    this.showNav(views, info);
    this.showSubject(state);
    if ((state.r && !this.contents.has(state.r)) || (state.x && !state.m && !state.r)) {
      if (state.x && this.restoring !== state.x) {
        void this.restore();
        return;
      }
      if (state.r) {
        this.say("This link does not carry the text that it is about: paste or drop it again.");
      }
      return;
    }
    const key = [info?.name, state.m, state.m2, state.r].join(" ");
    if (info && this.shown?.key === key) {
      this.shown.view.update(state);
    } else {
      this.shown?.view.dispose();
      this.shown = undefined;
      this.place.replaceChildren();
      if (info) {
        const container = h("div.viewbox", { "data-view": info.name });
        this.place.append(container);
        this.shown = { info, view: info.mount(container, this), key };
      }
    }
    this.heading.textContent = info?.title ?? "";
    document.title = info ? `${info.title} · ${this.titleOf(state)} · xlashape` : "xlashape";
    this.inspector.show(this.shown?.view);
  }

  private titleOf(state: State): string {
    return (state.m ? this.names.get(state.m) ?? state.m.slice(0, 8) : state.s ?? state.p ?? "report").slice(0, 80);
  }

  private showNav(views: readonly ViewInfo[], info: ViewInfo | undefined): void {
    const groups = new Map<string, ViewInfo[]>();
    for (const each of views) {
      groups.set(each.group ?? "", [...(groups.get(each.group ?? "") ?? []), each]);
    }
    const clear: Patch = { t: undefined, a: undefined, f: undefined, o: undefined, k: undefined, j: undefined, d: undefined, n: undefined, q: undefined };
    replace(this.nav, [...groups].map(([group, members]) => h("div.group", {}, h("h2", {}, group), h("ul", {}, members.map((each) =>
      h("li", {}, h("a", { href: this.link({ ...clear, v: each.name }), "aria-current": each === info ? "page" : undefined, title: each.about }, each.title)))))));
    this.nav.hidden = views.length < 2;
    this.nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  private readonly names = new Map<string, string>();

  /** What the page is about, beside its name. */
  private showSubject(state: State): void {
    const modules = [state.m, state.m2].filter((each) => each !== undefined);
    const text = modules.length > 0 ? modules.map((each) => this.names.get(each) ?? "…").join(" → ") : state.s ?? state.p ?? (state.r ? (state.v === "profile" ? "profile" : "report about memory") : "");
    replace(this.subject, text && h("span", { title: text.slice(0, 2000) }, text.slice(0, 200)));
    for (const each of modules.filter((one) => !this.names.has(one))) {
      this.names.set(each, "…");
      this.client.getModule(`modules/${each}`).then((module) => {
        this.names.set(each, module.moduleName.slice(0, 200) || each.slice(0, 8));
        this.showSubject(this.state);
        document.title = this.shown ? `${this.shown.info.title} · ${this.titleOf(this.state)} · xlashape` : "xlashape";
      }, () => this.names.delete(each)); // the view says what is wrong
    }
  }
}

/** Whether the server is of this machine, as that of `xlashape open` is. */
function isLoopback(): boolean {
  return /^(127\.0\.0\.1|localhost|\[::1\])$/.test(location.hostname);
}
