// Rows of /cluster/resources. A guest's row changes only when its record, its figures or its pool change; its JSON is
// kept until then, so that a list of 20 000 guests is a join of ready strings.
import { given } from "@gpve/contracts/given.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime, NodeBoard, NodeView, StorageRuntime } from "@gpve/domain/node/runtime.ts";
import { controlPlaneSizeOf } from "@gpve/domain/vcluster/control-plane-size.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { totalSize } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import { answeringNode, runtimeOn } from "../vcluster/replicas/replica-nodes.ts";

export type Row = Readonly<Record<string, unknown>>;

export function guestRow(
  guest: GuestRecord,
  runtime: GuestRuntime | undefined,
  nodeOnline: boolean,
  pool: string | undefined,
  hastate: string | undefined,
): Row {
  const { summary } = guest;
  return {
    id: `${guest.type}/${guest.vmid}`,
    type: guest.type,
    vmid: guest.vmid,
    node: guest.node,
    name: summary.name,
    status: nodeOnline ? (runtime?.status ?? "stopped") : "unknown",
    template: summary.template ? 1 : 0,
    uptime: runtime?.uptimeSeconds ?? 0,
    cpu: runtime?.cpu ?? 0,
    maxcpu: summary.cpus,
    mem: runtime?.mem ?? 0,
    maxmem: summary.maxmem,
    memhost: runtime?.memhost ?? 0,
    disk: 0,
    maxdisk: summary.maxdisk,
    diskread: runtime?.diskread ?? 0,
    diskwrite: runtime?.diskwrite ?? 0,
    netin: runtime?.netin ?? 0,
    netout: runtime?.netout ?? 0,
    ...given({ pool, tags: summary.tags, lock: summary.lock, hastate }),
  };
}

/** A type of its own, so that what lists guests does not take it for one. */
export function vclusterRow(record: VirtualClusterRecord, board: NodeBoard): Row {
  const { name, tenant, node, spec } = record;
  const key = keyOf(record);
  const answering = answeringNode(board, record);
  const running = runtimeOn(board, answering, key)?.phase === "Running" ? "running" : "stopped";
  const runtimes = nodesOf(record)
    .filter((each) => board.get(each)?.health === "online")
    .flatMap((each) => runtimeOn(board, each, key) ?? []);
  const sum = (value: (runtime: VirtualClusterRuntime) => number): number =>
    runtimes.reduce((all, runtime) => all + value(runtime), 0);
  const [control, workers] = [controlPlaneSizeOf(spec), totalSize(spec)];
  const maxcpu = control.cpus * spec.replicas + workers.cpus;
  return {
    id: `vcluster/${tenant}/${name}`,
    type: "vcluster",
    name,
    pool: tenant,
    node,
    status: board.get(answering)?.health === "online" ? running : "unknown",
    uptime: Math.max(0, ...runtimes.map(({ uptimeSeconds = 0 }) => uptimeSeconds)),
    cpu: sum(({ cores = 0 }) => cores) / maxcpu,
    maxcpu,
    mem: sum(usedBytes),
    maxmem: control.memoryBytes * spec.replicas + workers.memoryBytes,
    disk: 0,
    maxdisk: 0,
  };
}

/** On one node, with its workers there. */
function usedBytes({ memoryBytes = 0, vnodes = [] }: VirtualClusterRuntime): number {
  return vnodes.reduce((all, { usedBytes: used = 0 }) => all + used, memoryBytes);
}

/** Usage is shown only to those who may audit the node. */
export function nodeRow(view: NodeView, mayAudit: boolean): Row {
  const usage = nodeUsage(view, mayAudit);
  const base = { ...nodeWords(view), ...usage };
  return usage === undefined ? base : { ...base, "cgroup-mode": view.facts?.cgroupVersion ?? 2 };
}

/** The row of GET /nodes, with what it alone tells. */
export function nodeListRow(view: NodeView, fingerprint: string, mayAudit: boolean): Row {
  return { ...nodeWords(view), ssl_fingerprint: fingerprint, ...nodeUsage(view, mayAudit) };
}

function nodeWords({ node, health }: NodeView): Row {
  return { id: `node/${node}`, type: "node", node, status: health, level: "" };
}

function nodeUsage(view: NodeView, mayAudit: boolean): Row | undefined {
  const usage = view.report?.usage;
  if (!mayAudit || usage === undefined || view.health !== "online") return undefined;
  return {
    cpu: usage.cpu,
    maxcpu: view.facts?.cpu.cpus ?? 0,
    mem: usage.memory.used,
    maxmem: usage.memory.total,
    disk: usage.rootfs.used,
    maxdisk: usage.rootfs.total,
    uptime: Math.floor(usage.uptimeSeconds),
  };
}

export interface StorageListing {
  readonly storage: string;
  readonly type: string;
  readonly content: string;
  readonly shared: boolean;
  /** Absent: every node has it. */
  readonly nodes?: readonly string[];
}

export function storageRow(
  node: string,
  definition: StorageListing,
  runtime: StorageRuntime | undefined,
  nodeOnline: boolean,
): Row {
  const available = nodeOnline && runtime?.active === true;
  return {
    id: `storage/${node}/${definition.storage}`,
    type: "storage",
    storage: definition.storage,
    node,
    plugintype: definition.type,
    content: definition.content,
    shared: definition.shared ? 1 : 0,
    status: available ? "available" : "unknown",
    ...(available ? { disk: runtime.usedBytes, maxdisk: runtime.totalBytes } : {}),
  };
}

/** Of the guests that run in a pool. */
export interface PoolUsage {
  /** Of the one that runs longest. */
  readonly uptime: number;
  readonly mem: number;
  readonly maxmem: number;
  /** Share of `maxcpu`. */
  readonly cpu: number;
  readonly maxcpu: number;
}

export function addToPool(usage: PoolUsage | undefined, guest: Row): PoolUsage {
  const { uptime = 0, mem = 0, maxmem = 0, cpu = 0, maxcpu = 0 } = usage ?? {};
  const cpus = maxcpu + Number(guest["maxcpu"]);
  return {
    uptime: Math.max(uptime, Number(guest["uptime"])),
    mem: mem + Number(guest["mem"]),
    maxmem: maxmem + Number(guest["maxmem"]),
    cpu: (cpu * maxcpu + Number(guest["cpu"]) * Number(guest["maxcpu"])) / cpus,
    maxcpu: cpus,
  };
}

export function poolRow(pool: string, usage?: PoolUsage): Row {
  return { id: `/pool/${pool}`, type: "pool", pool, ...usage };
}
