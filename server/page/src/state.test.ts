import assert from "node:assert/strict";
import test from "node:test";

import { fragmentOf, patched, stateOf } from "./state.js";

test("a fragment reads back, in one form, without what is empty or unknown", () => {
  const state = { s: "f32[3,5]{1,0:T(2,2)} & #é", v: "shape", f: "bytes>=1MiB\nname~a" };
  assert.deepEqual(stateOf(fragmentOf(state)), state);
  assert.equal(fragmentOf(state), fragmentOf({ f: state.f, v: state.v, s: state.s }));
  assert.deepEqual(stateOf("#graph"), { v: "graph" });
  assert.deepEqual(stateOf("#v=&zzz=1&m=ab"), { m: "ab" });
  assert.deepEqual(patched({ v: "a", i: "x" }, { v: "b", i: undefined }), { v: "b" });
});
