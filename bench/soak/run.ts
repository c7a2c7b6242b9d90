// `npm run bench:soak`: memory of server and agent while users are busy, and what is left of it when they have gone.
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { apiOf, root, startGpve } from "../../test/support/gpve.ts";
import { residentMiB } from "../../test/support/process.ts";
import { busyUsers } from "./busy-users.ts";

const { values: options } = parseArgs({
  options: {
    operations: { type: "string", default: "10000" },
    users: { type: "string", default: "4" },
    out: { type: "string", default: join(root, "bench/results") },
  },
});
const SETTLE_MS = 10_000;

const gpve = await startGpve({ args: ["--node", "bench"] });
try {
  const resident = (): number => Math.round(residentMiB(gpve.process.pid));
  await new Promise((done) => setTimeout(done, SETTLE_MS));
  const rows = [{ after: 0, residentMiB: resident() }];
  const begun = performance.now();
  const { operations, failures } = await busyUsers({
    api: apiOf(gpve.credentials),
    data: gpve.data,
    node: "bench",
    users: Number(options.users),
    operations: Number(options.operations),
    onProgress: (after) => rows.push({ after, residentMiB: resident() }),
  });
  const minutes = Math.round((performance.now() - begun) / 6_000) / 10;
  const report = {
    date: new Date().toISOString().slice(0, 10),
    cores: availableParallelism(),
    users: Number(options.users),
    operations,
    minutes,
    failures: failures.length,
    rows,
  };
  const text = [
    `${report.users} busy users, ${operations} operations in ${minutes} minutes, ${failures.length} failed; ${report.date}, ${report.cores} cores.`,
    "",
    "| after operations | resident |",
    "| --- | --- |",
    ...rows.map((row) => `| ${row.after} | ${row.residentMiB} MiB |`),
    "",
  ].join("\n");
  mkdirSync(options.out, { recursive: true });
  writeFileSync(join(options.out, "soak.json"), `${JSON.stringify(report, undefined, 2)}\n`);
  writeFileSync(join(options.out, "soak.md"), text);
  console.log(text);
  for (const failure of failures.slice(0, 10)) console.log(failure);
  process.exitCode = failures.length === 0 ? 0 : 1;
} finally {
  await gpve.stop();
}
