// VMIDs and addresses that others have. Ours are known by tag and identity, never by their VMID alone.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Machine } from "../cluster/machine.ts";
import { cloneMark } from "../cluster/templates.ts";
import { canonicalAddress } from "../cluster/networks.ts";
import type { Driver, GuestConfig, Observation, ObservedGuest } from "../driver/driver.ts";
import { error, type Finding } from "./finding-report.ts";

/** Machines of Talos and the load balancer's. */
export type Placed = Pick<Machine, "name" | "vmid" | "uuid" | "addresses">;

export interface KnownGuest {
  readonly guest: ObservedGuest;
  readonly config: GuestConfig;
  /** Why nothing is known of its configuration: its node is away. It is there all the same. */
  readonly unread?: string;
}

/** Guests that a machine of the cluster is: its tag, its identity. Of one that cannot be read the VMID has to do. */
export function isOurs({ guest, config, unread }: KnownGuest, machine: Placed, clusterTag: string): boolean {
  if (!guest.tags.includes(clusterTag) || guest.isTemplate) return false;
  const isItsPlace = guest.vmid === machine.vmid;
  return (
    uuidOf(config) === machine.uuid ||
    (isItsPlace && (unread !== undefined || isMarked(config, machine.uuid)))
  );
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

/**
 * Configurations of guests that matter. Of others, one that may not be read is nobody's. Ours must be read: who cannot be
 * looked at is not gone, and what is gone is made anew.
 */
export async function readGuests(
  driver: Driver,
  { guests, nodes }: Pick<Observation, "guests" | "nodes">,
  clusterTag: string,
): Promise<readonly KnownGuest[]> {
  return Promise.all(
    guests.map(async (guest): Promise<KnownGuest> => {
      const { host, vmid, tags } = guest;
      try {
        return { guest, config: await driver.guestConfig({ host, vmid }) };
      } catch (err) {
        const isOthers = !tags.includes(clusterTag);
        if (isOthers || isAppError(err, "object.not_found")) return { guest, config: {} };
        const isOnline = nodes.find(({ name }) => name === host)?.isOnline;
        const isSilent = isAppError(err) && err.kind === "unavailable";
        if (isOnline === true || (isOnline === undefined && !isSilent)) throw err;
        return { guest, config: {}, unread: messageOf(err) };
      }
    }),
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
