import { randomBytes } from "node:crypto";

/** Proxmox VE's own range: locally administered addresses would do as well, but tools know this one. */
const DEFAULT_PREFIX = "BC:24:11";

/** `prefix`: whole bytes that the datacenter wants in front. */
export function newMac(prefix = DEFAULT_PREFIX): string {
  const random = [...randomBytes(6)].map((byte) => byte.toString(16).padStart(2, "0"));
  const given = prefix.split(":").filter((part) => part !== "");
  return [...given, ...random.slice(given.length)].join(":").toUpperCase();
}
