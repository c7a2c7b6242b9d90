// Which node may make the record of which guest: noted by the server that tells an agent to make one, before it does,
// where every server sees it when the agent writes the record. A note is about one request, is used up by the record,
// and ends.
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";
import type { RemoteAgentConnection } from "./directory.ts";

export interface GuestPermit {
  readonly node: string;
  readonly at: number;
  /** Where whoever asked for the guest wants it. */
  readonly pool?: string;
}

export const permitCollection: CollectionDef<GuestPermit> = {
  prefix: "/gpve/guest-permits/",
  decode: (json) => json as GuestPermit,
};

/** Methods that make guests, and the parameter that names the new one. */
const MAKES_GUEST: Readonly<Record<string, string>> = {
  "POST /gpve/nodes/{node}/virtual-machines": "vmid",
  "POST /nodes/{node}/qemu": "vmid",
  "POST /nodes/{node}/lxc": "vmid",
  "POST /nodes/{node}/qemu/{vmid}/clone": "newid",
  "POST /nodes/{node}/lxc/{vmid}/clone": "newid",
};

/** A task that makes a guest may wait and copy for hours; nobody waits for longer. */
const KEPT_MS = 86_400_000;
const SWEPT_AT_ONCE = 50;

export function permitId(vmid: number | string, requestId: string): string {
  return `${vmid}.${requestId}`;
}

export function permits(permit: GuestPermit, guest: GuestRecord, now: number): boolean {
  return permit.node === guest.node && permit.pool === guest.wantedPool && now < permit.at + KEPT_MS;
}

/** Resolves when no node can make the guest any more that this request asked for. */
export async function withdrawPermit(records: Records, vmid: string, requestId: string): Promise<void> {
  await records.transact((tx) => tx.delete(permitCollection, permitId(vmid, requestId)));
}

export function withGuestPermits(
  agent: RemoteAgentConnection,
  { records, clock }: { readonly records: Records; readonly clock: Clock },
): RemoteAgentConnection {
  const permit = (id: string, pool: unknown): Promise<void> =>
    records.transact((tx) => {
      const now = clock.now();
      // Not a part of what is decided here: whoever makes many guests at once is not to wait for himself.
      const old = records.collection(permitCollection).list();
      for (const { id: ended } of old.filter(({ value }) => value.at + KEPT_MS < now).slice(0, SWEPT_AT_ONCE))
        tx.delete(permitCollection, ended);
      tx.put(permitCollection, id, {
        node: agent.node,
        at: now,
        ...(typeof pool === "string" ? { pool } : {}),
      });
    });
  return {
    node: agent.node,
    call: async (request, signal) => {
      const { params, decision, requestId } = request;
      const vmid = Number(params[MAKES_GUEST[decision.route] ?? ""]);
      if (Number.isSafeInteger(vmid) && vmid > 0) await permit(permitId(vmid, requestId), params["pool"]);
      return agent.call(request, signal);
    },
    ...(agent.tunnel === undefined ? {} : { tunnel: agent.tunnel.bind(agent) }),
    close: () => agent.close(),
  };
}
