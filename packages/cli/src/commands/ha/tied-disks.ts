// What of a guest only its node has: no rule and no manager can start it elsewhere when that node is lost.
import type { GpveClient } from "@gpve/client/client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import { ignore } from "@gpve/kit/background.ts";

/** A sentence for who has just put it under HA; undefined: nothing is known to be in the way. */
export async function whyItWouldWait(client: GpveClient, guest: string): Promise<string | undefined> {
  const vmid = Number(/\d+$/.exec(guest)?.[0]);
  try {
    const rows = await client.pve.list("/cluster/resources", { type: "vm" });
    const { node, type } = rows.find((row) => row["vmid"] === vmid) ?? {};
    if (typeof node !== "string" || type !== VM_TYPE) return undefined;
    const facts = await client.pve.get("/nodes/{node}/qemu/{vmid}/migrate", { node, vmid });
    const { local_disks: disks, local_resources: devices } = isObject(facts) ? facts : {};
    const attached = (Array.isArray(disks) ? disks : []).filter(
      (each) => isObject(each) && each["is_attached"],
    );
    const names = [
      ...attached.map(
        (each: Record<string, unknown>) => `${String(each["drivename"])} (${String(each["volid"])})`,
      ),
      ...(Array.isArray(devices) ? devices.map(String) : []),
    ];
    if (names.length === 0) return undefined;
    return `Should ${node} be lost, ${guest} waits for it: only ${node} has ${names.join(", ")}. HA starts elsewhere what is on storages that other nodes have too.`;
  } catch (err) {
    ignore(err, "who may put it under HA need not be allowed to move it");
    return undefined;
  }
}
