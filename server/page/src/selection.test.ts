import assert from "node:assert/strict";
import test from "node:test";

import { bytesText, cellText, type Column, grouped } from "./columns.js";
import { amountOf, filterOf, sorted } from "./selection.js";

const column = (name: string, kind: Column["kind"], unit = "", heading = ""): Column => ({ name, kind, unit, meaning: "", rank: 1, heading });
const COLUMNS = [column("name", "text", "", "instruction"), column("bytes", "integer", "bytes"), column("padding_bytes", "integer", "bytes", "padding"), column("is_root", "boolean"), column("access", "texts")];
interface Row { name: string; bytes?: number | bigint; padding_bytes?: number; is_root?: boolean; access?: string[] }
const ROWS: Row[] = [
  { name: "fusion.1", bytes: 2048, padding_bytes: 0, is_root: true, access: ["streamed"] },
  { name: "copy.2", bytes: 10n * 2n ** 60n, padding_bytes: 10, is_root: false, access: ["reduced", "streamed"] },
  { name: "copy.3" },
];
const get = (row: Row, { name }: Column) => row[name as keyof Row];
const names = (filter: string) => ROWS.filter(filterOf(filter, COLUMNS, get) ?? (() => true)).map((row) => row.name);

test("filters mean what they mean on the command line", () => {
  assert.deepEqual(names(""), ["fusion.1", "copy.2", "copy.3"]);
  assert.deepEqual(names("copy"), ["copy.2", "copy.3"]);
  assert.deepEqual(names("%copy.2"), ["copy.2"]);
  assert.deepEqual(names("bytes>=2KiB"), ["fusion.1", "copy.2"]);
  assert.deepEqual(names("bytes>2KiB; name~^copy"), ["copy.2"]);
  assert.deepEqual(names("bytes!=2048"), ["copy.2", "copy.3"]);
  assert.deepEqual(names("padding<1"), ["fusion.1"]);
  assert.deepEqual(names("is root=true"), ["fusion.1"]);
  assert.deepEqual(names("padding-bytes > 1"), ["copy.2"]);
  assert.deepEqual(names("access=reduced"), ["copy.2"]);
  assert.deepEqual(names("access!=reduced"), ["fusion.1", "copy.3"]);
  assert.deepEqual(names("instruction!~copy"), ["fusion.1"]);
});

test("mistakes in filters are sentences", () => {
  assert.throws(() => names("nothing=1"), /there is no column 'nothing'; there are name, bytes/);
  assert.throws(() => names("bytes>=lots"), /expected a number such as 128, 10MiB or 50%, found 'lots'/);
  assert.throws(() => names("name~("), /not a valid regular expression/);
  assert.throws(() => names("is_root>1"), /has no order/);
  assert.equal(amountOf("1.5MiB"), 1.5 * 2 ** 20);
  assert.equal(amountOf("12,5k"), 125_000);
});

test("rows without a value come last, in either order", () => {
  const order = (text: string) => sorted(ROWS, text, COLUMNS, get).map((row) => row.name);
  assert.deepEqual(order("bytes"), ["copy.2", "fusion.1", "copy.3"]);
  assert.deepEqual(order("bytes:asc"), ["fusion.1", "copy.2", "copy.3"]);
  assert.deepEqual(order("name"), ["copy.2", "copy.3", "fusion.1"]);
  assert.deepEqual(order("name:desc"), ["fusion.1", "copy.3", "copy.2"]);
});

test("cells read as the command line's", () => {
  assert.deepEqual([96, 18_432, 597_688_320, 5 * 2 ** 50, -2048].map(bytesText), ["96 B", "18.0 KiB", "570.0 MiB", "5.00 PiB", "−2.00 KiB"]);
  assert.equal(cellText(column("share", "number", "fraction"), 0.375), "37.5%");
  assert.equal(cellText(column("time", "number", "seconds"), 1.5e-5), "15 µs");
  assert.equal(cellText(column("bandwidth", "number", "bytes/s"), 1.281e10), "12.81 GB/s");
  assert.equal(cellText(column("flop_rate", "number", "flops/s"), 2.833e9), "2.833 GFLOP/s");
  assert.equal(cellText(column("flop_rate", "number", "flops/s"), 12), "12 FLOP/s");
  assert.equal(cellText(column("n", "integer"), 12345n), "12,345");
  assert.equal(grouped(9_007_199_254_740_993n), "9,007,199,254,740,993");
});
