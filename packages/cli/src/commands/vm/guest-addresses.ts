// Where a guest is reached: asked of its agent, which may well be missing or still starting; then DHCP knows.
import type { GpveClient } from "@gpve/client/client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { VmPlace } from "./find-vm.ts";

/** Addresses others can use; none where neither its agent nor our DHCP says any. */
export async function guestAddresses(
  client: GpveClient,
  place: VmPlace,
  status: Readonly<Record<string, unknown>>,
): Promise<readonly string[]> {
  const told = await addressesByAgent(client, place, status);
  const leased = status["gpve-addresses"];
  return told.length > 0 || !Array.isArray(leased) ? told : leased.map(String);
}

async function addressesByAgent(
  client: GpveClient,
  place: VmPlace,
  status: Readonly<Record<string, unknown>>,
): Promise<readonly string[]> {
  if (status["qmpstatus"] !== "running" || Number(status["agent"] ?? 0) !== 1) return [];
  const answer = await client.pve
    .get("/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces", { ...place })
    .catch((err: unknown) => {
      // A VM is shown whatever its guest does.
      if (isAppError(err)) return undefined;
      throw err;
    });
  const cards = isObject(answer) && Array.isArray(answer["result"]) ? answer["result"].filter(isObject) : [];
  return cards.flatMap((card) => {
    const rows = Array.isArray(card["ip-addresses"]) ? card["ip-addresses"].filter(isObject) : [];
    return rows.map((row) => String(row["ip-address"])).filter((address) => !isOwn(address));
  });
}

/** Loopback and link-local addresses lead nowhere from outside. */
function isOwn(address: string): boolean {
  return /^127\.|^169\.254\.|^::1$|^fe80:/i.test(address);
}
