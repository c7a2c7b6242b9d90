import { AppError } from "@gpve/contracts/errors.ts";
import { nodeKind } from "@gpve/contracts/v1/kinds/node.ts";
import type { Fields } from "@gpve/contracts/v1/object.ts";
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../../node/collections.ts";
import { removeNode } from "../../node/remove-node.ts";
import { byName } from "../adapter.ts";
import type { KindAdapter, RawObject } from "../adapter.ts";

export interface NodeAdapterDeps {
  readonly board: NodeBoard;
  /** The node that is a part of this very process, if there is one. */
  readonly ownNode: () => string | undefined;
}

/** Joined nodes, with what they report: the record is from the store, the status from memory. */
export function nodeAdapter(deps: NodeAdapterDeps): KindAdapter {
  const raw = (entry: Entry<NodeRecord>): RawObject => ({
    name: entry.id,
    spec: entry.value.taints.length === 0 ? {} : { taints: [...entry.value.taints] },
    status: statusOf(entry.value, deps.board.get(entry.id)),
    labels: entry.value.labels,
    revision: entry.revision,
    createRevision: entry.createRevision,
    generation: entry.version,
    createdAt: entry.value.joinedAt,
  });
  return {
    kind: nodeKind,
    collections: [nodeRecords as CollectionDef<unknown>],
    list: (reader) => reader.list(nodeRecords).map(raw).toSorted(byName),
    get: (reader, name) => {
      const entry = reader.get(nodeRecords, name);
      return entry === undefined ? undefined : raw(entry);
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
        const taints = Array.isArray(spec["taints"]) ? spec["taints"].map(String) : [];
        tx.put(nodeRecords, name, { ...entry.value, labels: { ...labels }, taints });
      },
      remove: (tx, { name, force }) => removeNode(tx, { node: name, force, ownNode: deps.ownNode() }),
    },
  };
}

function statusOf(record: NodeRecord, view: NodeView | undefined): Fields {
  const facts = view?.facts;
  const usage = view?.report?.usage;
  return {
    health: view?.health ?? "unknown",
    address: record.address,
    certificateFingerprint: record.certFingerprint,
    ...(view === undefined || view.lastSeen <= 0 ? {} : { lastSeen: new Date(view.lastSeen).toISOString() }),
    ...(view?.report === undefined ? {} : { agentVersion: view.report.agentVersion }),
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
          gpus: facts.gpus.map(({ uuid, model }) => ({ uuid, model })),
          capabilities: facts.capabilities.map((capability) => ({ ...capability })),
          ...(facts.qemu === undefined ? {} : { qemuVersion: facts.qemu.version }),
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
