// VMIDs and addresses that others have. Ours are known by tag and identity, never by their VMID alone.
import type { Machine } from "../cluster/machine.ts";
import { cloneMark } from "../cluster/templates.ts";
import { canonicalAddress } from "../cluster/networks.ts";
import type { Driver, GuestConfig, ObservedGuest } from "../driver/driver.ts";
import { error, type Finding } from "./finding-report.ts";

/** Machines of Talos and the load balancer's. */
export type Placed = Pick<Machine, "name" | "vmid" | "uuid" | "addresses">;

export interface KnownGuest {
  readonly guest: ObservedGuest;
  readonly config: GuestConfig;
}

/** Guests that a machine of the cluster is: its tag, its identity. */
export function isOurs({ guest, config }: KnownGuest, machine: Placed, clusterTag: string): boolean {
  if (!guest.tags.includes(clusterTag) || guest.isTemplate) return false;
  return uuidOf(config) === machine.uuid || (guest.vmid === machine.vmid && isMarked(config, machine.uuid));
}

/**
 * Cloned for a machine whose identity it does not have yet. Its VMID must be the machine's: clones copy descriptions. An
 * operator's own mark may stand below it.
 */
export function isMarked(config: GuestConfig, uuid: string): boolean {
  return config["description"]?.split("\n", 1)[0]?.trim() === cloneMark(uuid);
}

export function uuidOf(config: GuestConfig): string | undefined {
  return /(?:^|,)uuid=([0-9a-f-]+)/i.exec(config["smbios1"] ?? "")?.[1]?.toLowerCase();
}

/** Configurations of guests that matter; one that may not be read is nobody's. */
export async function readGuests(
  driver: Driver,
  guests: readonly ObservedGuest[],
): Promise<readonly KnownGuest[]> {
  return Promise.all(
    guests.map(async (guest) => ({
      guest,
      config: await driver.guestConfig({ host: guest.host, vmid: guest.vmid }).catch(() => ({})),
    })),
  );
}

export function checkGuests(
  machines: readonly Placed[],
  guests: readonly KnownGuest[],
  clusterTag: string,
): readonly Finding[] {
  return machines.flatMap((machine): readonly Finding[] => {
    const { name, vmid, addresses } = machine;
    const others = guests.filter((known) => !isOurs(known, machine, clusterTag));
    const holder = others.find(({ guest }) => guest.vmid === vmid);
    const taken = others.flatMap(({ guest, config }) =>
      guest.vmid === vmid
        ? []
        : addressesOf(config)
            .filter((address) => addresses.map(canonicalAddress).includes(address))
            .map((address) =>
              error("address-taken", name, `${address} is ${guest.name}'s (VMID ${guest.vmid})`),
            ),
    );
    return holder === undefined
      ? taken
      : [error("vmid-taken", name, `VMID ${vmid} is ${holder.guest.name} on ${holder.guest.host}`), ...taken];
  });
}

function addressesOf(config: GuestConfig): readonly string[] {
  return Object.entries(config)
    .filter(([key]) => /^ipconfig\d+$/.test(key))
    .flatMap(([, value]) => [...value.matchAll(/(?:^|,)ip6?=([0-9a-fA-F.:]+)\//g)])
    .map(([, address = ""]) => canonicalAddress(address));
}
