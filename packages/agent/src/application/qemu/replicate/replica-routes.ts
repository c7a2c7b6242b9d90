// Copies of VMs' disks, as servers ask for them: those that this node sends, and those that it keeps.
import { given } from "@gpve/contracts/given.ts";
import type { OwnHandlers } from "../../agent.ts";
import { submitVmTask } from "../request/vm-tasks.ts";
import type { Replicas } from "./replicas.ts";
import { REPLICATE } from "./replicate-operation.ts";

type ReplicaRoute =
  | "POST /gpve/nodes/{node}/vms/{vmid}/replicate"
  | "POST /gpve/nodes/{node}/vms/{vmid}/replica/recover"
  | "DELETE /gpve/nodes/{node}/vms/{vmid}/replica";

export function replicaRoutes(
  engine: Parameters<typeof submitVmTask>[0],
  replicas: Pick<Replicas, "recover" | "drop">,
): OwnHandlers<ReplicaRoute> {
  return {
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
  };
}
