// Which node may make the record of which guest: noted by the server that tells an agent to make one, before it does,
// where every server sees it when the agent writes the record.
import { NEW_VM_ROUTE } from "@gpve/domain/node/new-vm.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";
import type { RemoteAgentConnection } from "./directory.ts";

export interface GuestPermit {
  readonly node: string;
  readonly at: number;
}

export const permitCollection: CollectionDef<GuestPermit> = {
  prefix: "/gpve/guest-permits/",
  decode: (json) => json as GuestPermit,
};

/** Methods that make guests, and the parameter that names the new one. */
const MAKES_GUEST: Readonly<Record<string, string>> = {
  [NEW_VM_ROUTE]: "vmid",
  "POST /nodes/{node}/qemu": "vmid",
  "POST /nodes/{node}/lxc": "vmid",
  "POST /nodes/{node}/qemu/{vmid}/clone": "newid",
  "POST /nodes/{node}/lxc/{vmid}/clone": "newid",
};

/** A task that makes a guest may wait and copy for hours; nobody waits for longer. */
const KEPT_MS = 86_400_000;
const SWEPT_AT_ONCE = 50;

export function withGuestPermits(
  agent: RemoteAgentConnection,
  { records, clock }: { readonly records: Records; readonly clock: Clock },
): RemoteAgentConnection {
  const permit = (vmid: string): Promise<void> =>
    records.transact((tx) => {
      const now = clock.now();
      const old = tx.list(permitCollection).filter(({ value }) => value.at + KEPT_MS < now);
      for (const { id } of old.slice(0, SWEPT_AT_ONCE)) tx.delete(permitCollection, id);
      tx.put(permitCollection, vmid, { node: agent.node, at: now });
    });
  return {
    node: agent.node,
    call: async (request, signal) => {
      const vmid = Number(request.params[MAKES_GUEST[request.decision.route] ?? ""]);
      if (Number.isSafeInteger(vmid) && vmid > 0) await permit(String(vmid));
      return agent.call(request, signal);
    },
    ...(agent.tunnel === undefined ? {} : { tunnel: agent.tunnel.bind(agent) }),
    close: () => agent.close(),
  };
}
