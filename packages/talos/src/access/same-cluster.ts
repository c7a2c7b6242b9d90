// Whether an authority that a person's file names is the cluster's own, now or before it was replaced.
import { fromBase64 } from "../secrets/base64-text.ts";
import { certificatePrints } from "../secrets/rotation.ts";

/** `found` and `ca` are base64 of PEM, `former` fingerprints. */
export function isOfCluster(found: unknown, ca: string, former: readonly string[]): boolean {
  if (typeof found !== "string") return false;
  if (found === ca) return true;
  const known = new Set([...former, ...certificatePrints(fromBase64(ca))]);
  return certificatePrints(fromBase64(found)).some((print) => known.has(print));
}
