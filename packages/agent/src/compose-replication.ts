// Wires copies of VMs' disks on other nodes: those that this node sends, and those that it keeps.
import { given } from "@gpve/contracts/given.ts";
import { findMove, noOtherNodes } from "./application/guest/move-ports.ts";
import type { OwnHandlers } from "./application/agent.ts";
import { Replicas } from "./application/qemu/replicate/replicas.ts";
import { REPLICATE, replicateOperation } from "./application/qemu/replicate/replicate-operation.ts";
import { submitVmTask } from "./application/qemu/request/vm-tasks.ts";
import type { BackupVmPorts } from "./application/qemu/backup/backup-vm.ts";
import type { KindParts } from "./compose-kind.ts";

type ReplicaRoute =
  | "POST /gpve/nodes/{node}/vms/{vmid}/replicate"
  | "POST /gpve/nodes/{node}/vms/{vmid}/replica/recover"
  | "DELETE /gpve/nodes/{node}/vms/{vmid}/replica";

export function composeReplication(
  parts: Pick<KindParts, "records" | "engine" | "moves" | "backupTools" | "replicaNotes">,
  host: BackupVmPorts,
): { readonly routes: OwnHandlers<ReplicaRoute>; readonly replicas: Replicas } {
  const { records, engine, backupTools: tools } = parts;
  const { peers } = parts.moves ?? noOtherNodes(host.configs.node);
  const find = (vmid: number, moveId: string) => findMove(records(), { vmid, moveId });
  engine.register(replicateOperation({ ...host, moves: { peers, find } }, tools));
  const replicas = new Replicas({ ...host, tools, notes: parts.replicaNotes });
  return {
    replicas,
    routes: {
      "POST /gpve/nodes/{node}/vms/{vmid}/replicate": ({ vmid, job, target, moveId, rate, replaces }, ctx) =>
        submitVmTask(engine, REPLICATE, vmid, { job, target, moveId, ...given({ rate, replaces }) }, ctx),
      "POST /gpve/nodes/{node}/vms/{vmid}/replica/recover": async ({ vmid }) => {
        const { volumes, ...rest } = await replicas.recover(vmid);
        return { ...rest, volumes: [...volumes] };
      },
      "DELETE /gpve/nodes/{node}/vms/{vmid}/replica": async ({ vmid, keep }) => {
        await replicas.drop(vmid, keep);
        return null;
      },
    },
  };
}
