// Which worker has which devices of its node. One device has one owner: what is taken here by one is nobody else's until that
// worker goes.
import { AppError } from "@gpve/contracts/errors.ts";
import type { CdiDevice, CdiSpec } from "./cdi-spec.ts";
import type { DeviceCounts } from "./worker-devices.ts";

/** As it is written down: the nodes tell which device it was, whatever it is called elsewhere. */
export interface OwnedDevice extends CdiDevice {
  readonly kind: string;
}

export interface DeviceGround {
  readonly offered: readonly CdiSpec[];
  /** Those of other workers. */
  readonly others: readonly OwnedDevice[];
  /** Files whose devices are not offered, and why. */
  readonly unread: readonly string[];
}

/** What the worker has already stays its own, also while the node does not offer it; throws, with numbers, where too few are left. */
export function takeDevices(
  worker: string,
  wanted: DeviceCounts,
  has: readonly OwnedDevice[],
  { offered, others, unread }: DeviceGround,
): readonly OwnedDevice[] {
  const mine: OwnedDevice[] = [];
  for (const [kind, count] of Object.entries(wanted)) {
    const kept = has.filter((device) => device.kind === kind).slice(0, count);
    mine.push(...kept);
    const all = offeredOf(kind, offered);
    const free = all.filter((device) => ![...others, ...mine].some((owned) => isSame(owned, device)));
    // Whose the others are is for nobody to know who reads this.
    if (kept.length + free.length < count)
      throw new AppError(
        "capacity.exceeded",
        `${worker} is to have ${count} ${kind}: this node offers ${all.length}, of which ${kept.length} are its own and ${[`${free.length} are free`, ...unread].join("; ")}`,
      );
    mine.push(...free.slice(0, count - kept.length));
  }
  return mine;
}

export function offeredOf(kind: string, specs: readonly CdiSpec[]): readonly OwnedDevice[] {
  const found = specs
    .filter((spec) => spec.kind === kind)
    .flatMap(({ devices }) => devices.map((device) => ({ ...device, kind })));
  // Two files may describe the same one.
  return found.filter((device, at) => found.findIndex((each) => isSame(each, device)) === at);
}

/** Parts of one device share nodes and are described as one kind; of two kinds, whatever shares a node is the same. */
function isSame(owned: OwnedDevice, other: OwnedDevice): boolean {
  if (owned.kind !== other.kind) return owned.nodes.some((node) => other.nodes.includes(node));
  if (owned.name === other.name) return true;
  return owned.nodes.length > 0 && owned.nodes.join("\n") === other.nodes.join("\n");
}
