import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { nodeKind } from "@gpve/contracts/v1/kinds/node.ts";
import type { ConditionStatus } from "@gpve/domain/condition/condition-times.ts";
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../../node/collections.ts";
import { removeNode } from "../../node/remove-node.ts";
import { isInMaintenance, managerCollection } from "@gpve/domain/ha/collections.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { nodeConditions, nodePhase } from "@gpve/domain/node/node-conditions.ts";
import { nodeResources, type NodeResources, type NodeTenant } from "@gpve/domain/node/node-resources.ts";
import { clusterShares } from "@gpve/domain/vcluster/cluster-shares.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { formatTaint, parseTaint, type Taint } from "@gpve/domain/node/taint.ts";
import { byName, type KindAdapter, type RawObject, type Reader } from "../adapter.ts";

export interface NodeAdapterDeps {
  readonly board: NodeBoard;
  /** The node that is a part of this very process, if there is one. */
  readonly ownNode: () => string | undefined;
  /** Since when each condition is as it is, milliseconds since the epoch. */
  readonly conditionTimes: ConditionClock;
}

export interface ConditionClock {
  since(node: string, type: string, status: ConditionStatus): number;
}

/** Joined nodes, with what they report: the record is from the store, the status from memory. */
export function nodeAdapter(deps: NodeAdapterDeps): KindAdapter {
  const raw = (reader: Reader, entry: Entry<NodeRecord>): RawObject => ({
    name: entry.id,
    spec: {
      ...(entry.value.unschedulable === true ? { unschedulable: true } : {}),
      ...(entry.value.taints.length === 0
        ? {}
        : { taints: entry.value.taints.map((taint) => ({ ...parseTaint(taint) })) }),
    },
    status: statusOf(
      entry.value,
      deps.board.get(entry.id),
      runningOn(reader, deps.board.get(entry.id)),
      deps.conditionTimes,
      isInMaintenance(entry.id, { get: (id) => reader.get(managerCollection, id) }),
    ),
    labels: entry.value.labels,
    revision: entry.revision,
    createRevision: entry.createRevision,
    generation: entry.version,
    createdAt: entry.value.joinedAt,
  });
  return {
    kind: nodeKind,
    collections: [nodeRecords, guestCollection, vclusterCollection, managerCollection].map(
      (each) => each as CollectionDef<unknown>,
    ),
    list: (reader) =>
      reader
        .list(nodeRecords)
        .map((entry) => raw(reader, entry))
        .toSorted(byName),
    get: (reader, name) => {
      const entry = reader.get(nodeRecords, name);
      return entry === undefined ? undefined : raw(reader, entry);
    },
    onChange: (records, changed) => records.collection(nodeRecords).onChange((id) => changed([id])),
    write: {
      ownsLabels: true,
      put: (tx, { name, spec, labels }) => {
        const entry = tx.get(nodeRecords, name);
        if (entry === undefined) {
          throw new AppError(
            "request.invalid",
            `node '${name}' is not in the cluster: nodes come by joining, not by applying`,
          );
        }
        const { unschedulable: _before, ...record } = entry.value;
        const asked = (spec["taints"] ?? []) as readonly (string | Taint)[];
        const taints = asked.map((taint) =>
          formatTaint(typeof taint === "string" ? parseTaint(taint) : taint),
        );
        const cordon = spec["unschedulable"] === true ? { unschedulable: true as const } : {};
        tx.put(nodeRecords, name, {
          ...record,
          labels: { ...labels },
          taints: [...new Set(taints)],
          ...cordon,
        });
      },
      remove: (tx, { name, force }) => removeNode(tx, { node: name, force, ownNode: deps.ownNode() }),
    },
  };
}

function statusOf(
  record: NodeRecord,
  view: NodeView | undefined,
  running: readonly NodeTenant[],
  times: ConditionClock,
  inMaintenance: boolean,
): Fields {
  const facts = view?.facts;
  const resources = nodeResources(view, running);
  const usage = view?.report?.usage;
  return {
    phase: nodePhase(view),
    conditions: nodeConditions(view).map((condition) => ({
      ...condition,
      ...sinceOf(times, record.name, condition),
    })),
    ...(resources === undefined ? {} : fieldsOf(resources)),
    health: view?.health ?? "unknown",
    scheduling: inMaintenance ? "maintenance" : record.unschedulable === true ? "cordoned" : "open",
    address: record.address,
    certificateFingerprint: record.certFingerprint,
    ...(view === undefined || view.lastSeen <= 0 ? {} : { lastSeen: new Date(view.lastSeen).toISOString() }),
    ...given({
      agentVersion: view?.software?.version ?? view?.report?.agentVersion,
      agentProtocol: view?.software?.protocol,
    }),
    ...(facts === undefined
      ? {}
      : {
          accelerator: facts.accelerator,
          kernel: facts.kernel.release,
          osImage: facts.osImage,
          cpu: {
            model: facts.cpu.model,
            sockets: facts.cpu.sockets,
            cores: facts.cpu.cores,
            cpus: facts.cpu.cpus,
          },
          cgroupVersion: facts.cgroupVersion,
          bridges: [...facts.bridges],
          systemInfo: {
            hostname: facts.hostname,
            architecture: facts.kernel.machine,
            kernel: facts.kernel.release,
            osImage: facts.osImage,
            ...given({ qemuVersion: facts.qemu?.version }),
            containerRuntime: "none",
          },
          gpus: facts.gpus.map((gpu) => ({ ...gpu })),
          ...given({ devices: facts.devices?.map((device) => ({ ...device })) }),
          capabilities: facts.capabilities.map((capability) => ({ ...capability })),
          ...given({ qemuVersion: facts.qemu?.version }),
        }),
    ...(usage === undefined
      ? {}
      : {
          usage: {
            cpu: usage.cpu,
            loadavg: [...usage.loadavg],
            memory: { total: usage.memory.total, used: usage.memory.used, free: usage.memory.free },
            swap: { ...usage.swap },
            rootfs: { total: usage.rootfs.total, used: usage.rootfs.used, free: usage.rootfs.free },
            uptimeSeconds: usage.uptimeSeconds,
          },
        }),
  };
}

/** When a condition of a node came to the status it has. */
export function sinceOf(
  times: ConditionClock,
  node: string,
  { type, status }: { readonly type: string; readonly status: ConditionStatus },
): { readonly lastTransitionTime: string } {
  return { lastTransitionTime: new Date(times.since(node, type, status)).toISOString() };
}

function fieldsOf({ capacity, allocatable, allocated }: NodeResources): Fields {
  const shown = (resources: NodeResources["capacity"]): Fields => ({
    ...resources,
    storage: { ...resources.storage },
  });
  return { capacity: shown(capacity), allocatable: shown(allocatable), allocated: shown(allocated) };
}

function runningOn(reader: Reader, view: NodeView | undefined): readonly NodeTenant[] {
  const shares = reader
    .list(vclusterCollection)
    .flatMap(({ value }) => clusterShares(value))
    .filter(({ node }) => node === view?.node)
    .map(({ request: { demand } }) => ({ cpus: demand.cpu, maxmem: demand.memory, gpus: 0 }));
  const guests = (view?.report?.guests ?? []).flatMap(({ vmid, status }) => {
    const guest = status === "running" ? reader.get(guestCollection, String(vmid))?.value : undefined;
    if (guest === undefined) return [];
    const { cpus, maxmem } = guest.summary;
    return [{ cpus, maxmem, gpus: view?.facts?.gpus.length === 0 ? 0 : passedThrough(guest.conf) }];
  });
  return [...guests, ...shares];
}

/** Devices of the host that the current configuration names. */
function passedThrough(conf: string): number {
  const current = conf.split(/^\[/m, 1)[0] ?? "";
  return current.match(/^hostpci\d+:/gm)?.length ?? 0;
}
