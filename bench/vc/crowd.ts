// Many clusters on one node, most of which sleep: what the API, the node and a wake cost, beside the same gpve when it had one.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { cpuSeconds, residentMiB } from "../../test/support/process.ts";
import { pidOf } from "../../test/support/vclusters.ts";
import { median } from "../vm/numbers.ts";
import type { Clusters } from "./clusters.ts";
import { type Answers, type Circumstances, type CrowdFigures, spread, type Weight } from "./figures.ts";

export interface CrowdOptions {
  readonly defined: number;
  readonly hot: number;
  readonly rounds: number;
  /** How long processors are watched. */
  readonly seconds: number;
}

const ASKED = 200;
/** How many are asked for at once. */
const AT_ONCE = 4;
const SETTLE_MS = 15_000;
const ALONE = "many0";

export async function crowd(
  clusters: Clusters,
  circumstances: Circumstances,
  { defined, hot, rounds, seconds }: CrowdOptions,
): Promise<CrowdFigures> {
  const names = Array.from({ length: defined }, (_none, index) => `many${index}`);
  const [awake, asleep] = [names.slice(0, hot), names.slice(hot)];
  await sleep(SETTLE_MS);
  const empty = await weigh(clusters, seconds);
  await clusters.create(ALONE);
  const alone = { ...(await answers(clusters, [ALONE])), wakeMs: await wakes(clusters, [ALONE], rounds) };
  console.error(JSON.stringify({ empty, alone }));
  // They have never been started: a thousand starts would say nothing more than twenty.
  const defines = await define(clusters, asleep);
  await sleep(SETTLE_MS);
  const cold = await weigh(clusters, seconds);
  console.error(JSON.stringify({ cold, defineMs: median(defines) }));
  await clusters.wake(ALONE);
  const begun = performance.now();
  for (const name of awake.slice(1)) await clusters.create(name);
  const hotMsEach = (performance.now() - begun) / Math.max(1, awake.length - 1);
  await sleep(SETTLE_MS);
  const busy = await weigh(clusters, seconds);
  const hotMiB = awake.reduce((sum, name) => sum + clusters.memoryMiB(name), 0) / awake.length;
  const asked = await answers(clusters, names);
  const kube: number[] = [];
  for (let each = 0; each < ASKED; each++) {
    const { endpoint } = await clusters.status(anyOf(awake));
    kube.push(await took(() => clusters.answered(endpoint)));
  }
  const firsts: number[] = [];
  const begins: string[] = [];
  for (let round = 0; round < rounds; round++) {
    const name = anyOf(asleep.filter((each) => !begins.includes(each)));
    begins.push(name);
    firsts.push(await clusters.wake(name));
    await clusters.until(name, ({ power }) => power === "hot");
    await clusters.sleep(name, "cold");
  }
  const wakeMs = await wakes(clusters, begins, rounds);
  const [warm, warmMiB]: [number[], number[]] = [[], []];
  for (const name of awake.slice(0, rounds)) {
    await clusters.sleep(name, "warm");
    warmMiB.push(clusters.memoryMiB(name));
    warm.push(await clusters.wake(name));
    await clusters.until(name, ({ power }) => power === "hot");
  }
  const average = (values: readonly number[]): number =>
    values.reduce((sum, each) => sum + each, 0) / values.length;
  return {
    ...circumstances,
    defined,
    hot,
    hotMsEach,
    defineMsEach: average(defines) / AT_ONCE,
    firstDefineMs: median(defines.slice(0, 100)),
    lastDefineMs: median(defines.slice(-100)),
    alone,
    crowd: { ...asked, wakeMs },
    kube: spread(kube),
    firstWakeMs: median(firsts),
    warmMs: median(warm),
    empty,
    cold,
    busy,
    hotMiB,
    warmMiB: average(warmMiB),
  };
}

/** Milliseconds of each, in the order in which they were begun. */
async function define(clusters: Clusters, names: readonly string[]): Promise<readonly number[]> {
  const waiting = [...names];
  const times: number[] = [];
  const one = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      times.push(await clusters.create(name, { mode: "cold", fromStart: true }));
      if (waiting.length % 100 === 0) console.error(`${waiting.length} are still to be defined`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return times;
}

async function answers(clusters: Clusters, names: readonly string[]): Promise<Answers> {
  const [list, page, one]: [number[], number[], number[]] = [[], [], []];
  for (let each = 0; each < ASKED; each++) {
    list.push(await took(() => clusters.ask("GET", "/vclusters")));
    page.push(await took(() => clusters.ask("GET", "/vclusters?limit=50")));
    one.push(await took(() => clusters.status(anyOf(names))));
  }
  return { list: spread(list), page: spread(page), one: spread(one) };
}

/** Milliseconds from cold, of any of these. */
async function wakes(clusters: Clusters, names: readonly string[], rounds: number): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const name = anyOf(names);
    await clusters.sleep(name, "cold");
    times.push(await clusters.wake(name));
    await clusters.until(name, ({ power }) => power === "hot");
  }
  for (const name of names) await clusters.sleep(name, "cold");
  return median(times);
}

async function weigh({ gpve }: Clusters, seconds: number): Promise<Weight> {
  const pids = [gpve.process.pid, sharedPid(gpve, "store"), sharedPid(gpve, "proxy")];
  const used = (): number[] => pids.map((pid) => (pid === undefined ? 0 : cpuSeconds(pid)));
  const before = used();
  await sleep(seconds * 1_000);
  const [cpuPercent = 0, storeCpuPercent = 0, proxyCpuPercent = 0] = used().map(
    (now, at) => (100 * (now - (before[at] ?? 0))) / seconds,
  );
  const [residentMib = 0, storeMiB = 0, proxyMiB = 0] = pids.map((pid) =>
    pid === undefined ? 0 : residentMiB(pid),
  );
  const [descriptors = 0, , proxyDescriptors = 0] = pids.map((pid) =>
    pid === undefined ? 0 : readdirSync(`/proc/${pid}/fd`).length,
  );
  return {
    residentMiB: residentMib,
    cpuPercent,
    descriptors,
    storeMiB,
    storeCpuPercent,
    proxyMiB,
    proxyCpuPercent,
    proxyDescriptors,
    kernelMiB: kernelMiB(),
    devices: readdirSync("/sys/class/net").length,
  };
}

/** undefined = no cluster has it yet. */
function sharedPid(gpve: Clusters["gpve"], id: "store" | "proxy"): number | undefined {
  try {
    return pidOf(gpve, id);
  } catch {
    return undefined;
  }
}

function kernelMiB(): number {
  const text = readFileSync("/proc/meminfo", "utf8");
  const parts = ["SUnreclaim", "KernelStack", "PageTables", "Percpu", "VmallocUsed"];
  const kib = parts.map((part) => Number(new RegExp(`^${part}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0));
  return kib.reduce((sum, each) => sum + each, 0) / 1024;
}

function anyOf(some: readonly string[]): string {
  return some[Math.floor(Math.random() * some.length)] ?? "";
}

async function took(work: () => Promise<unknown>): Promise<number> {
  const at = performance.now();
  await work();
  return performance.now() - at;
}
