// Which VM a person means: its VMID, or its name when only one VM has it.
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ArgumentSpec } from "../../command.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export const vmArgument: ArgumentSpec = { name: "<vm>", about: "VMID or name" };

export interface VmPlace {
  readonly vmid: number;
  readonly node: string;
}

export async function findVm(client: GpveClient, text: string): Promise<VmPlace> {
  const rows = await client.pve.list("/cluster/resources", { type: "vm" });
  const vms = rows.filter((row) => row["type"] === VM_TYPE);
  const byId = vms.filter((row) => String(row["vmid"]) === text);
  const found = byId.length > 0 ? byId : vms.filter((row) => row["name"] === text);
  const [first] = found;
  if (first === undefined) {
    throw new AppError("object.not_found", `there is no VM ${text}`, {
      data: { next: "See what there is: gpvectl vm list." },
    });
  }
  if (found.length > 1) {
    const ids = found.map((row) => String(row["vmid"])).join(", ");
    throw new AppError("request.invalid", `several VMs are called ${text}: ${ids}`, {
      data: { next: "Name one by its VMID." },
    });
  }
  return { vmid: Number(first["vmid"]), node: String(first["node"]) };
}
