// `npm run bench:vc`: virtual clusters beside a bare start of the same programs in one run; sleep and wake; what each
// temperature takes; many of them on one node; the store beside a real etcd, as `npm run bench:store` does it. Each part is
// written when it is measured, so that `--only` measures one again.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { exec } from "@gpve/kit/exec.ts";
import { root } from "../../test/support/gpve.ts";
import { endClustersOf } from "../../test/support/left-clusters.ts";
import { cachedVersions, components, startWithComponents } from "../../test/support/vclusters.ts";
import { etcdProgram } from "../support/etcd-program.ts";
import { median } from "../vm/numbers.ts";
import { bareStart } from "./bare.ts";
import { Clusters } from "./clusters.ts";
import {
  type Circumstances,
  type CreateFigures,
  type Figures,
  type SleepFigures,
  type StoreFigures,
} from "./figures.ts";
import { crowd } from "./crowd.ts";
import { page } from "./page.ts";

const PARTS = ["create", "sleep", "store", "crowd"] as const;

const { values: options } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [...PARTS] },
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
const unknown = options.only.filter((name) => !PARTS.some((part) => part === name));
if (unknown.length > 0) throw new Error(`there is no part ${unknown.join(", ")}: ${PARTS.join(", ")}`);

const [version = ""] = cachedVersions();
const kubernetes = join(components, "kubernetes", version);
if (version === "" || !existsSync(kubernetes))
  throw new Error("needs Kubernetes in this machine's cache: gpvectl component install kubernetes");

const circumstances: Circumstances = {
  date: new Date().toISOString().slice(0, 10),
  cores: availableParallelism(),
  load: loadavg()[0] ?? 0,
  version,
  rounds,
};

async function creates(clusters: Clusters): Promise<CreateFigures> {
  const { program: etcd, version: etcdVersion } = await etcdProgram();
  const [ours, bare, cold, again]: [number[], number[], number[], number[]] = [[], [], [], []];
  for (let round = 0; round < rounds; round++) {
    const { createMs, againMs } = await bareStart(kubernetes, etcd);
    bare.push(createMs);
    again.push(againMs);
    const name = `round${round}`;
    ours.push(await clusters.create(name));
    await clusters.sleep(name, "cold");
    cold.push(await clusters.wake(name));
    await clusters.until(name, ({ power }) => power === "hot");
    await clusters.remove(name);
    console.error(JSON.stringify({ ours, bare, cold, again }));
  }
  return {
    ...circumstances,
    etcdVersion,
    oursMs: median(ours),
    bareMs: median(bare),
    ratio: median(ours) / median(bare),
    coldMs: median(cold),
    bareAgainMs: median(again),
    coldRatio: median(cold) / median(again),
  };
}

async function temperatures(clusters: Clusters): Promise<SleepFigures> {
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
  const swap = /^SwapTotal:\s+(\d+) kB/m.exec(readFileSync("/proc/meminfo", "utf8"));
  const swapMiB = Math.round(Number(swap?.[1] ?? 0) / 1024);
  return { ...circumstances, hotMiB, warmMiB, warmMs: median(warm), coldMs: median(cold), swapMiB };
}

/** A process of its own: what this one measures is not to be in its way. */
async function stores(): Promise<StoreFigures> {
  const script = join(root, "bench/store/run.ts");
  const args = ["--rounds", String(rounds), "--seconds", "3", "--out", options.out];
  await exec(process.execPath, ["--disable-warning=ExperimentalWarning", script, ...args], {
    timeoutMs: 1_800_000,
  });
  return JSON.parse(readFileSync(join(options.out, "store.json"), "utf8")) as StoreFigures;
}

/** With a gpve of its own, of which nothing is left. */
async function withClusters<T>(work: (clusters: Clusters) => Promise<T>): Promise<T> {
  const gpve = await startWithComponents();
  try {
    return await work(new Clusters(gpve));
  } finally {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  }
}

function write(measured: Figures): void {
  const file = join(options.out, "vc.json");
  const before = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Figures) : {};
  const all = { ...before, ...measured };
  mkdirSync(options.out, { recursive: true });
  writeFileSync(file, `${JSON.stringify(all, undefined, 2)}\n`);
  writeFileSync(join(options.out, "vc.md"), page(all));
}

for (const part of PARTS.filter((each) => options.only.includes(each))) {
  console.error(part);
  const measured: Figures =
    part === "store"
      ? { store: await stores() }
      : await withClusters(async (clusters) => {
          if (part === "create") return { create: await creates(clusters) };
          if (part === "sleep") return { sleep: await temperatures(clusters) };
          return { crowd: await crowd(clusters, circumstances, { defined, hot, rounds, seconds }) };
        });
  write(measured);
  console.error(JSON.stringify(measured));
}
console.log(readFileSync(join(options.out, "vc.md"), "utf8"));
