/** Builds the page into server/xlashape_server/page, which is committed: users of the wheel need no Node. `--outdir=DIR` writes elsewhere. */

import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const outdir = process.argv.find((each) => each.startsWith("--outdir="))?.slice("--outdir=".length) ?? join(here, "..", "xlashape_server", "page");

/** Packages come from this folder's lock, also where the client's sources import them: those have a folder of packages of their own. */
const packages = {
  name: "packages",
  setup(builder) {
    builder.onResolve({ filter: /^@(bufbuild|connectrpc)\// }, ({ path, kind, pluginData }) =>
      pluginData === "resolved" ? undefined : builder.resolve(path, { kind, resolveDir: here, pluginData: "resolved" }));
  },
};

const notice = "/*! xlashape, Apache-2.0. Contains @bufbuild/protobuf (Apache-2.0 and BSD-3-Clause, Copyright 2008 Google Inc.) and @connectrpc/connect (Apache-2.0), "
  + "Copyright 2021-2026 Buf Technologies, Inc. and The Connect Authors. */";

const common = { bundle: true, format: "esm", charset: "utf8", legalComments: "none", plugins: [packages], logLevel: "warning" };
const entry = (path, out) => ({ in: join(here, path), out });

if (process.argv.includes("--tests")) {
  const tests = readdirSync(join(here, "src"), { recursive: true }).filter((each) => each.endsWith(".test.ts"));
  rmSync(join(here, "build"), { recursive: true, force: true });
  const entryPoints = tests.map((each) => entry(join("src", each), each.replace(/\.ts$/, "").replaceAll("/", "-")));
  await build({ ...common, entryPoints, outdir: join(here, "build"), platform: "node" });
} else {
  mkdirSync(outdir, { recursive: true });
  const worker = ["src/graph/layout-worker.ts"].filter((each) => existsSync(join(here, each)));
  await build({
    ...common,
    entryPoints: [entry("page.css", "page"), entry("src/main.ts", "page"), ...worker.map((each) => entry(each, "layout-worker"))],
    outdir,
    target: ["chrome111", "firefox113", "safari16.4"],
    minify: true,
    banner: { js: notice },
  });
  copyFileSync(join(here, "index.html"), join(outdir, "index.html"));
  copyFileSync(join(here, "../../xlashape/data/attention.hlo.pb"), join(outdir, "attention.pb"));
  copyFileSync(join(here, "../../tests/vectors/collectives/tpu_decoder_step.pb.gz"), join(outdir, "decoder-tpu.gz"));
}
