import { rounded } from "../vm/numbers.ts";
import type {
  Circumstances,
  CreateFigures,
  CrowdFigures,
  Figures,
  SleepFigures,
  Spread,
  StoreFigures,
  Weight,
} from "./figures.ts";

/** What was measured, as a page. */
export function page({ create, sleep, store, crowd }: Figures): string {
  return [
    "Virtual clusters; `npm run bench:vc`, or one part of it (`-- --only create`, `sleep`, `store`, `crowd`). Medians.",
    ...(create === undefined ? [] : created(create)),
    ...(sleep === undefined ? [] : slept(sleep)),
    ...(store === undefined ? [] : stored(store)),
    ...(crowd === undefined ? [] : crowded(crowd)),
    "",
  ].join("\n");
}

function circumstances({ date, cores, load, version, rounds }: Circumstances): string {
  return `Kubernetes ${version}, ${rounds} rounds; ${date}, ${cores} cores, load ${rounded(load, 1)} when it began.`;
}

function created(figures: CreateFigures): readonly string[] {
  const { etcdVersion, oursMs, bareMs, ratio, coldMs, bareAgainMs, coldRatio } = figures;
  const s = (ms: number): string => `${rounded(ms / 1000)} s`;
  return [
    "",
    `Beside keys, etcd ${etcdVersion} and the same three programs with the same arguments, started one after the other by a script, in turns.`,
    circumstances(figures),
    "",
    "| what | ours | by hand | ratio |",
    "| --- | --- | --- | --- |",
    `| create, until pods can be made | ${s(oursMs)} | ${s(bareMs)} | ${rounded(ratio)} |`,
    `| wake from cold until a client that connects is answered; by hand: store and API server until ready | ${s(coldMs)} | ${s(bareAgainMs)} | ${rounded(coldRatio)} |`,
  ];
}

function slept(figures: SleepFigures): readonly string[] {
  return [
    "",
    `One that sleeps. ${circumstances(figures)}`,
    "",
    "| | hot | warm | cold |",
    "| --- | --- | --- | --- |",
    `| memory that the control plane has written to | ${figures.hotMiB} MiB | ${figures.warmMiB} MiB | 0 |`,
    `| until somebody who connects is answered | | ${rounded(figures.warmMs, 0)} ms | ${rounded(figures.coldMs, 0)} ms |`,
    ...(figures.swapMiB > 0
      ? []
      : ["", "This machine has no swap: what is warm takes no processor, and all of its memory."]),
  ];
}

function stored({ date, etcdVersion, rows, idle }: StoreFigures): readonly string[] {
  return [
    "",
    `The store behind them beside etcd ${etcdVersion}, same disk, in turns; ${date} ([store.md](store.md) has all columns):`,
    "",
    "| what | ours | etcd | ratio |",
    "| --- | --- | --- | --- |",
    ...rows.map(
      ({ clients, ours, etcd }) =>
        `| writes/s of ${clients} client${clients === 1 ? "" : "s"} | ${rounded(ours.perSecond, 0)} | ${rounded(etcd.perSecond, 0)} | ${rounded(ours.perSecond / etcd.perSecond)} |`,
    ),
    `| idle with 60 watches: CPU of a core | ${rounded(idle.ours.cpuPercent)} % | ${rounded(idle.etcd.cpuPercent)} % | |`,
    `| then: resident memory, of ours for all clusters of a node | ${rounded(idle.ours.residentMiB, 0)} MiB | ${rounded(idle.etcd.residentMiB, 0)} MiB each | |`,
  ];
}

function crowded(figures: CrowdFigures): readonly string[] {
  const { alone, crowd, empty, cold, busy } = figures;
  const ms = ({ p50, p99 }: Spread): string => `${rounded(p50, 1)} ms, ${rounded(p99, 1)} ms`;
  const answers = (what: string, own: Spread, beside: Spread): string =>
    `| ${what}: p50, p99 | ${ms(beside)} | ${ms(own)} | ${rounded(own.p50 / beside.p50, 1)} |`;
  const took = (what: string, own: number, beside: number): string =>
    `| ${what} | ${rounded(beside, 0)} ms | ${rounded(own, 0)} ms | ${rounded(own / beside)} |`;
  const weight = (what: string, of: (each: Weight) => number, unit: string, digits = 0): string =>
    `| ${what} | ${[empty, cold, busy].map((each) => `${rounded(of(each), digits)}${unit}`).join(" | ")} |`;
  const eachKiB = (of: (each: Weight) => number): number =>
    rounded(((of(cold) - of(empty)) * 1024) / figures.defined, 0);
  return [
    "",
    `${figures.defined} defined on one node, ${figures.hot} of them hot at the end and the others cold. ${circumstances(figures)}`,
    "",
    "| what | with one | with all | ratio |",
    "| --- | --- | --- | --- |",
    answers("one by API", crowd.one, alone.one),
    answers("list by API, a page of 50", crowd.page, alone.page),
    answers("list by API, all", crowd.list, alone.list),
    took("wake of a random one from cold", crowd.wakeMs, alone.wakeMs),
    took(
      "one more is defined, four at a time: the first hundred, the last",
      figures.lastDefineMs,
      figures.firstDefineMs,
    ),
    "",
    "| what a node gives | nothing defined | all defined and cold | some hot |",
    "| --- | --- | --- | --- |",
    weight("server and agent: resident memory", (each) => each.residentMiB, " MiB"),
    weight("server and agent: CPU of a core", (each) => each.cpuPercent, " %", 1),
    weight("process of all stores: memory", (each) => each.storeMiB, " MiB"),
    weight("process of all stores: CPU of a core", (each) => each.storeCpuPercent, " %", 1),
    weight("proxy: memory", (each) => each.proxyMiB, " MiB"),
    weight("proxy: CPU of a core", (each) => each.proxyCpuPercent, " %", 1),
    weight("descriptors of agent and proxy", (each) => each.descriptors + each.proxyDescriptors, ""),
    weight("the kernel's own memory, of the whole machine", (each) => each.kernelMiB, " MiB"),
    weight("network devices of the machine", (each) => each.devices, ""),
    "",
    "| of one | hot | warm | cold |",
    "| --- | --- | --- | --- |",
    `| memory | ${rounded(figures.hotMiB, 0)} MiB | ${rounded(figures.warmMiB, 0)} MiB | ${eachKiB((each) => each.residentMiB + each.proxyMiB)} KiB of agent and proxy, ${eachKiB((each) => each.kernelMiB)} KiB of the kernel |`,
    `| until somebody who connects is answered | ${ms(figures.kube)} | ${rounded(figures.warmMs, 0)} ms | ${rounded(crowd.wakeMs, 0)} ms; ${rounded(figures.firstWakeMs, 0)} ms where it was made asleep and starts for the first time |`,
    `| until it is there | ${rounded(figures.hotMsEach / 1000, 1)} s | | ${rounded(figures.defineMsEach / 1000, 2)} s |`,
  ];
}
