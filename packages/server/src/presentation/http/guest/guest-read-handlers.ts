import { given } from "@gpve/contracts/given.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import { parameterError } from "@gpve/domain/request/failures.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { MovableGuests } from "../../../application/guest/movable-guests.ts";
import type { ReadGuests } from "../../../application/guest/read-guests.ts";
import type { NodeCalls } from "../../../application/node/call-agent.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export interface GuestReadDeps {
  readonly guests: ReadGuests;
  readonly movable: MovableGuests;
  readonly calls: NodeCalls;
}

type Row = Readonly<Record<string, unknown>>;

const BOTH = "cannot use 'snapshot' parameter with 'current'";
const STATUS = "GET /nodes/{node}/qemu/{vmid}/status/current";
/** Of the status of one VM, what its list does not have. */
const NOT_LISTED = new Set(["ha", "agent", "spice", "clipboard"]);
const ASK_AT_ONCE = 16;
const FEATURE = "GET /nodes/{node}/qemu/{vmid}/feature";

export function createGuestReadHandlers({ guests, movable, calls }: GuestReadDeps): PveHandlers {
  return {
    "GET /nodes/{node}/qemu": async ({ node, full }, ctx) => {
      const rawJson = guests.listJson(node, VM_TYPE, ctx);
      if (full !== true) return new PveReply({ rawJson });
      const rows = await fullRows(calls, node, JSON.parse(rawJson.toString()) as Row[], ctx);
      // As they come: what QEMU counts has true and false in it.
      return new PveReply({ rawJson: JSON.stringify(rows) });
    },
    "GET /nodes/{node}/lxc": ({ node }, ctx) => new PveReply({ rawJson: guests.listJson(node, "lxc", ctx) }),
    "GET /nodes/{node}/qemu/{vmid}/config": ({ node, vmid, current, snapshot }) => {
      if (current === true && snapshot !== undefined) throw parameterError({ snapshot: BOTH, current: BOTH });
      if (current !== true && snapshot === undefined) {
        const rawJson = guests.configJson(node, vmid);
        const id = String(vmid);
        return new PveReply({ rawJson, sameWhile: () => guests.isConfigJson(id, rawJson) });
      }
      return guests.configView(node, vmid, snapshot === undefined ? {} : { snapshot });
    },
    "GET /nodes/{node}/qemu/{vmid}/pending": ({ node, vmid }) => guests.pending(node, vmid),
    "GET /nodes/{node}/qemu/{vmid}/migrate": ({ node, vmid, target }) => {
      checkLock(guests.config(guests.find(node, VM_TYPE, vmid)));
      return movable.show(node, vmid, target);
    },
    // What its disks can do their node knows; where else they are, servers do.
    [FEATURE]: async ({ node, vmid, feature, snapname }, ctx) => {
      const asked = { vmid: String(vmid), feature, ...given({ snapname }) };
      const { data } = await calls.call(node, FEATURE, asked, ctx);
      return { ...(data as Row), nodes: movable.sharing(node, vmid, snapname) };
    },
  };
}

/** What only the QEMU of a running VM knows is asked there, a few at a time. */
async function fullRows(
  calls: NodeCalls,
  node: string,
  rows: readonly Row[],
  ctx: RequestContext,
): Promise<Row[]> {
  const shown = rows.map((row) => ({ ...row, qmpstatus: row["status"] }));
  const waiting = [...shown.entries()].filter(([, row]) => (row as Row)["status"] === "running");
  const ask = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [at, row] = next;
      const status = await statusOf(calls, node, (row as Row)["vmid"], ctx);
      const known = Object.entries(status).filter(([key]) => !NOT_LISTED.has(key));
      shown[at] = { ...row, ...Object.fromEntries(known) };
    }
  };
  await Promise.all(Array.from({ length: ASK_AT_ONCE }, ask));
  return shown;
}

async function statusOf(calls: NodeCalls, node: string, vmid: unknown, ctx: RequestContext): Promise<Row> {
  try {
    return ((await calls.call(node, STATUS, { vmid: String(vmid) }, ctx)).data ?? {}) as Row;
  } catch (err) {
    ignore(err, "it ended or went away just now; what was known of it is still shown");
    return {};
  }
}
