/** The box: what is pasted, dropped, typed or chosen. It keeps the text until it is shown. */

import { type Client, Code, XlashapeError } from "@xlashape/client/browser";

import { bytesText } from "./columns.js";
import { everySecond, h, replace } from "./dom.js";
import { type Opened, openedAll } from "./opening.js";
import { told } from "./mistakes.js";

interface Options {
  isRecorded: boolean;
  token(token: string): void;
  opened(found: Opened): void;
  announce(text: string): void;
}

const EXAMPLES: readonly (readonly [label: string, text: string])[] = [
  ["a shape", "bf16[8,2048,128]{2,1,0:T(8,128)(2,1)}"],
  ["a padded shape", "f32[1024,3]{0,1:T(8,128)}"],
  ["a map", "(d0, d1)[s0] -> (d0 * 8 + s0, d1 floordiv 2), domain: d0 in [0, 15], d1 in [0, 255], s0 in [0, 7]"],
  ["an instruction", "%t = f32[128,256]{1,0} transpose(f32[256,128]{1,0} %x), dimensions={1,0}"],
];

/** Programs that lie beside the page. */
const PROGRAMS: readonly (readonly [label: string, file: string])[] = [
  ["attention on a CPU", "attention.pb"],
  ["a decoder's step on TPUs", "decoder-tpu.gz"],
];

const MOST_SHOWN = 200_000; // characters of a text in the box

export class Intake {
  readonly opener = h("button.open", { type: "button", "aria-expanded": "false", onclick: () => this.toggle() }, "Open…");
  readonly element: HTMLElement;
  private readonly box: HTMLTextAreaElement;
  private readonly files = h("input.spoken", { type: "file", multiple: true, tabindex: -1, "aria-label": "files", onchange: () => void this.chosen(this.files.files) });
  private readonly note = h("p.note", { role: "status" });
  private readonly wrong = h("div.wrong", { role: "alert", id: "wrong" });
  private readonly tokenBox: HTMLInputElement;
  private readonly tokenRow: HTMLElement;
  private readonly go: HTMLButtonElement;
  private readonly cancel: HTMLButtonElement;
  private readonly pinned = h("div.given");
  /** Files in place of the text. */
  private given: readonly File[] = [];
  private stopped = new AbortController();
  private isStart = true;

  constructor(private readonly client: () => Client, private readonly options: Options) {
    this.box = h("textarea", {
      rows: 6, spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-label": "a shape, a line of HLO, a module, an indexing map, or a report about memory", "aria-describedby": "wrong",
      placeholder: "Paste a shape, a line of HLO, a dump, an indexing map, or the report of a memory that ran out.\nDrop a file here: text, proto, gzip, a profile. Two files are compared.",
      oninput: () => this.edited(), onpaste: (event: ClipboardEvent) => this.pasted(event), onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.go = h("button.primary", { type: "button", onclick: () => void this.submit() }, "Open");
    this.cancel = h("button", { type: "button", hidden: true, onclick: () => this.stopped.abort() }, "Cancel");
    this.tokenBox = h("input", { type: "password", autocomplete: "off", "aria-label": "token", required: true });
    this.tokenRow = h("form.token", { hidden: true, onsubmit: (event: Event) => {
      event.preventDefault();
      this.authorize();
    } }, h("label", {}, "This server wants a token. It stays in this page's memory. ", this.tokenBox), h("button", { type: "submit" }, "Use"));
    const examples = h("p.examples", {}, "Try ", EXAMPLES.map(([label, text], i) => [i > 0 && " · ", h("button.plain", { type: "button", onclick: () => this.example(text) }, label)]),
      " or a program: ", PROGRAMS.map(([label, file], i) => [i > 0 && " · ", h("button.plain", { type: "button", onclick: () => void this.program(file) }, label)]));
    this.element = h("section.intake", { "aria-label": "what to look at" },
      h("h1", {}, "What do you want to look at?"),
      h("p.about", {}, "Where elements of an XLA program lie in memory, how large its buffers are, what makes its peak, and what it reads, copies, computes and sends."), this.pinned, this.box, this.wrong,
      h("div.actions", {}, this.go, h("button", { type: "button", onclick: () => this.files.click() }, "Choose files"), this.cancel, this.note), this.files, this.tokenRow, examples);
    if (options.isRecorded) {
      this.opener.hidden = true;
    }
  }

  /** Files may be dropped anywhere, and text pasted wherever nothing else takes it. */
  listen(): void {
    if (this.options.isRecorded) {
      return;
    }
    const body = document.body;
    addEventListener("dragover", (event) => {
      event.preventDefault();
      body.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => event.relatedTarget === null && body.classList.remove("dropping"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      body.classList.remove("dropping");
      const text = event.dataTransfer?.getData("text/plain");
      event.dataTransfer?.files.length ? void this.chosen(event.dataTransfer.files) : text && this.example(text);
    });
    addEventListener("paste", (event) => {
      const text = event.clipboardData?.getData("text/plain");
      if (event.clipboardData?.files.length) {
        void this.chosen(event.clipboardData.files);
      } else if (text && !(event.target as Element).matches("input, textarea")) {
        this.example(text);
      }
    });
  }

  /** On the start page the box is always there; elsewhere it opens from the header. */
  show(isStart: boolean): void {
    this.isStart = isStart;
    this.element.hidden = !isStart || this.options.isRecorded;
    this.opener.hidden = isStart || this.options.isRecorded;
    this.opener.setAttribute("aria-expanded", "false");
    this.wrong.replaceChildren();
    if (isStart && !this.options.isRecorded) {
      this.box.focus();
    }
  }

  askToken(): void {
    this.reveal();
    this.tokenRow.hidden = false;
    this.tokenBox.focus();
  }

  private toggle(): void {
    this.element.hidden ? this.reveal() : this.show(this.isStart);
  }

  private reveal(): void {
    this.element.hidden = false;
    this.opener.setAttribute("aria-expanded", "true");
    this.box.focus();
  }

  private authorize(): void {
    this.tokenRow.hidden = true;
    this.wrong.replaceChildren();
    this.options.token(this.tokenBox.value.trim());
    this.tokenBox.value = "";
    if (this.box.value || this.given.length > 0) {
      void this.submit();
    }
  }

  private example(text: string): void {
    this.reveal();
    this.forget();
    this.box.value = text.slice(0, MOST_SHOWN);
    void this.submit(text);
  }

  private async program(file: string): Promise<void> {
    try {
      const answer = await fetch(file);
      if (!answer.ok) {
        throw new Error(`the server has no ${file}: ${answer.status}`);
      }
      await this.chosen([new File([await answer.blob()], file)]);
    } catch (error) {
      this.refused(error, "");
    }
  }

  private edited(): void {
    this.forget();
    this.wrong.replaceChildren();
    this.note.textContent = "";
  }

  private forget(): void {
    this.given = [];
    this.pinned.replaceChildren();
  }

  /** What is pasted into an empty box is opened at once. */
  private pasted(event: ClipboardEvent): void {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    const isAll = this.box.value === "" || (this.box.selectionStart === 0 && this.box.selectionEnd === this.box.value.length);
    if (isAll && text) {
      event.preventDefault();
      this.example(text);
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      void this.submit();
    } else if (event.key === "Escape" && !this.isStart) {
      event.stopPropagation();
      this.show(false);
      this.opener.focus();
    }
  }

  private async chosen(files: FileList | readonly File[] | null): Promise<void> {
    if (!files || files.length === 0) {
      return;
    }
    this.reveal();
    this.given = [...files].slice(0, 2);
    this.box.value = "";
    replace(this.pinned, this.given.map((file) => h("span.file", {}, file.name.slice(0, 200), " ", h("small", {}, bytesText(file.size)))));
    this.files.value = "";
    await this.submit();
  }

  private async submit(whole?: string): Promise<void> {
    const text = whole ?? this.box.value;
    if (!text.trim() && this.given.length === 0) {
      this.box.focus();
      return;
    }
    this.stopped.abort();
    const stopped = (this.stopped = new AbortController());
    this.wrong.replaceChildren();
    this.box.removeAttribute("aria-invalid");
    this.go.disabled = true;
    this.cancel.hidden = false;
    const began = Date.now();
    let doing = "reading…";
    const tell = (): void => {
      const seconds = Math.floor((Date.now() - began) / 1000);
      this.note.textContent = seconds >= 2 ? `${doing} ${seconds} s` : doing;
    };
    const stop = everySecond(tell);
    try {
      const given = this.given.length > 0 ? await Promise.all(this.given.map(async (file) => new Uint8Array(await file.arrayBuffer()))) : [new TextEncoder().encode(text)];
      const found = await openedAll(this.client(), given, stopped.signal, (what) => {
        doing = what;
        tell();
      });
      this.note.textContent = `Taken for ${found.summary}.`;
      this.options.announce(`Taken for ${found.summary}.`);
      this.tokenRow.hidden = true;
      this.options.opened(found);
    } catch (error) {
      if (this.stopped === stopped) {
        this.note.textContent = stopped.signal.aborted ? "Cancelled." : "";
        if (!stopped.signal.aborted) {
          this.refused(error, this.given.length > 0 ? "" : text);
        }
      }
    } finally {
      stop();
      if (this.stopped === stopped) {
        this.go.disabled = false;
        this.cancel.hidden = true;
      }
    }
  }

  /** What is wrong, with the line and a caret where the text is known. The box keeps the text. */
  private refused(error: unknown, text: string): void {
    const isPlace = error instanceof XlashapeError && error.line > 0 && text;
    replace(this.wrong, h("p", {}, told(error).slice(0, 2000)), isPlace && caret(text, error.line, error.column));
    this.box.setAttribute("aria-invalid", "true");
    if (error instanceof XlashapeError && (error.code === Code.Unauthenticated || error.code === Code.PermissionDenied)) {
      this.askToken();
    } else if (isPlace) {
      const before = text.split("\n").slice(0, error.line - 1).join("\n").length;
      const at = before + (error.line > 1 ? 1 : 0) + [...(text.split("\n")[error.line - 1] ?? "")].slice(0, error.column - 1).join("").length;
      this.box.focus();
      this.box.setSelectionRange(at, at + 1);
    }
  }
}

const AROUND = 60;

/** The line of a text, with a caret below a column; of long lines the part around it. */
function caret(text: string, line: number, column: number): HTMLElement {
  const letters = [...(text.split("\n", line)[line - 1] ?? "")].map((each) => (each < " " ? " " : each));
  const from = Math.max(0, column - 1 - AROUND);
  const part = letters.slice(from, column - 1 + AROUND).join("");
  const prefix = `${line}:${column}  ${from > 0 ? "…" : ""}`;
  return h("pre.caret", {}, h("span.faint", {}, prefix), h("bdi", { dir: "ltr" }, part), "\n", " ".repeat([...prefix].length + column - 1 - from), "^");
}
