import assert from "node:assert/strict";
import test from "node:test";

import { partsOfLine } from "./highlighting.js";

test("the parts of a line are its text", () => {
  const line = '  ROOT %add.3 = f32[2,3]{1,0:T(8,128)} add(%p.0, /*index=1*/ %p.1), metadata={op_name="jit(f)/\\"a\\" <b>" source_line=3}';
  const parts = partsOfLine(line);
  assert.equal(parts.map((part) => part.text).join(""), line);
  assert.deepEqual(parts.filter((part) => ["shape", "opcode", "comment", "string"].includes(part.kind)).map((part) => part.text),
    ["f32[2,3]{1,0:T(8,128)}", "add", "/*index=1*/", '"jit(f)/\\"a\\" <b>"']);
  assert.ok(parts.some((part) => part.kind === "name" && part.text === "%p.1"));
});

test("long and strange lines end", () => {
  for (const line of ['"'.repeat(20_001), "a[".repeat(20_000), "%".repeat(20_000), "/*".repeat(10_000), "\u202e<img onerror=x>"]) {
    assert.equal(partsOfLine(line).map((part) => part.text).join(""), line);
  }
});
