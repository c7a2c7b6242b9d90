// Where a guest differs from what it should be. Spellings that mean the same are no difference.
import type { GuestConfig } from "../driver/driver.ts";
import type { Change } from "./plan-steps.ts";

/**
 * These take effect at once; all others when the machine starts again. Name servers are on the drive for the time before
 * a machine has a configuration, which says the same and goes before; a way out of the drive's stays beside another until
 * the next start.
 */
const HOT = new Set(["name", "tags", "protection", "nameserver", "searchdomain"]);
const defaults: Readonly<Record<string, string>> = { agent: "0", balloon: "0", protection: "0" };

export function compareGuest(wanted: GuestConfig, actual: GuestConfig): readonly Change[] {
  return Object.entries(wanted).flatMap(([key, to]): readonly Change[] => {
    const from = actual[key];
    const isSame = canonical(key, from ?? defaults[key] ?? "") === canonical(key, to);
    return isSame ? [] : [{ key, from: from ?? null, to }];
  });
}

export const isHot = (changes: readonly Change[]): boolean => changes.every(({ key }) => HOT.has(key));

/** GiB of a disk's "size=", rounded up; undefined when it does not say. */
export function diskGib(value: string | undefined): number | undefined {
  const [, amount, unit] = /(?:^|,)size=(\d+)([KMGT]?)/.exec(value ?? "") ?? [];
  if (amount === undefined) return undefined;
  const factor = { "": 1024 ** -3, K: 1024 ** -2, M: 1024 ** -1, G: 1, T: 1024 }[unit ?? ""] ?? 1;
  return Math.ceil(Number(amount) * factor);
}

function canonical(key: string, value: string): string {
  if (key === "smbios1") return (/(?:^|,)(uuid=[0-9a-f-]+)/i.exec(value)?.[1] ?? value).toLowerCase();
  if (key === "agent") return value.replace(/^enabled=/, "").split(",")[0] ?? "";
  if (key === "cpu") return value.replace(/^cputype=/, "");
  const parts = value.split(key === "tags" ? /[;, ]+/ : /,/).filter((part) => part !== "firewall=0");
  return parts
    .map((part) => (key === "net0" ? part.toUpperCase() : part))
    .toSorted((a, b) => (a < b ? -1 : 1))
    .join(",");
}
