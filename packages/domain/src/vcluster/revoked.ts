// Kubeconfigs that were taken back. Their bindings are gone; but who administered a cluster can have bound whom his certificate
// names to other roles before. So each is denied until no certificate that was given out by then can be good.
import type { Fields } from "@gpve/contracts/json-object.ts";
import { KUBECONFIG_ID, LONGEST_MS } from "./kubeconfig.ts";

/** Until when each is denied, in milliseconds since 1970, by its id. */
export type RevokedKubeconfigs = Readonly<Record<string, number>>;

/** What an API server judges every request by has an end; those that were revoked last count. */
const MOST = 500;

export function withRevoked(before: RevokedKubeconfigs, id: string, now: number): RevokedKubeconfigs {
  const still = Object.entries(before).filter(([, until]) => until > now);
  return mergeRevoked(Object.fromEntries(still), { [id]: now + LONGEST_MS });
}

/** What one node knows beside what another does: what was taken back once stays so. */
export function mergeRevoked(some: RevokedKubeconfigs, others: RevokedKubeconfigs): RevokedKubeconfigs {
  const all = new Map(Object.entries(some));
  for (const [id, until] of Object.entries(others)) all.set(id, Math.max(until, all.get(id) ?? 0));
  const latest = [...all].toSorted(([a, aUntil], [b, bUntil]) => bUntil - aUntil || (a < b ? -1 : 1));
  return Object.fromEntries(latest.slice(0, MOST));
}

/** From a file that may have come with a cluster: what is no id comes into no rule. */
export function readRevoked(said: unknown): RevokedKubeconfigs {
  if (typeof said !== "object" || said === null) return {};
  const known = Object.entries(said as Fields).flatMap(([id, until]) =>
    KUBECONFIG_ID.test(id) && typeof until === "number" ? [[id, until] as const] : [],
  );
  return mergeRevoked({}, Object.fromEntries(known));
}
