// Which node a new VM goes to that names none: the only one there is, or the one that the scheduler keeps a place on.
import { isObject } from "@gpve/client/response-error.ts";
import type { GpveClient } from "@gpve/client/client.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Input } from "../../input.ts";
import { serverDefaults } from "./server-defaults.ts";

export const AUTO = "auto";

export interface WantedVm {
  readonly vmid: number;
  readonly settings: Readonly<Record<string, unknown>>;
}

export async function chooseNode(client: GpveClient, input: Input, vm: WantedVm): Promise<string> {
  const named = input.text("node");
  if (named !== undefined && named !== AUTO) return named;
  const nodes = await client.pve.list("/nodes");
  const [only] = nodes;
  if (only === undefined) throw new AppError("node.unavailable", "there is no node");
  const strategy = input.text("strategy");
  if (nodes.length === 1 && named === undefined && strategy === undefined) return String(only["node"]);
  const storage = input.text("storage") ?? (await serverDefaults(client, String(only["node"]))).vmDisk;
  const kept = await client.v1.post("placements", {
    vmid: vm.vmid,
    config: configOf(input, vm, storage),
    starts: input.flag("start") || input.flag("console"),
    ...given({ tenant: input.text("pool") }),
    ...(strategy === undefined ? {} : { scheduling: { strategy } }),
  });
  if (isObject(kept) && typeof kept["node"] === "string") return kept["node"];
  throw new AppError("internal.error", "the server found a place and did not say where");
}

/** As far as it matters where it goes. */
function configOf(input: Input, { settings }: WantedVm, storage: string): Readonly<Record<string, string>> {
  const disk = input.number("disk") ?? (input.text("image") === undefined ? undefined : 1);
  const [bridge, iso] = [input.text("bridge"), input.text("iso")];
  return {
    cores: String(input.number("cores") ?? 1),
    memory: String(input.number("memory") ?? 1024),
    ...(disk === undefined ? {} : { scsi0: `${storage}:${disk}` }),
    ...(bridge === undefined || bridge === "none" ? {} : { net0: `virtio,bridge=${bridge}` }),
    ...(iso === undefined ? {} : { ide2: `${iso},media=cdrom` }),
    ...Object.fromEntries(Object.entries(settings).map(([key, value]) => [key, String(value)])),
  };
}
