// `npm run bench:vc`: virtual clusters beside a bare start of the same programs in one run; sleep and wake; what each
// temperature takes; many of them on one node; the store beside a real etcd, as `npm run bench:store` does it.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { exec } from "@gpve/kit/exec.ts";
import { root } from "../../test/support/gpve.ts";
import { endClustersOf } from "../../test/support/left-clusters.ts";
import { cpuSeconds, residentMiB } from "../../test/support/process.ts";
import { cachedVersions, components, pidOf, startWithComponents } from "../../test/support/vclusters.ts";
import { etcdProgram } from "../support/etcd-program.ts";
import { median, rounded } from "../vm/numbers.ts";
import { bareStart } from "./bare.ts";
import { Clusters } from "./clusters.ts";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    defined: { type: "string", default: "1000" },
    hot: { type: "string", default: "20" },
    seconds: { type: "string", default: "30" },
    out: { type: "string", default: join(root, "bench/results") },
  },
});
const [rounds, defined, hot, seconds] = [options.rounds, options.defined, options.hot, options.seconds].map(
  Number,
) as [number, number, number, number];

const [version = ""] = cachedVersions();
const kubernetes = join(components, "kubernetes", version);
const { program: etcd, version: etcdVersion } = await etcdProgram();
if (version === "" || !existsSync(kubernetes))
  throw new Error("needs Kubernetes in this machine's cache: gpvectl component install kubernetes");

/** What is measured is shown at once, so that a failure later loses nothing. */
async function part<T>(what: string, work: () => Promise<T>): Promise<T> {
  console.error(what);
  const found = await work();
  console.error(JSON.stringify(found));
  return found;
}

async function creates(clusters: Clusters) {
  const [ours, bare]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    bare.push(await bareStart(kubernetes, etcd));
    ours.push(await clusters.create(`round${round}`));
    await clusters.remove(`round${round}`);
  }
  return { oursMs: median(ours), bareMs: median(bare), ratio: median(ours) / median(bare) };
}

async function temperatures(clusters: Clusters) {
  await clusters.create("nap");
  await sleep(15_000);
  const hotMiB = clusters.memoryMiB("nap");
  const [warm, cold]: [number[], number[]] = [[], []];
  let warmMiB = 0;
  for (let round = 0; round < rounds; round++) {
    await clusters.sleep("nap", "warm");
    warmMiB = clusters.memoryMiB("nap");
    warm.push(await clusters.wake("nap"));
    await clusters.until("nap", ({ power }) => power === "hot");
    await clusters.sleep("nap", "cold");
    cold.push(await clusters.wake("nap"));
    await clusters.until("nap", ({ power }) => power === "hot");
  }
  await clusters.remove("nap");
  return { hotMiB, warmMiB, warmMs: median(warm), coldMs: median(cold) };
}

async function many(clusters: Clusters) {
  const names = Array.from({ length: defined }, (_none, index) => `many${index}`);
  const agent = clusters.gpve.process.pid;
  const emptyMiB = residentMiB(agent);
  const begun = performance.now();
  for (const name of names.slice(0, hot)) await clusters.create(name);
  const hotMs = performance.now() - begun;
  console.error(`${hot} are hot after ${rounded(hotMs / 1000, 0)} s`);
  // They have never been started: a thousand starts would say nothing more than twenty.
  const asleep = names.slice(hot);
  const waiting = [...asleep];
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
        await clusters.create(name, { mode: "cold", fromStart: true });
        if (waiting.length % 100 === 0) console.error(`${waiting.length} are still to be defined`);
      }
    }),
  );
  const defineMsEach = (performance.now() - begun - hotMs) / Math.max(1, asleep.length);
  await sleep(15_000);
  const before = cpuSeconds(agent);
  await sleep(seconds * 1_000);
  const agentCpuPercent = (100 * (cpuSeconds(agent) - before)) / seconds;
  const [list, one, first, wake]: [number[], number[], number[], number[]] = [[], [], [], []];
  for (let round = 0; round < Math.max(rounds, 5); round++) {
    const at = performance.now();
    await clusters.ask("GET", "/vclusters");
    const listed = performance.now();
    await clusters.status(names[Math.floor(Math.random() * names.length)] ?? "");
    one.push(performance.now() - listed);
    list.push(listed - at);
    const name = asleep[Math.floor(Math.random() * asleep.length)];
    if (name === undefined) continue;
    for (const times of [first, wake]) {
      times.push(await clusters.wake(name));
      await clusters.until(name, ({ power }) => power === "hot");
      await clusters.sleep(name, "cold");
    }
  }
  return {
    hotMsEach: hotMs / hot,
    defineMsEach,
    listMs: median(list),
    oneMs: median(one),
    firstWakeMs: median(first),
    wakeMs: median(wake),
    agentMiB: residentMiB(agent),
    storeMiB: residentMiB(pidOf(clusters.gpve, "store")),
    hotMiB: names.slice(0, hot).reduce((sum, name) => sum + clusters.memoryMiB(name), 0) / hot,
    emptyMiB,
    agentCpuPercent,
  };
}

/** A process of its own: what this one measures is not to be in its way. */
async function store(): Promise<StoreFigures> {
  const script = join(root, "bench/store/run.ts");
  const args = ["--rounds", String(rounds), "--seconds", "3", "--out", options.out];
  await exec(process.execPath, ["--disable-warning=ExperimentalWarning", script, ...args], {
    timeoutMs: 1_800_000,
  });
  return JSON.parse(readFileSync(join(options.out, "store.json"), "utf8")) as StoreFigures;
}

interface StoreFigures {
  readonly etcdVersion: string;
  readonly rows: readonly {
    readonly clients: number;
    readonly ours: { readonly perSecond: number };
    readonly etcd: { readonly perSecond: number };
  }[];
  readonly idle: Readonly<
    Record<"ours" | "etcd", { readonly cpuPercent: number; readonly residentMiB: number }>
  >;
}

const gpve = await startWithComponents();
const clusters = new Clusters(gpve);
const load = loadavg()[0] ?? 0;
try {
  const created = await part("create, bare and ours in turn", () => creates(clusters));
  const temperature = await part("sleep and wake", () => temperatures(clusters));
  const stores = await part("the store beside an etcd", store);
  const crowd = await part(`${defined} defined, ${hot} of them hot`, () => many(clusters));
  const date = new Date().toISOString().slice(0, 10);
  const cores = availableParallelism();
  const text = [
    `Virtual clusters of Kubernetes ${version}; ${date}, ${cores} cores, other work kept the machine at a load of ${rounded(load, 0)} when this began.`,
    `\`npm run bench:vc -- --rounds ${rounds} --defined ${defined} --hot ${hot}\`; medians.`,
    "",
    "| what | ours | by hand | ratio |",
    "| --- | --- | --- | --- |",
    `| create until pods can be made, beside keys, etcd ${etcdVersion} and the same three programs with the same arguments | ${rounded(created.oursMs / 1000)} s | ${rounded(created.bareMs / 1000)} s | ${rounded(created.ratio)} |`,
    "",
    "| | hot | warm | cold |",
    "| --- | --- | --- | --- |",
    `| private memory of the control plane | ${temperature.hotMiB} MiB | ${temperature.warmMiB} MiB | 0 |`,
    `| until somebody who connects is answered | | ${rounded(temperature.warmMs, 0)} ms | ${rounded(temperature.coldMs, 0)} ms |`,
    "",
    `${defined} on one node, ${hot} of them hot and the others cold:`,
    "",
    "| what | value |",
    "| --- | --- |",
    `| create of one that is hot, each, one after the other | ${rounded(crowd.hotMsEach / 1000, 1)} s |`,
    `| create of one that is made asleep, each, four at a time | ${rounded(crowd.defineMsEach / 1000, 2)} s |`,
    `| list of all by API | ${rounded(crowd.listMs, 1)} ms |`,
    `| one by API | ${rounded(crowd.oneMs, 1)} ms |`,
    `| wake of a random one from cold | ${rounded(crowd.wakeMs, 0)} ms |`,
    `| first start of a random one that was made asleep | ${rounded(crowd.firstWakeMs, 0)} ms |`,
    `| private memory of each control plane that is hot | ${rounded(crowd.hotMiB, 0)} MiB |`,
    `| process of all stores: memory | ${rounded(crowd.storeMiB, 0)} MiB |`,
    `| server and agent: memory, and before the first | ${rounded(crowd.agentMiB, 0)} MiB, ${rounded(crowd.emptyMiB, 0)} MiB |`,
    `| server and agent: CPU | ${rounded(crowd.agentCpuPercent, 1)} % of a core |`,
    "",
    `The store behind them beside etcd ${stores.etcdVersion}, same disk, in turns ([store.md](store.md) has all columns):`,
    "",
    "| what | ours | etcd |",
    "| --- | --- | --- |",
    ...stores.rows.map(
      ({ clients, ours, etcd: other }) =>
        `| writes/s of ${clients} client${clients === 1 ? "" : "s"} | ${rounded(ours.perSecond, 0)} | ${rounded(other.perSecond, 0)} |`,
    ),
    `| idle with 60 watches: CPU of a core | ${rounded(stores.idle.ours.cpuPercent)} % | ${rounded(stores.idle.etcd.cpuPercent)} % |`,
    `| then: resident memory, of ours for all clusters of a node | ${rounded(stores.idle.ours.residentMiB, 0)} MiB | ${rounded(stores.idle.etcd.residentMiB, 0)} MiB each |`,
    "",
  ].join("\n");
  mkdirSync(options.out, { recursive: true });
  const report = { date, cores, load, version, rounds, defined, hot, created, temperature, stores, crowd };
  writeFileSync(join(options.out, "vc.json"), `${JSON.stringify(report, undefined, 2)}\n`);
  writeFileSync(join(options.out, "vc.md"), text);
  console.log(text);
} finally {
  await endClustersOf(gpve.data);
  await gpve.stop();
  rmSync(gpve.data, { recursive: true, force: true });
}
