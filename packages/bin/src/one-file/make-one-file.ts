import { mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { build, type BuildOptions } from "esbuild";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { inputsFileOf, oneFileOf, stampOf } from "./current-one-file.js";

/** For the launcher and for the single executable: what users run is made in one way. */
export const oneFileOptions = (root: string): BuildOptions => ({
  absWorkingDir: root,
  entryPoints: [join(root, "packages/bin/src/program.ts")],
  bundle: true,
  platform: "node",
  target: "node24",
  format: "cjs",
  // Comments and indentation would stay in memory. Stack traces in bug reports keep the names of functions.
  minifyWhitespace: true,
  minifySyntax: true,
  keepNames: true,
  lineLimit: 240,
  legalComments: "none",
  logLevel: "warning",
});

/** Its inputs are written last: one that was cut off in between is of no sources. */
export async function makeOneFile(root: string): Promise<void> {
  const begun = Date.now();
  const { metafile, outputFiles } = await build({
    ...oneFileOptions(root),
    outfile: oneFileOf(root),
    metafile: true,
    write: false,
  });
  mkdirSync(dirname(oneFileOf(root)), { recursive: true });
  rmSync(inputsFileOf(root), { force: true });
  for (const { path, contents } of outputFiles) writeFileAtomic(path, contents, 0o644);
  // What changed while it was read may be in it by half; without a stamp it is never current.
  // What npm installs follows the lock file.
  const own = Object.keys(metafile.inputs).filter((path) => path.startsWith("packages/"));
  const inputs = [...own, "package-lock.json"].map((path) => {
    const stamp = stampOf(join(root, path)) ?? "gone";
    return [path, Number(stamp.split(" ")[0]) >= begun ? "changed meanwhile" : stamp];
  });
  writeFileAtomic(inputsFileOf(root), JSON.stringify(Object.fromEntries(inputs)), 0o644);
}
