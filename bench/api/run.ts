// `npm run bench:api`: reads with 20 000 guests known, beside a bare Fastify handler in the same run.
// Both sides take turns under the same load from this process; the middle one of several rounds counts.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readFileSync } from "node:fs";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { apiOf, nodeBinary, root, startGpve, untilPrinted, type Gpve } from "../../test/support/gpve.ts";
import { cpuSeconds } from "../../test/support/process.ts";
import { dataDirWithGuests } from "../support/guests.ts";
import { load, type LoadOptions, type LoadResult, type Target } from "../support/load.ts";

const { values: options } = parseArgs({
  options: {
    guests: { type: "string", default: "20000" },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "4" },
    /** Only scenarios whose name contains this. */
    only: { type: "string", default: "" },
    out: { type: "string", default: join(root, "bench/results") },
  },
});
const GUESTS = Number(options.guests);
const ROUNDS = Number(options.rounds);
const SECONDS = Number(options.seconds);
const NODES = 20;
const POOL_GUESTS = 200;
const SAMPLE_CONFIGS = 1000;

interface Scenario {
  readonly name: string;
  readonly ours: { readonly path: () => string; readonly token: string };
  readonly bare: () => string;
  readonly load: Omit<LoadOptions, "seconds">;
}

interface Side {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly perSecond: number;
  /** CPU time of the server process for one request. */
  readonly cpuUs: number;
}

interface Row {
  readonly name: string;
  readonly load: string;
  readonly bytes: number;
  readonly ours: Side;
  readonly bare: Side;
  /** Below 1: ours is better. */
  readonly ratio: {
    readonly p50: number;
    readonly p99: number;
    readonly throughput: number;
    readonly cpu: number;
  };
}

interface Measured extends LoadResult {
  readonly cpuUs: number;
}

const scratch = mkdtempSync(join(tmpdir(), "gpve-bench-bare-"));
let gpve: Gpve | undefined;
let bare: Child | undefined;
try {
  console.error(`writing ${GUESTS} guests`);
  const data = await dataDirWithGuests(GUESTS, NODES);
  gpve = await startGpve({ data, args: ["--node", "node1"] });
  const rows = await measure(gpve);
  const report = {
    date: new Date().toISOString().slice(0, 10),
    machine: `${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? "?"}), ${Math.round(totalmem() / 2 ** 30)} GiB, load generator on the same machine`,
    guests: GUESTS,
    node: process.version,
    rows,
  };
  mkdirSync(options.out, { recursive: true });
  writeFileSync(join(options.out, "api.json"), `${JSON.stringify(report, undefined, 2)}\n`);
  writeFileSync(join(options.out, "api.md"), markdown(report));
  console.log(markdown(report));
  const slow = rows.filter((row) => row.ratio.p50 > 2 || row.ratio.throughput > 2);
  for (const row of slow) console.log(`MISSED: ${row.name} is more than 2 x bare`);
  process.exitCode = slow.length === 0 ? 0 : 1;
} finally {
  await bare?.stop();
  await gpve?.stop();
  rmSync(scratch, { recursive: true, force: true });
}

async function measure(server: Gpve): Promise<Row[]> {
  const api = apiOf(server.credentials);
  const rootToken = server.credentials.token;
  const limited = await userWithPool(server);
  const configs: Record<string, unknown> = {};
  const vmids = Array.from({ length: SAMPLE_CONFIGS }, (_, at) => 100 + at * NODES);
  for (const vmid of vmids) configs[vmid] = (await api("GET", `/nodes/node1/qemu/${vmid}/config`)).data;
  const limitedApi = apiOf({ ...server.credentials, token: limited });
  const lists = {
    "/all": (await api("GET", "/cluster/resources")).data as unknown[],
    "/mine": (await limitedApi("GET", "/cluster/resources?type=vm")).data as unknown[],
    "/node": (await api("GET", "/nodes/node1/qemu")).data as unknown[],
  };
  if (lists["/all"].length < GUESTS || lists["/mine"].length !== POOL_GUESTS) {
    throw new Error(`unexpected lists: ${lists["/all"].length}, ${lists["/mine"].length}`);
  }
  const rowsFile = join(scratch, "rows.json");
  writeFileSync(rowsFile, JSON.stringify({ lists, configs }));
  const pki = join(server.data, "pki");
  bare = startChild(nodeBinary, [
    join(root, "bench/api/bare-server.ts"),
    join(pki, "server.crt"),
    join(pki, "server.key"),
    rowsFile,
  ]);
  await untilPrinted(bare, "port ");
  const barePort = Number(/port (\d+)/.exec(bare.output())?.[1]);
  const any = (): number => vmids[Math.floor(Math.random() * vmids.length)] ?? 100;
  const prefix = "/api2/json";
  const config = { path: () => `${prefix}/nodes/node1/qemu/${any()}/config`, token: rootToken };
  const scenarios: Scenario[] = [
    {
      name: "one guest's config",
      ours: config,
      bare: () => `/config/${any()}`,
      load: { connections: 10 },
    },
    {
      name: "one guest's config, 500 req/s",
      ours: config,
      bare: () => `/config/${any()}`,
      load: { connections: 10, rate: 500 },
    },
    {
      name: `/cluster/resources?type=vm, ${POOL_GUESTS} of ${GUESTS} by a pool's ACL`,
      ours: { path: () => `${prefix}/cluster/resources?type=vm`, token: limited },
      bare: () => "/mine",
      load: { connections: 10 },
    },
    {
      name: `/nodes/{node}/qemu, ${lists["/node"].length} guests`,
      ours: { path: () => `${prefix}/nodes/node1/qemu`, token: rootToken },
      bare: () => "/node",
      load: { connections: 4 },
    },
    {
      name: `/cluster/resources, all ${GUESTS}`,
      ours: { path: () => `${prefix}/cluster/resources`, token: rootToken },
      bare: () => "/all",
      load: { connections: 2 },
    },
  ];
  const ca = readFileSync(server.credentials.caFile);
  const rows: Row[] = [];
  for (const scenario of scenarios.filter(({ name }) => name.includes(options.only))) {
    const ours: Target = {
      host: "127.0.0.1",
      port: Number(new URL(server.credentials.url).port),
      ca,
      path: scenario.ours.path,
      headers: { Authorization: `PVEAPIToken=${scenario.ours.token}` },
    };
    const theirs: Target = { ...ours, port: barePort, path: scenario.bare };
    rows.push(await compare(scenario, { ...ours, pid: server.process.pid }, { ...theirs, pid: bare.pid }));
    console.error(`${scenario.name}: ${JSON.stringify(rows.at(-1)?.ratio)}`);
  }
  return rows;
}

type Measurable = Target & { readonly pid: number };

async function loaded(target: Measurable, scenario: Scenario, seconds: number): Promise<Measured> {
  const before = cpuSeconds(target.pid);
  const result = await load(target, { ...scenario.load, seconds });
  return { ...result, cpuUs: ((cpuSeconds(target.pid) - before) * 1e6) / result.requests };
}

async function compare(scenario: Scenario, ours: Measurable, theirs: Measurable): Promise<Row> {
  for (const target of [ours, theirs]) await loaded(target, scenario, 2);
  const results: { ours: Measured[]; bare: Measured[] } = { ours: [], bare: [] };
  for (let round = 0; round < ROUNDS; round++) {
    results.ours.push(await loaded(ours, scenario, SECONDS));
    results.bare.push(await loaded(theirs, scenario, SECONDS));
  }
  const failures = [...results.ours, ...results.bare].reduce((sum, one) => sum + one.failures, 0);
  if (failures > 0) throw new Error(`${failures} answers of "${scenario.name}" were not 200`);
  const mine = middle(results.ours);
  const yard = middle(results.bare);
  const first = results.ours[0];
  return {
    name: scenario.name,
    load: `${scenario.load.connections} connections${scenario.load.rate === undefined ? "" : `, ${scenario.load.rate} req/s`}`,
    bytes: first === undefined ? 0 : Math.round(first.bytes / first.requests),
    ours: mine,
    bare: yard,
    ratio: {
      p50: rounded(mine.p50Ms / yard.p50Ms),
      p99: rounded(mine.p99Ms / yard.p99Ms),
      throughput: rounded(yard.perSecond / mine.perSecond),
      cpu: rounded(mine.cpuUs / yard.cpuUs),
    },
  };
}

function middle(results: readonly Measured[]): Side {
  const of = (pick: (one: Measured) => number): number =>
    rounded(results.map(pick).toSorted((a, b) => a - b)[Math.floor(results.length / 2)] ?? Number.NaN);
  return {
    p50Ms: of((r) => r.p50Ms),
    p99Ms: of((r) => r.p99Ms),
    perSecond: of((r) => r.perSecond),
    cpuUs: of((r) => r.cpuUs),
  };
}

function rounded(value: number): number {
  return Number(value.toPrecision(3));
}

/** A token of a user who may see one pool and nothing else. */
async function userWithPool(server: Gpve): Promise<string> {
  const api = apiOf(server.credentials);
  const step = async (
    method: string,
    path: string,
    params: Record<string, string | number>,
  ): Promise<unknown> => {
    const answer = await api(method, path, params);
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${answer.reason}`);
    return answer.data;
  };
  const every = Math.floor(GUESTS / POOL_GUESTS);
  const vms = Array.from({ length: POOL_GUESTS }, (_, at) => 100 + at * every).join(",");
  await step("POST", "/pools", { poolid: "bench" });
  await step("PUT", "/pools/bench", { vms });
  await step("POST", "/access/users", { userid: "bench@pve" });
  await step("PUT", "/access/acl", { path: "/pool/bench", users: "bench@pve", roles: "PVEVMUser" });
  const made = (await step("POST", "/access/users/bench@pve/token/read", { privsep: 0 })) as {
    value: string;
  };
  return `bench@pve!read=${made.value}`;
}

function markdown(report: {
  date: string;
  machine: string;
  guests: number;
  node: string;
  rows: readonly Row[];
}): string {
  const cell = (side: Side): string =>
    `${side.p50Ms} / ${side.p99Ms} ms, ${side.perSecond}/s, ${side.cpuUs} us`;
  return [
    `${report.guests} guests known; ${report.date}, ${report.machine}, Node ${report.node}.`,
    "Ratios are ours : bare Fastify (JSON.stringify on ready rows, same TLS and keep-alive); below 1 means ours is better.",
    "",
    "| read | load | body | CPU ratio | time ratio | p50 ratio | p99 ratio | ours p50 / p99 | bare p50 / p99 |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ...report.rows.map(
      ({ name, load: under, bytes, ratio, ours, bare: yard }) =>
        `| ${name} | ${under} | ${size(bytes)} | ${ratio.cpu} | ${ratio.throughput} | ${ratio.p50} | ${ratio.p99} | ${cell(ours)} | ${cell(yard)} |`,
    ),
    "",
  ].join("\n");
}

function size(bytes: number): string {
  return bytes < 10_000
    ? `${bytes} B`
    : bytes < 1e6
      ? `${Math.round(bytes / 1e3)} kB`
      : `${(bytes / 1e6).toFixed(1)} MB`;
}
