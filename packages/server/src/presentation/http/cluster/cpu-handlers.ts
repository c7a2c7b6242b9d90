// What QEMU can give guests: CPU types and flags, machines, and the cluster's own CPU models.
import { missing } from "@gpve/domain/request/failures.ts";
import type { NodeBoard, NodeFacts } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import { builtinCpuTypes, cpuModelsOf } from "@gpve/domain/vm/argv/processor/cpu-models.ts";
import { cpuFlagRows } from "@gpve/domain/vm/host/cpu-flags.ts";
import type { CpuModelOptions, CpuModels } from "../../../application/cluster/cpu-models.ts";

export interface CpuHandlerDeps {
  readonly models: CpuModels;
  readonly board: NodeBoard;
}

export function createCpuHandlers({ models, board }: CpuHandlerDeps): PveHandlers {
  return {
    "GET /cluster/qemu/cpu-flags": ({ accel, arch }) =>
      arch === "aarch64" ? [] : cpuFlagRows(board.list(), accel ?? "kvm", "all"),
    "GET /cluster/qemu/custom-cpu-models": (_params, ctx) => models.list(ctx),
    "POST /cluster/qemu/custom-cpu-models": ({ cputype, ...options }) =>
      models.create(cputype, given(options)),
    "GET /cluster/qemu/custom-cpu-models/{cputype}": ({ cputype }) => models.get(cputype),
    "PUT /cluster/qemu/custom-cpu-models/{cputype}": ({ cputype, delete: remove, digest, ...options }) =>
      models.update(cputype, given(options), splitList(remove ?? ""), digest),
    "DELETE /cluster/qemu/custom-cpu-models/{cputype}": ({ cputype }) => models.remove(cputype),

    "GET /nodes/{node}/capabilities/qemu/cpu": ({ node, arch }, ctx) => {
      const hostArch = board.get(node)?.facts?.kernel.machine === "aarch64" ? "aarch64" : "x86_64";
      const vendors = cpuModelsOf(arch ?? hostArch, hostArch);
      const abstract = Object.entries(builtinCpuTypes)
        .filter(([, { model }]) => vendors.has(model))
        .map(([name]) => ({ name, vendor: "default", custom: 0, abstract: 1 }));
      const builtin = [...vendors].map(([name, vendor]) => ({ name, vendor, custom: 0 }));
      const custom = models.list(ctx).flatMap(({ cputype, "reported-model": reported }) => {
        const vendor = vendors.get(typeof reported === "string" ? reported : "kvm64");
        return vendor === undefined ? [] : [{ name: cputype, vendor, custom: 1 }];
      });
      return [...abstract, ...builtin, ...custom];
    },
    "GET /nodes/{node}/capabilities/qemu/cpu-flags": ({ accel, arch }) =>
      arch === "aarch64" ? [] : cpuFlagRows(board.list(), accel ?? "kvm", "vm"),
    "GET /nodes/{node}/capabilities/qemu/machines": ({ node, arch }) => {
      const facts = factsOf(board, node);
      if (arch !== undefined && arch !== facts.kernel.machine) return [];
      return machineRows(facts.qemu?.machines ?? []);
    },
    // State beside QEMU's own (connection tracking) is not carried to another node.
    "GET /nodes/{node}/capabilities/qemu/migration": ({ node }) => {
      factsOf(board, node);
      return { "has-dbus-vmstate": false };
    },
  };
}

/** Newest first, as versions count. */
function machineRows(machines: readonly string[]): Record<string, unknown>[] {
  return machines
    .flatMap((id) => {
      const match = /^pc-(i440fx|q35)-(\d.*)$/.exec(id);
      return match === null ? [] : [{ id, type: match[1], version: match[2] ?? "" }];
    })
    .toSorted(
      (a, b) => b.version.localeCompare(a.version, "en", { numeric: true }) || (a.id < b.id ? -1 : 1),
    );
}

function factsOf(board: NodeBoard, node: string): NodeFacts {
  const facts = board.get(node)?.facts;
  if (facts === undefined) throw missing(`nothing is known of node '${node}' yet`);
  return facts;
}

function given(options: Readonly<Record<string, unknown>>): CpuModelOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
