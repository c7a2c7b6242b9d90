// How many devices of which kinds each worker of a cluster has: `workerNodes.devices`, and `devices` of a pool.
import { fieldsOf, type Fields } from "@gpve/contracts/json-object.ts";
import { invalidSpec } from "../invalid-spec.ts";
import { isDeviceKind } from "./cdi-spec.ts";

/** Kind -> how many. */
export type DeviceCounts = Readonly<Record<string, number>>;

interface Equipped {
  readonly workers: number;
  readonly devices?: DeviceCounts;
  readonly pools?: readonly {
    readonly name: string;
    readonly count: number;
    readonly devices?: DeviceCounts;
  }[];
}

const MOST_OF_A_KIND = 64;

/** undefined: none. */
export function readDeviceCounts(field: string, value: unknown): DeviceCounts | undefined {
  const entries = Object.entries(fieldsOf(value)).filter(([, count]) => count !== 0);
  for (const [kind, count] of entries) {
    if (!isDeviceKind(kind))
      throw invalidSpec(field, `'${kind}' is no kind of devices, such as nvidia.com/gpu`);
    if (typeof count !== "number" || !Number.isInteger(count) || count < 0 || count > MOST_OF_A_KIND)
      throw invalidSpec(field, `'${kind}' must be a whole number from 0 to ${MOST_OF_A_KIND}`);
  }
  return entries.length === 0 ? undefined : (Object.fromEntries(entries) as Record<string, number>);
}

export function shownDeviceCounts({ devices }: Pick<Equipped, "devices">): Fields {
  return devices === undefined ? {} : { devices: { ...devices } };
}

/** Whether workers have any, those that may come too. */
export function hasDevices({ devices, pools = [] }: Pick<Equipped, "devices" | "pools">): boolean {
  return devices !== undefined || pools.some((pool) => pool.devices !== undefined);
}

/** Of one worker of that pool; undefined = those of the cluster itself. */
export function devicesIn({ devices, pools = [] }: Equipped, pool: string | undefined): DeviceCounts {
  return (pool === undefined ? devices : pools.find(({ name }) => name === pool)?.devices) ?? {};
}

/** Of all workers together. */
export function totalDevices({ workers, devices, pools = [] }: Equipped): DeviceCounts {
  const sum: Record<string, number> = {};
  for (const group of [{ count: workers, devices }, ...pools])
    for (const [kind, each] of Object.entries(group.devices ?? {}))
      if (group.count > 0) sum[kind] = (sum[kind] ?? 0) + group.count * each;
  return sum;
}

/** Why a node that has these cannot have such workers; undefined: it can, as far as others leave them. */
export function whyTooFewDevices(spec: Equipped, has: DeviceCounts): string | undefined {
  const short = Object.entries(totalDevices(spec)).find(([kind, wanted]) => wanted > (has[kind] ?? 0));
  if (short === undefined) return undefined;
  const [kind, wanted] = short;
  return `its workers would have ${wanted} ${kind}, and the node offers ${has[kind] ?? 0}`;
}
