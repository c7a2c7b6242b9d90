// Who a machine is, derived from names alone: plans are the same wherever they are made, and a machine is recognised
// by platform and guest alike.
import { createHash } from "node:crypto";

/** RFC 9562's name space for what has a DNS-like name. */
const NAME_SPACE = Buffer.from("6ba7b8109dad11d180b400c04fd430c8", "hex");
/** The prefix under which PVE makes up addresses. */
const MAC_PREFIX = "BC:24:11";

/** SMBIOS UUID: version 5, of "machine.cluster". */
export function machineUuid(cluster: string, machine: string): string {
  const bytes = createHash("sha1")
    .update(NAME_SPACE)
    .update(`${machine}.${cluster}`, "utf8")
    .digest()
    .subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export function machineMac(cluster: string, machine: string, card: number): string {
  const digest = createHash("sha256")
    .update(JSON.stringify([cluster, machine, card]), "utf8")
    .digest("hex");
  return [MAC_PREFIX, ...(digest.slice(0, 6).toUpperCase().match(/../g) ?? [])].join(":");
}
