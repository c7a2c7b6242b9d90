// Workers in groups: those of the cluster itself, and pools of others with sizes, labels and taints of their own.
import { formatQuantity } from "../../vm/spec/quantity.ts";
import { given } from "@gpve/contracts/given.ts";
import { type Fields, fieldsOf } from "@gpve/contracts/json-object.ts";
import { type DeviceCounts, readDeviceCounts, shownDeviceCounts } from "../devices/worker-devices.ts";
import { invalidSpec } from "../invalid-spec.ts";
import { type KeptVnode, type VnodeSize, type VnodeTaint, vnodeName } from "./vnode.ts";

export interface WorkerPool {
  readonly name: string;
  readonly count: number;
  /** Of each worker. */
  readonly size: VnodeSize;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly VnodeTaint[];
  /** Of each worker; absent: none. */
  readonly devices?: DeviceCounts;
}

/** Of a cluster's spec, what is about its workers. */
interface Grouped {
  readonly workers: number;
  readonly pools?: readonly WorkerPool[];
}
export interface Sized extends Grouped {
  readonly workerSize: VnodeSize;
  readonly devices?: DeviceCounts;
}

const EFFECTS: readonly string[] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const KEY = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/;
const VALUE = /^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/;
/** What kubelets and gpve itself say of a worker. */
const OURS = /^(?:node\.gpve\.io|(?:[a-z0-9-]+\.)*kubernetes\.io|(?:[a-z0-9-]+\.)*k8s\.io)\//;
const ROLE = /^node-role\.kubernetes\.io\//;

export interface ReadPoolWith {
  readonly count: (field: string, value: unknown) => number;
  readonly size: (field: string, resources: Fields) => VnodeSize;
}

/** undefined = there are none. */
export function readPools(value: unknown, { count, size }: ReadPoolWith): Pick<Grouped, "pools"> {
  if (value === undefined) return {};
  if (!Array.isArray(value)) throw invalidSpec("workerNodes.pools", "must be a list of pools");
  const pools = (value as readonly unknown[]).map((each, at): WorkerPool => {
    const field = (name: string): string => `workerNodes.pools[${at}].${name}`;
    const pool = fieldsOf(each);
    const name = textOf(pool["name"], "");
    if (!/^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$/.test(name) || name === "worker")
      throw invalidSpec(
        field("name"),
        `'${name}' is no name of a pool: small letters, digits and -, and not 'worker'`,
      );
    return {
      name,
      count: count(field("count"), pool["count"]),
      size: size(field("resources"), fieldsOf(pool["resources"])),
      labels: readLabels(field("labels"), pool["labels"]),
      taints: readTaints(field("taints"), pool["taints"]),
      ...given({ devices: readDeviceCounts(field("devices"), pool["devices"]) }),
    };
  });
  const twice = pools.find(({ name }, at) => pools.findIndex((each) => each.name === name) !== at);
  if (twice !== undefined) throw invalidSpec("workerNodes.pools", `has '${twice.name}' twice`);
  // `a` with its worker 1-1 and `a-1` with its worker 1 would be the same node.
  const clash = pools.find(({ name }) => pools.some((each) => name.startsWith(`${each.name}-`)));
  if (clash !== undefined)
    throw invalidSpec(
      "workerNodes.pools",
      `the name '${clash.name}' begins as that of another pool and its workers`,
    );
  return pools.length === 0 ? {} : { pools };
}

export function shownPools({ pools }: Pick<Grouped, "pools">): Fields {
  if (pools === undefined) return {};
  return {
    pools: pools.map(({ name, count, size, labels, taints, devices }) => ({
      name,
      count,
      resources: { cpu: String(size.cpus), memory: formatQuantity(size.memoryBytes) },
      labels: { ...labels },
      taints: taints.map((taint) => ({ ...taint })),
      ...shownDeviceCounts(given({ devices })),
    })),
  };
}

/** Of all groups. */
export function totalWorkers({ workers, pools = [] }: Grouped): number {
  return pools.reduce((sum, { count }) => sum + count, workers);
}

/** CPUs and memory of all of them. */
export function totalSize({ workers, workerSize, pools = [] }: Sized): VnodeSize {
  const groups = [{ count: workers, size: workerSize }, ...pools];
  return {
    // Thousandths, as Kubernetes counts them: a sum of fractions must not miss its bound by a rounding.
    cpus: Math.round(groups.reduce((sum, { count, size }) => sum + count * size.cpus, 0) * 1000) / 1000,
    memoryBytes: groups.reduce((sum, { count, size }) => sum + count * size.memoryBytes, 0),
  };
}

/** How many are in a pool; undefined = those of the cluster itself. */
export function workersIn(spec: Grouped, pool: string | undefined): number {
  if (pool === undefined) return spec.workers;
  return found(spec, pool).count;
}

export function withWorkers<Spec extends Grouped>(spec: Spec, pool: string | undefined, count: number): Spec {
  if (pool === undefined) return { ...spec, workers: count };
  found(spec, pool);
  return {
    ...spec,
    pools: (spec.pools ?? []).map((each) => (each.name === pool ? { ...each, count } : each)),
  };
}

/** All that a cluster shall have. Those that are there keep their places, others get the first that are free. */
export function wantedVnodes(spec: Sized, kept: readonly KeptVnode[]): readonly KeptVnode[] {
  const named = (
    count: number,
    name: (at: number) => string,
    more: Omit<KeptVnode, "slot" | "name" | "isWanted">,
  ) => Array.from({ length: count }, (_none, at) => ({ ...more, name: name(at) }));
  const all = [
    ...named(spec.workers, vnodeName, { size: spec.workerSize, ...given({ devices: spec.devices }) }),
    ...(spec.pools ?? []).flatMap(({ name, count, size, labels, taints, devices }) =>
      named(count, (at) => `${name}-${at + 1}`, { size, pool: name, labels, taints, ...given({ devices }) }),
    ),
  ];
  const taken = new Set(kept.map(({ slot }) => slot));
  const free = (): number => {
    let slot = 0;
    while (taken.has(slot)) slot++;
    taken.add(slot);
    return slot;
  };
  return all
    .map((vnode) => ({
      ...vnode,
      slot: kept.find(({ name }) => name === vnode.name)?.slot ?? free(),
      isWanted: true,
    }))
    .toSorted((a, b) => a.slot - b.slot);
}

/** Those that are there and shall not be. */
export function extraVnodes(spec: Sized, kept: readonly KeptVnode[]): readonly KeptVnode[] {
  const wanted = new Set(wantedVnodes(spec, kept).map(({ name }) => name));
  return kept.filter(({ name }) => !wanted.has(name));
}

function found({ pools = [] }: Pick<Grouped, "pools">, pool: string): WorkerPool {
  const wanted = pools.find(({ name }) => name === pool);
  if (wanted !== undefined) return wanted;
  const known = pools.map(({ name }) => name).join(", ") || "none";
  throw invalidSpec("workerNodes.pools", `there is no pool '${pool}'; there is: ${known}`);
}

function readLabels(field: string, value: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(fieldsOf(value)).map(([key, text]) => [key, String(text)] as const);
  for (const [key, text] of entries) {
    if (!KEY.test(key) || !VALUE.test(text)) throw invalidSpec(field, `'${key}: ${text}' is no label`);
    if (OURS.test(key) && !ROLE.test(key)) throw invalidSpec(field, `'${key}' is said by the worker itself`);
  }
  return Object.fromEntries(entries);
}

function readTaints(field: string, value: unknown): readonly VnodeTaint[] {
  return (Array.isArray(value) ? (value as readonly unknown[]) : []).map((each) => {
    const taint = fieldsOf(each);
    const [key, effect] = [textOf(taint["key"], ""), textOf(taint["effect"], "NoSchedule")];
    const text = taint["value"] === undefined ? undefined : textOf(taint["value"], "/");
    if (!KEY.test(key) || !VALUE.test(text ?? "")) throw invalidSpec(field, `'${key}' is no key of a taint`);
    if (!EFFECTS.includes(effect)) throw invalidSpec(field, `effect must be one of ${EFFECTS.join(", ")}`);
    return { key, effect, ...given({ value: text }) };
  });
}

/** What is said and is no text is as wrong as an empty one. */
function textOf(value: unknown, otherwise: string): string {
  if (value === undefined) return otherwise;
  return typeof value === "string" ? value : "";
}
