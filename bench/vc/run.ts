// `npm run bench:vc`: virtual clusters beside a bare start of the same programs in one run; sleep and wake; what each
// temperature takes; many of them on one node. The store beside a real etcd is `npm run bench:store`.
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { root } from "../../test/support/gpve.ts";
import { endClustersOf } from "../../test/support/left-clusters.ts";
import { cpuSeconds, residentMiB } from "../../test/support/process.ts";
import { cachedVersions, components, startWithComponents } from "../../test/support/vclusters.ts";
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
const [etcdVersion] = cachedVersions("etcd");
const etcd = etcdVersion === undefined ? "/usr/bin/etcd" : join(components, "etcd", etcdVersion, "etcd");
if (version === "" || !existsSync(etcd))
  throw new Error("needs Kubernetes and etcd in this machine's cache: gpvectl component install …");

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
  for (const [index, name] of names.entries()) {
    await clusters.create(name);
    if (index >= hot) await clusters.sleep(name, "cold");
    if (index % 50 === 49) console.error(`${index + 1} of ${defined}`);
  }
  const createMsEach = (performance.now() - begun) / defined;
  await sleep(15_000);
  const before = cpuSeconds(agent);
  await sleep(seconds * 1_000);
  const agentCpuPercent = (100 * (cpuSeconds(agent) - before)) / seconds;
  const [list, one, wake]: [number[], number[], number[]] = [[], [], []];
  const asleep = names.slice(hot);
  for (let round = 0; round < Math.max(rounds, 5); round++) {
    const at = performance.now();
    await clusters.ask("GET", "/vclusters");
    const listed = performance.now();
    await clusters.status(names[Math.floor(Math.random() * names.length)] ?? "");
    one.push(performance.now() - listed);
    list.push(listed - at);
    const name = asleep[Math.floor(Math.random() * asleep.length)];
    if (name === undefined) continue;
    wake.push(await clusters.wake(name));
    await clusters.until(name, ({ power }) => power === "hot");
    await clusters.sleep(name, "cold");
  }
  return {
    createMsEach,
    listMs: median(list),
    oneMs: median(one),
    wakeMs: median(wake),
    agentMiB: residentMiB(agent),
    emptyMiB,
    agentCpuPercent,
  };
}

const gpve = await startWithComponents();
const clusters = new Clusters(gpve);
const load = loadavg()[0] ?? 0;
try {
  const created = await part("create, bare and ours in turn", () => creates(clusters));
  const temperature = await part("sleep and wake", () => temperatures(clusters));
  const crowd = await part(`${defined} defined, ${hot} of them hot`, () => many(clusters));
  const date = new Date().toISOString().slice(0, 10);
  const cores = availableParallelism();
  const text = [
    `Virtual clusters of Kubernetes ${version}; ${date}, ${cores} cores, other work kept the machine at a load of ${rounded(load, 0)} when this began.`,
    `\`npm run bench:vc -- --rounds ${rounds} --defined ${defined} --hot ${hot}\`; medians.`,
    "",
    "| what | ours | by hand | ratio |",
    "| --- | --- | --- | --- |",
    `| create until pods can be made, beside keys, etcd ${etcdVersion ?? "of Debian"} and the same three programs with the same arguments | ${rounded(created.oursMs / 1000)} s | ${rounded(created.bareMs / 1000)} s | ${rounded(created.ratio)} |`,
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
    `| create, and put to sleep where it sleeps, each | ${rounded(crowd.createMsEach / 1000, 1)} s |`,
    `| list of all by API | ${rounded(crowd.listMs, 1)} ms |`,
    `| one by API | ${rounded(crowd.oneMs, 1)} ms |`,
    `| wake of a random one from cold | ${rounded(crowd.wakeMs, 0)} ms |`,
    `| server and agent: memory, and before the first | ${rounded(crowd.agentMiB, 0)} MiB, ${rounded(crowd.emptyMiB, 0)} MiB |`,
    `| server and agent: CPU | ${rounded(crowd.agentCpuPercent, 1)} % of a core |`,
    "",
    "The store behind them beside a real etcd is measured by `npm run bench:store` ([store.md](store.md)).",
    "",
  ].join("\n");
  mkdirSync(options.out, { recursive: true });
  const report = { date, cores, load, version, rounds, defined, hot, created, temperature, crowd };
  writeFileSync(join(options.out, "vc.json"), `${JSON.stringify(report, undefined, 2)}\n`);
  writeFileSync(join(options.out, "vc.md"), text);
  console.log(text);
} finally {
  await endClustersOf(gpve.data);
  await gpve.stop();
  rmSync(gpve.data, { recursive: true, force: true });
}
