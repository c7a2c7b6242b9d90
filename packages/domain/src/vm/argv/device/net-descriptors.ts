// Which descriptors the NICs of a guest get: a tap per queue, and the kernel's virtio backend where it can be used.
import type { NetDevice } from "../../config/property-types.ts";
import type { VmValues } from "../../config/vm-config.ts";
import { listNets } from "../../config/vm-network.ts";
import type { NetDescriptors } from "../command-input.ts";
import { guestArch } from "../processor/guest-arch.ts";
import type { HostFacts } from "../host-facts.ts";

export interface DescriptorPlan {
  /** NICs on bridges, each with the descriptor of its first queue. */
  readonly cards: readonly { readonly key: string; readonly net: NetDevice; readonly firstFd: number }[];
  readonly vhost: { readonly count: number; readonly firstFd: number } | undefined;
  /** By the configuration's keys. */
  readonly descriptors: Readonly<Record<string, NetDescriptors>>;
  /** The first descriptor that is free again. */
  readonly end: number;
}

/** Queues of all taps first, then vhost: that is the order in which descriptors are passed. */
export function planDescriptors(
  values: VmValues,
  host: Pick<HostFacts, "arch" | "vhostNet">,
  first: number,
  hasTap: (net: NetDevice) => boolean = (net) => net.bridge !== undefined,
): DescriptorPlan {
  let fd = first;
  const take = (count: number) => Array.from({ length: count }, () => fd++);
  const taps = listNets(values)
    .filter(({ net }) => hasTap(net))
    .map(({ key, net }) => ({ key, net, tap: take(tapQueues(net)) }));
  const firstVhost = fd;
  const descriptors: Record<string, NetDescriptors> = {};
  for (const { key, net, tap } of taps)
    descriptors[key] = { tap, ...(usesVhost(net, values, host) ? { vhost: take(tap.length) } : {}) };
  return {
    cards: taps.map(({ key, net, tap }) => ({ key, net, firstFd: tap[0] ?? first })),
    vhost: fd > firstVhost ? { count: fd - firstVhost, firstFd: firstVhost } : undefined,
    descriptors,
    end: fd,
  };
}

/** Other cards than virtio's have one queue, whatever their configuration says. */
export function tapQueues(net: NetDevice): number {
  return net.model === "virtio" ? Math.max(1, net.queues ?? 1) : 1;
}

/** The kernel's backend speaks to guests of the host's own architecture. */
export function usesVhost(
  net: NetDevice,
  values: VmValues,
  host: Pick<HostFacts, "arch" | "vhostNet">,
): boolean {
  return host.vhostNet && net.model === "virtio" && guestArch(values, host) === host.arch;
}
