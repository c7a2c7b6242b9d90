// `npm run build:binary`: one executable that needs nothing but a Linux kernel and libc.
//
//   sources --esbuild--> one CommonJS file --node--> SEA blob --postject--> copy of the node binary = dist/gpve
//
// It is multicall: called as gpve-server, gpve-agent or gpvectl (links beside it) it is that program.
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { oneFileOptions } from "@gpve/bin/one-file/make-one-file.ts";
import { SUPERVISOR_ASSET } from "@gpve/bin/supervisor-source.ts";
import { exec } from "@gpve/kit/exec.ts";

const root = resolve(import.meta.dirname, "../..");
const dist = join(root, "dist");
const bundle = join(dist, "gpve.cjs");
const blob = join(dist, "gpve.blob");
const binary = join(dist, "gpve");
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";
const MULTICALL = ["gpve-server", "gpve-agent", "gpvectl"];

mkdirSync(dist, { recursive: true });
await build({ ...oneFileOptions(root), outfile: bundle });
// Guests need their supervisor; the executable carries it ready.
const supervisor = await supervisorBinary({
  sourceFolder: join(root, "packages/supervisor"),
  cacheFolder: dist,
});
const config = join(dist, "sea.json");
writeFileSync(
  config,
  JSON.stringify({
    main: bundle,
    output: blob,
    disableExperimentalSEAWarning: true,
    useCodeCache: true,
    // As the launcher, `gpve`, starts it.
    execArgv: ["--max-semi-space-size=4"],
    assets: { [SUPERVISOR_ASSET]: supervisor },
  }),
);
await exec(process.execPath, ["--experimental-sea-config", config], { cwd: root });
rmSync(binary, { force: true });
copyFileSync(realpathSync(process.execPath), binary);
await exec(
  process.execPath,
  [join(root, "node_modules/postject/dist/cli.js"), binary, "NODE_SEA_BLOB", blob, "--sentinel-fuse", FUSE],
  { timeoutMs: 300_000 },
);
chmodSync(binary, 0o755);
for (const name of MULTICALL) {
  rmSync(join(dist, name), { force: true });
  symlinkSync("gpve", join(dist, name));
}
for (const file of [config, blob]) rmSync(file);
console.log(
  `${binary}: ${Math.round(statSync(binary).size / 2 ** 20)} MiB (bundle ${Math.round(statSync(bundle).size / 2 ** 10)} KiB)`,
);
