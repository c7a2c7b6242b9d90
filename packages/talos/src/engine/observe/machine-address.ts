// Where a machine answers: its guest has the address that it was made with, whatever the file says by now.
import { isIPv6 } from "node:net";
import type { Machine } from "../../cluster/machine.ts";
import { canonicalAddress } from "../../cluster/networks.ts";
import { uuidOf } from "../../preflight/check-guests.ts";
import type { SeenMachine } from "../world.ts";

type Wanted = Pick<Machine, "addresses" | "uuid">;

/** Of a guest that has its identity, an address that the file has another one for. */
export function formerAddressOf({ addresses, uuid }: Wanted, seen: SeenMachine): string | undefined {
  const { config = {} } = seen.guest ?? {};
  if (uuidOf(config) !== uuid) return undefined;
  const wanted = addresses.map(canonicalAddress);
  return [...(config["ipconfig0"] ?? "").matchAll(/(?:^|,)ip6?=([0-9a-fA-F.:]+)\//g)]
    .map(([, address = ""]) => canonicalAddress(address))
    .find((made) => !wanted.includes(made) && wanted.some((each) => isIPv6(each) === isIPv6(made)));
}

export const reachedAt = (machine: Wanted, seen: SeenMachine): string =>
  formerAddressOf(machine, seen) ?? machine.addresses[0] ?? "";
