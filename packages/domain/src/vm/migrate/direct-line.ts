// A line by which the RAM of a running guest goes from one QEMU to the other without passing through an agent: QEMU encrypts
// it with a key made for this one move, and two small processes of ours carry it. The source offers the key, the target says
// where it is waited for and by which secret; either may have it go by way of the agents in place of that.
import { memoryMiB } from "../config/vm-properties.ts";
import type { VmValues } from "../config/vm-config.ts";
import type { MoveLine, RamTransfer } from "./ram-transfer.ts";

/** Where the other node waits for the line of one move. The secret is said in plain: it opens that port, once, and nothing else. */
export interface DirectPlace {
  readonly port: number;
  readonly secret: string;
}

/** What the source is told of the way. */
export interface RamWay {
  /** undefined = by one connection, as it is. */
  readonly transfer?: RamTransfer;
  /** QEMU there expects it encrypted, at that place. */
  readonly direct?: DirectPlace;
  /** Why there is no such line, where one was offered. */
  readonly refused?: string;
}

/** What the target makes of what it was offered. */
export interface TakenRam {
  readonly transfer?: RamTransfer;
  /** Its QEMU takes nothing but what is encrypted with the key that was offered. */
  readonly isEncrypted?: true;
  readonly refused?: string;
}

/**
 * TLS takes a new key after 2^24 records of 16 KiB, 256 GiB, in the midst of which QEMU 7.2 reads and writes by two threads, which
 * GnuTLS is not made for. No line carries so much.
 */
export const MOST_DIRECT_BYTES = 192 * 1024 ** 3;
/** Some passes over its RAM. */
const MOST_GUEST_MIB = 64 * 1024;

/** As 64 digits: 256 bits. */
export function isKey(value: unknown): value is string {
  return typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
}

/** Lines between regions go by several connections, and what is compressed is by agents and QEMU as they agree on it. */
export function isDirectWanted({ isFar = false, compression }: MoveLine, values: VmValues): boolean {
  return !isFar && compression !== "on" && memoryMiB(values["memory"]) <= MOST_GUEST_MIB;
}

/** As another node says it, maybe of another version. */
export function decodeDirect(json: unknown): DirectPlace | undefined {
  const { port, secret } = (json ?? {}) as Partial<DirectPlace>;
  return Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536 && isKey(secret)
    ? { port: Number(port), secret }
    : undefined;
}
