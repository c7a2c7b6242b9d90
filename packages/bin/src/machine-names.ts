import { hostname, networkInterfaces } from "node:os";

/** Host name without its domain, in the letters a PVE node name may have. */
export function machineName(): string {
  const name = (hostname().split(".")[0] ?? "").replaceAll(/[^A-Za-z0-9-]/g, "-").replaceAll(/^-+|-+$/g, "");
  return name === "" ? "node" : name;
}

/** Every name and address clients may use for a server that listens on `host`. */
export function certificateNames(name: string, host: string): readonly string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).map((entry) => entry.address),
  );
  const own = isWildcard(host) ? addresses.filter((address) => !address.includes("%")) : [host];
  return [...new Set([name, hostname(), "localhost", "127.0.0.1", "::1", ...own])];
}

/** The address others reach this machine by. */
export function reachableAddress(host: string): string {
  if (!isWildcard(host)) return host;
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return all.find((entry) => !entry.internal && entry.family === "IPv4")?.address ?? "127.0.0.1";
}

/**
 * Where agents of other machines reach a server, as far as its operator has said so; undefined = he has not. Addresses of
 * the machine are not guessed at: the first one may be of a bridge that nobody else reaches.
 */
export function toldAddress(host: string, etcdAddress: string | undefined): string | undefined {
  const told = isWildcard(host) ? etcdAddress : host;
  return told === undefined || /^(?:127\.|::1$|localhost$)/.test(told) ? undefined : told;
}

function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}
