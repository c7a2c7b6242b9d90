// `npm run bench:store`: SQLite behind etcd's API beside a real etcd, on the same disk, one after the other in turns:
// writes a second, what a write costs, how many share one sync to disk, and what both cost while nobody writes.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { exec } from "../../packages/kit/src/exec.ts";
import { startChild } from "../../packages/kit/src/testing/child.ts";
import { utf8 } from "../../packages/store/src/keys.ts";
import { connectEtcd } from "../../packages/store/src/testing/etcd-client.ts";
import { WatchLine } from "../../packages/store/src/testing/etcd-watch-line.ts";
import { root } from "../../test/support/gpve.ts";
import { cpuSeconds, residentMiB } from "../../test/support/process.ts";
import { etcdProgram } from "../support/etcd-program.ts";

const { values: options } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    rounds: { type: "string", default: "3" },
    dir: { type: "string", default: tmpdir() },
    out: { type: "string", default: join(root, "bench/results") },
  },
});

interface Served {
  readonly url: string;
  readonly pid: number;
  /** Syncs to disk for writes so far. */
  syncs(): Promise<number>;
  stop(): Promise<void>;
}

interface Writes {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly cpuMsPerWrite: number;
  readonly writesPerSync: number;
}

const ETCD_PORT = 23_791;
const { program: etcdBinary, version: etcdVersion } = await etcdProgram();

async function serveOurs(dir: string): Promise<Served> {
  const script = join(root, "bench/store/serve.ts");
  // As ./gpve starts it.
  const child = startChild(process.execPath, [
    "--disable-warning=ExperimentalWarning",
    "--max-semi-space-size=4",
    script,
    join(dir, "s.db"),
  ]);
  let heard: (line: string) => void = () => undefined;
  child.onLine((line) => heard(line));
  const next = (): Promise<string> =>
    new Promise((resolve) => {
      heard = resolve;
    });
  const url = await next();
  return {
    url,
    pid: child.pid,
    async syncs() {
      const told = next();
      child.signal("SIGUSR2");
      return Number((await told).split(" ")[1]);
    },
    stop: () => child.stop(),
  };
}

async function serveEtcd(dir: string): Promise<Served> {
  const url = `http://127.0.0.1:${ETCD_PORT}`;
  const args = [
    `--data-dir=${dir}`,
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=http://127.0.0.1:${ETCD_PORT + 1}`,
    "--logger=zap",
    "--log-level=error",
  ];
  const child = startChild(etcdBinary, args);
  const metric = async (): Promise<number> => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(/^etcd_disk_wal_fsync_duration_seconds_count (\d+)/m.exec(text)?.[1]);
  };
  for (let i = 0; i < 100 && (await metric().catch(() => -1)) < 0; i++) await pause(0.1);
  return { url, pid: child.pid, syncs: metric, stop: () => child.stop() };
}

async function writes(served: Served, clients: number): Promise<Writes> {
  const [cpu, syncs] = [cpuSeconds(served.pid), await served.syncs()];
  const client = connectEtcd(served.url);
  const revision = async (): Promise<number> =>
    Number((await client.kv.range({ key: utf8("x") })).header?.revision);
  const before = await revision();
  const load = join(root, "bench/store/load.ts");
  const { stdout } = await exec(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", load, served.url, String(clients), options.seconds],
    { timeoutMs: 300_000 },
  );
  const done = (await revision()) - before;
  client.close();
  const cost = cpuSeconds(served.pid) - cpu;
  return {
    ...(JSON.parse(stdout) as Pick<Writes, "perSecond" | "p50Ms" | "p99Ms">),
    cpuMsPerWrite: (1_000 * cost) / done,
    writesPerSync: done / ((await served.syncs()) - syncs),
  };
}

/** With sixty watches open, as a control plane has. */
async function idle(served: Served): Promise<{ cpuPercent: number; residentMiB: number }> {
  const client = connectEtcd(served.url);
  const line = new WatchLine(client);
  for (let i = 0; i < 60; i++) line.create({ key: utf8(`/w/${i}`), progressNotify: true });
  for (let i = 0; i < 60; i++) await line.next();
  await pause(3);
  const before = cpuSeconds(served.pid);
  await pause(15);
  const cpuPercent = ((cpuSeconds(served.pid) - before) / 15) * 100;
  line.close();
  client.close();
  return { cpuPercent, residentMiB: residentMiB(served.pid) };
}

function pause(seconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, seconds * 1_000));
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

const kinds = { ours: serveOurs, etcd: serveEtcd } as const;
const measured: Record<keyof typeof kinds, Map<number, Writes[]>> = { ours: new Map(), etcd: new Map() };
const quiet: Record<string, { cpuPercent: number; residentMiB: number }> = {};
for (let round = 0; round < Number(options.rounds); round++) {
  for (const kind of ["ours", "etcd"] as const) {
    const dir = mkdtempSync(join(options.dir, "gpve-bench-store-"));
    const served = await kinds[kind](dir);
    try {
      await writes(served, 64); // compiled and cached by now
      for (const clients of [1, 16, 64]) {
        const row = await writes(served, clients);
        measured[kind].set(clients, [...(measured[kind].get(clients) ?? []), row]);
        console.log(kind, clients, JSON.stringify(row));
      }
      if (round === 0) quiet[kind] = await idle(served);
    } finally {
      await served.stop();
      rmSync(dir, { recursive: true, force: true });
    }
  }
}
const middle = (kind: keyof typeof kinds, clients: number): Writes => {
  const rows = measured[kind].get(clients) ?? [];
  const of = (field: keyof Writes): number => Number(median(rows.map((row) => row[field])).toPrecision(3));
  return {
    perSecond: of("perSecond"),
    p50Ms: of("p50Ms"),
    p99Ms: of("p99Ms"),
    cpuMsPerWrite: of("cpuMsPerWrite"),
    writesPerSync: of("writesPerSync"),
  };
};
const rows = [1, 16, 64].map((clients) => ({
  clients,
  ours: middle("ours", clients),
  etcd: middle("etcd", clients),
}));
const report = {
  date: new Date().toISOString().slice(0, 10),
  cores: availableParallelism(),
  etcdVersion,
  rows,
  idle: quiet,
};
const text = [
  `Puts of 512 bytes through etcd's API, SQLite behind our server : etcd ${etcdVersion}, same disk, in turns; median of ${options.rounds}`,
  `rounds of ${options.seconds} s; ${report.date}, ${report.cores} cores, load generator included.`,
  "",
  "| clients | writes/s ours | etcd | ratio | p50 ms | etcd | p99 ms | etcd | CPU ms per write | etcd | writes per sync | etcd |",
  "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
  ...rows.map(({ clients, ours, etcd }) =>
    [
      "",
      clients,
      ours.perSecond,
      etcd.perSecond,
      (ours.perSecond / etcd.perSecond).toFixed(2),
      ours.p50Ms,
      etcd.p50Ms,
      ours.p99Ms,
      etcd.p99Ms,
      ours.cpuMsPerWrite,
      etcd.cpuMsPerWrite,
      ours.writesPerSync,
      etcd.writesPerSync,
      "",
    ]
      .join(" | ")
      .trim(),
  ),
  "",
  "Afterwards, with 60 watches open and nobody writing:",
  "",
  "| | CPU of one core | resident |",
  "| --- | --- | --- |",
  ...Object.entries(quiet).map(
    ([kind, { cpuPercent, residentMiB: memory }]) =>
      `| ${kind} | ${cpuPercent.toFixed(2)} % | ${Math.round(memory)} MiB |`,
  ),
  "",
].join("\n");
mkdirSync(options.out, { recursive: true });
writeFileSync(join(options.out, "store.json"), `${JSON.stringify(report, undefined, 2)}\n`);
writeFileSync(join(options.out, "store.md"), text);
console.log(text);
