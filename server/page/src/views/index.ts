/** Every view of the page. */

import type { Subject, ViewInfo } from "../context.js";
import { REPORTS, type ReportName } from "../reports.js";
import { mount as mountElement } from "./element.js";
import { mount as mountGraph } from "./graph.js";
import { mount as mountInstructions } from "./instructions.js";
import { mount as mountMap } from "./map.js";
import { reportView } from "./report.js";
import { mount as mountShape } from "./shape.js";
import { mount as mountSource } from "./source.js";
import { mount as mountSummary } from "./summary.js";
import { mount as mountText } from "./text.js";

function report(name: ReportName, title: string, subjects: readonly Subject[], group = "Reports"): ViewInfo {
  return { name, title, about: REPORTS[name].summary, subjects, group, mount: reportView(name) };
}

export const VIEWS: readonly ViewInfo[] = [
  report("diff", "Changes", ["diff"], "Comparison"),
  report("equivalent", "Same meaning", ["diff"], "Comparison"),
  report("profile", "Profile", ["profile"], "Profile"),
  { name: "summary", title: "Summary", about: REPORTS.summary.summary, subjects: ["module"], group: "Program", mount: mountSummary },
  { name: "instructions", title: "Instructions", about: "Every instruction of the module.", subjects: ["module"], group: "Program", mount: mountInstructions },
  { name: "source", title: "Source", about: "Layers, operations and lines of the program, and what they cost.", subjects: ["module"], group: "Program", mount: mountSource },
  { name: "text", title: "Text", about: "The module as XLA writes it.", subjects: ["module"], group: "Program", mount: mountText },
  { name: "graph", title: "Graph", about: "The instructions and what they read, as a graph.", subjects: ["module"], group: "Program", mount: mountGraph },
  { name: "element", title: "Element", about: "What an element of a result reads.", subjects: ["module"], group: "Program", mount: mountElement },
  report("memory", "Memory", ["module"]),
  report("copies", "Copies", ["module"]),
  report("reads", "Reads", ["module"]),
  report("cost", "Cost", ["module"]),
  report("collectives", "Collectives", ["module"]),
  report("size", "Buffers", ["module"]),
  { name: "shape", title: "Shape", about: "Where the elements of a shape lie in memory.", subjects: ["shape"], group: "Shape", mount: mountShape },
  report("why", "Why so large", ["report", "module"]),
  report("verify", "Verify", ["module"]),
  { name: "map", title: "Map", about: "Which element each element reads.", subjects: ["map"], group: "Map", mount: mountMap },
];

/** The view that is shown first of what. */
export const FIRST_VIEW: Readonly<Record<Subject, string>> = { module: "summary", shape: "shape", map: "map", report: "why", diff: "diff", profile: "profile" };
