import { AppError } from "@gpve/contracts/errors.ts";

const MAX_NAME = 15;

/** PVE's name, `tap<vmid>i<n>`; carries the instance id where another data directory has that name already. */
export function tapName(
  vmid: number,
  nic: number,
  instance: { readonly id: string; readonly taken: (name: string) => boolean },
): string {
  const plain = `tap${vmid}i${nic}`;
  if (plain.length <= MAX_NAME && !instance.taken(plain)) return plain;
  const own = `g${instance.id}${(vmid * 64 + nic).toString(36)}`;
  if (own.length > MAX_NAME)
    throw new AppError("internal.error", `no interface name fits net${nic} of ${vmid}`);
  return own;
}

/** Why a host gives us no taps; undefined = it does. */
export function whyNoTaps(isRoot: boolean, exists: (path: string) => boolean): string | undefined {
  if (!isRoot) return "taps need root";
  return exists("/dev/net/tun") ? undefined : "this host has no /dev/net/tun";
}
