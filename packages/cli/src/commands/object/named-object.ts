// Objects as people name them: a virtual machine by its VMID or by its name, everything else by its name.
import type { GpveClient } from "@gpve/client/client.ts";
import type { V1Kind, V1Object } from "@gpve/client/object.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { findVm } from "../vm/find-vm.ts";

/** The name under which the API has it. */
export async function objectName(client: GpveClient, kind: V1Kind, name: string): Promise<string> {
  if (kind.kind !== "VirtualMachine" || /^\d+$/.test(name)) return name;
  return String((await findVm(client, name)).vmid);
}

export async function namedObject(client: GpveClient, kind: V1Kind, name: string): Promise<V1Object> {
  try {
    return await client.v1.get(kind.plural, await objectName(client, kind, name));
  } catch (err) {
    if (!isAppError(err, "object.not_found")) throw err;
    const next = err.data["next"] ?? `See what there is: gpvectl get ${kind.plural}.`;
    throw new AppError(err.code, err.message, { cause: err, data: { ...err.data, next } });
  }
}
