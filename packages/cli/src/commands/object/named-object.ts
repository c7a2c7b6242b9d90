// Objects as people name them: a virtual machine by its VMID or by its name, a virtual cluster by its name, with its tenant
// before it where several have one of that name (shop/demo), everything else by its name.
import type { GpveClient } from "@gpve/client/client.ts";
import type { V1Kind, V1Object } from "@gpve/client/object.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { findVm } from "../vm/find-vm.ts";

export interface ObjectPlace {
  /** Below /api/v1. */
  readonly collection: string;
  /** The name under which the API has it there. */
  readonly name: string;
  /** The tenant that was named. */
  readonly tenant?: string;
}

/** Where the API has it. */
export async function objectPlace(client: GpveClient, kind: V1Kind, name: string): Promise<ObjectPlace> {
  const { plural: collection } = kind;
  if (kind.kind === "VirtualCluster" && name.includes("/")) {
    const { name: own, tenant = "" } = splitName(name);
    return { collection: tenantPath(tenant, collection), name: own, tenant };
  }
  if (kind.kind !== "VirtualMachine" || /^\d+$/.test(name)) return { collection, name };
  return { collection, name: String((await findVm(client, name)).vmid) };
}

/** "lab/eu/demo": tenants have slashes, names have none. */
export function splitName(text: string): { readonly name: string; readonly tenant?: string } {
  const at = text.lastIndexOf("/");
  return at === -1 ? { name: text } : { tenant: text.slice(0, at), name: text.slice(at + 1) };
}

export function tenantPath(tenant: string, collection: string): string {
  return `tenants/${encodeURIComponent(tenant)}/${collection}`;
}

export async function namedObject(client: GpveClient, kind: V1Kind, named: string): Promise<V1Object> {
  try {
    const { collection, name } = await objectPlace(client, kind, named);
    return await client.v1.get(collection, name);
  } catch (err) {
    if (!isAppError(err, "object.not_found")) throw err;
    const next = err.data["next"] ?? `See what there is: gpvectl get ${kind.plural}.`;
    throw new AppError(err.code, err.message, { cause: err, data: { ...err.data, next } });
  }
}
