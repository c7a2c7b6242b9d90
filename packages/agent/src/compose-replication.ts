// Wires copies of VMs' disks on other nodes: those that this node sends, and those that it keeps.
import { findMove, noOtherNodes } from "./application/guest/move-ports.ts";
import { replicaRoutes } from "./application/qemu/replicate/replica-routes.ts";
import { Replicas } from "./application/qemu/replicate/replicas.ts";
import { replicateOperation } from "./application/qemu/replicate/replicate-operation.ts";
import type { BackupVmPorts } from "./application/qemu/backup/backup-vm.ts";
import type { KindParts } from "./compose-kind.ts";

export function composeReplication(
  parts: Pick<KindParts, "records" | "engine" | "moves" | "backupTools" | "replicaNotes">,
  host: BackupVmPorts,
): { readonly routes: ReturnType<typeof replicaRoutes>; readonly replicas: Replicas } {
  const { records, engine, backupTools: tools } = parts;
  const { peers } = parts.moves ?? noOtherNodes(host.configs.node);
  const find = (vmid: number, moveId: string) => findMove(records(), { vmid, moveId });
  engine.register(replicateOperation({ ...host, moves: { peers, find } }, tools));
  const replicas = new Replicas({ ...host, tools, notes: parts.replicaNotes });
  return { replicas, routes: replicaRoutes(engine, replicas) };
}
