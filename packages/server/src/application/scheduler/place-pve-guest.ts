// The extension of PVE's methods that make guests: `placement` = auto, or a strategy. The node in the path is then only
// the one that is asked; the guest is made where there is room, and the task is that node's.
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { parameterError } from "@gpve/domain/request/failures.ts";
import { STRATEGIES } from "@gpve/domain/scheduler/model.ts";
import { isStrategy } from "@gpve/domain/scheduler/policy.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import { readConfigUpdate } from "@gpve/domain/vm/change/config-update.ts";
import { AUTO, type NewGuest, type PlaceGuest } from "./place-guest.ts";

type Params = Readonly<Record<string, unknown>>;

const KINDS: Readonly<Record<string, NewGuest["kind"]>> = {
  "POST /nodes/{node}/qemu": "vm",
  "POST /nodes/{node}/lxc": "ct",
};

/** undefined = the node in the path is meant. */
export function askedPlacement(route: string, params: Params): string | undefined {
  const { placement } = params;
  return KINDS[route] === undefined || placement === undefined ? undefined : String(placement as string);
}

/** Makes it where there is room; `make` calls the node with what is left of the parameters. */
export async function placePveGuest<T>(
  guests: Pick<PlaceGuest, "run">,
  call: { readonly route: string; readonly params: Params; readonly source: "form" | "json" },
  ctx: RequestContext,
  make: (params: Params & { readonly node: string }) => Promise<T>,
): Promise<T> {
  const { placement, ...params } = call.params;
  const asked = String(placement as string);
  if (asked !== AUTO && !isStrategy(asked))
    throw parameterError({ placement: `'${asked}' is none of ${[AUTO, ...STRATEGIES].join(", ")}` });
  const method = methodByKey(call.route);
  // What is wrong with the rest is said before a place is looked for.
  const valid = method === undefined ? params : requireValidParams(method, params, { source: call.source });
  const kind = KINDS[call.route] ?? "vm";
  const pool = valid["pool"];
  return guests.run(
    {
      kind,
      vmid: Number(valid["vmid"]),
      keys: kind === "vm" ? vmKeys(valid) : ctKeys(valid),
      ...(typeof pool === "string" ? { tenant: pool } : {}),
      ...(isStrategy(asked) ? { rules: { strategy: asked } } : {}),
      starts: valid["start"] === true,
    },
    ctx,
    ({ node }) => make({ ...params, node }),
  );
}

function vmKeys(valid: Params): Readonly<Record<string, string>> {
  const { archive } = valid;
  const { set } = readConfigUpdate(valid, { mayBeEmpty: true });
  return typeof archive === "string" ? { ...set, archive } : set;
}

function ctKeys(valid: Params): Readonly<Record<string, string>> {
  const { rootfs = `${String((valid["storage"] as string | undefined) ?? "local")}:4`, ...keys } = valid;
  const drives = Object.entries({ ...keys, rootfs }).map(([key, value]) => [
    key,
    // "local:8" is a new volume of 8 GiB.
    String(value as string).replace(/^(?:volume=)?([^:,]+):(\d+(?:\.\d+)?)(?=,|$)/, "$1:new,size=$2G"),
  ]);
  return Object.fromEntries(drives) as Record<string, string>;
}
