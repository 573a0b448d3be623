/** Tables as Markdown, for issues and chats. */

import { type Column, headingOf, isNumber } from "./columns.js";

export function markdownTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.replace(/\s+/g, " ").replaceAll("\\", "\\\\").replaceAll("|", "\\|").replaceAll("<", "&lt;")).join(" | ")} |`;
  return [line(columns.map(headingOf)), `|${columns.map((column) => (isNumber(column) ? "--:" : ":--")).join("|")}|`, ...rows.map(line)].join("\n");
}
