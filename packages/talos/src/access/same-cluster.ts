// Whether an authority that a person's file names is the cluster's own, now or before it was replaced.
import { certificatePrints } from "../secrets/rotation.ts";

/** `found` and `ca` are base64 of PEM, `former` fingerprints. */
export function isOfCluster(found: unknown, ca: string, former: readonly string[]): boolean {
  if (typeof found !== "string") return false;
  if (found === ca) return true;
  const known = new Set([...former, ...certificatePrints(decode(ca))]);
  return certificatePrints(decode(found)).some((print) => known.has(print));
}

const decode = (text: string): string => Buffer.from(text, "base64").toString("utf8");
