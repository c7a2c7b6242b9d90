// What all certificates that we make have alike.
import { webcrypto } from "node:crypto";

/** Keys, and what is signed with them. */
export const CURVE = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** Positive, and never the same twice. */
export function newSerialNumber(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return Buffer.from(bytes).toString("hex");
}

export function isAddress(name: string): boolean {
  return /^\d+\.\d+\.\d+\.\d+$/.test(name) || name.includes(":");
}

/** A name that a certificate holds for: of a host, or its address. */
export function alternativeName(value: string): { readonly type: "ip" | "dns"; readonly value: string } {
  return { type: isAddress(value) ? "ip" : "dns", value };
}
