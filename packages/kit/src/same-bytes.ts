import { timingSafeEqual } from "node:crypto";

/** In a time that tells nothing of where they differ. */
export function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

export function sameText(one: string, other: string): boolean {
  return sameBytes(Buffer.from(one), Buffer.from(other));
}
