// `npm run bench:idle`: what `gpve up` costs while nobody asks for anything, empty and with 100 stopped guests.
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { root, startGpve } from "../../test/support/gpve.ts";
import { cpuSeconds, residentMiB } from "../../test/support/process.ts";
import { dataDirWithGuests } from "../support/guests.ts";

const { values: options } = parseArgs({
  options: {
    seconds: { type: "string", default: "30" },
    settle: { type: "string", default: "10" },
    out: { type: "string", default: join(root, "bench/results") },
  },
});

interface Idle {
  readonly guests: number;
  readonly residentMiB: number;
  readonly cpuPercent: number;
}

async function idle(guests: number): Promise<Idle> {
  const data = await dataDirWithGuests(guests, 1);
  const gpve = await startGpve({ data, args: ["--node", "node1"] });
  const { pid } = gpve.process;
  try {
    await pause(Number(options.settle)); // node facts are found by trying, once
    const before = cpuSeconds(pid);
    await pause(Number(options.seconds));
    const used = cpuSeconds(pid) - before;
    return {
      guests,
      residentMiB: Math.round(residentMiB(pid)),
      cpuPercent: Number(((100 * used) / Number(options.seconds)).toFixed(2)),
    };
  } finally {
    await gpve.stop();
  }
}

function pause(seconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, seconds * 1000));
}

const rows = [await idle(0), await idle(100)];
const report = { date: new Date().toISOString().slice(0, 10), cores: availableParallelism(), rows };
const text = [
  `Server and agent as one process, idle for ${options.seconds} s; ${report.date}, ${report.cores} cores.`,
  "",
  "| guests | resident | CPU of one core |",
  "| --- | --- | --- |",
  ...rows.map((row) => `| ${row.guests} | ${row.residentMiB} MiB | ${row.cpuPercent} % |`),
  "",
].join("\n");
mkdirSync(options.out, { recursive: true });
writeFileSync(join(options.out, "idle.json"), `${JSON.stringify(report, undefined, 2)}\n`);
writeFileSync(join(options.out, "idle.md"), text);
console.log(text);
